"""A folder in which sampled pairs are found again.

Not by `joblib.Memory`, of which only the folder is taken: it keeps results as pickles,
which run what they say when they are read, and it knows functions by their names, so
that one that was changed, or closes over something else, would be answered with the
pairs of another.
"""

from __future__ import annotations

import os
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, Self

import joblib
import sklearn

from skparisk.calibration import SampledPairs
from skparisk.exceptions import warn_caller
from skparisk.queries import Query
from skparisk.reference import Reference
from skparisk.sensitivity._digest import NoDigestError, build, digest, versions
from skparisk.sensitivity._document import (
    DamagedFileError,
    pack,
    unpack,
    write_whole,
)
from skparisk.sensitivity._written import FORMAT_VERSION, as_written, from_written

__all__ = ["PairStore", "forget_kept"]

_FOLDER = "skparisk-pairs"
_FORMAT = "skparisk.pairs"


class Key(NamedTuple):
    """By what pairs are known again: all that they depend on.

    `records` says which people are in the reference, in whatever order and form.
    """

    records: str
    query: str
    reference: str
    about: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, Any]

    @property
    def digest(self) -> str:
        """What the file of the pairs is named by."""
        return digest(tuple(self))


class PairStore:
    """Sampled pairs in files, each of them whole: many processes may write them.

    A folder for the records of each reference, so that nothing is left of those that
    turn out to be private. Who can write to the folder decides what is found there.
    """

    def __init__(self, location: Path) -> None:
        self._location = location

    @classmethod
    def of(cls, memory: Any, random_state: Any) -> Self | None:
        """Return where a sampler keeps its pairs, or None if it does not."""
        location = memory.location if isinstance(memory, joblib.Memory) else memory
        if location is None:
            return None
        if not isinstance(location, str | os.PathLike):
            raise ValueError(
                "memory must be None, the path of a folder or a joblib.Memory, got "
                f"{memory!r}."
            )
        whole = isinstance(random_state, Integral)
        if not whole or isinstance(random_state, bool):
            raise ValueError(
                "random_state must be a whole number with a memory, because other "
                f"pairs are drawn each time with {random_state!r}, so that none is "
                "found again. Set one, or leave memory None."
            )
        return cls(Path(os.fspath(location)).absolute() / _FOLDER)

    def key_of(self, query: Query, reference: Reference, about: dict[str, Any]) -> Key:
        """Return by what pairs are known again, or refuse what is not."""
        known = {}
        for name, part in (("query", query), ("reference", reference)):
            try:
                known[name] = digest(part)
            except NoDigestError as error:
                raise ValueError(
                    f"memory must be None with this {name}: it holds {error}, which "
                    "may change without a trace, so that pairs of something else would "
                    "be found. What numpy, scipy, scikit-learn and skparisk define is "
                    "known again; or keep the fitted sampler, by sampler.save(path)."
                ) from error
        built = {**versions(), "build": build()}
        sketch = reference.sketch
        records = known["reference"] if sketch is None else digest(sketch.features)
        # What estimators do depends on the settings as well.
        return Key(
            records, known["query"], known["reference"], about, built, _settings()
        )

    def folder_of(self, key: Key) -> Path:
        """Return where all pairs of the records of a reference are."""
        return self._location / key.records

    def find(self, key: Key) -> SampledPairs | None:
        """Return pairs that were kept, or None. Damaged ones are not trusted."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            document, arrays = unpack(data, _FORMAT, FORMAT_VERSION)
            if document["key"] != key.digest:
                raise DamagedFileError("holds other pairs than its name says")
            return from_written(document, arrays)
        except DamagedFileError as error:
            warn_caller(
                f"The pairs in {path} are drawn again, because the file {error}.",
                UserWarning,
            )
            return None

    def keep(self, key: Key, pairs: SampledPairs) -> None:
        """Write pairs, for others to find."""
        document, arrays = as_written(pairs)
        document["key"] = key.digest
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, pack(_FORMAT, FORMAT_VERSION, document, arrays))

    def _path(self, key: Key) -> Path:
        return self.folder_of(key) / f"{key.digest}.npz"


def forget_kept(pairs: SampledPairs) -> None:
    """Remove all that is kept of the reference of pairs, which is private after all."""
    if pairs.drawing is not None and pairs.drawing.kept is not None:
        with suppress(FileNotFoundError):
            rmtree(pairs.drawing.kept)


def _settings() -> dict[str, Any]:
    """Return what scikit-learn was told to do otherwise, but for what it shows."""
    shown = ("display", "print_changed_only")
    return {
        name: value for name, value in sklearn.get_config().items() if name not in shown
    }
