"""A folder in which sampled pairs are found again.

Not by `joblib.Memory`, of which only the folder is taken: it keeps results as pickles,
which run what they say when they are read, and it knows functions by their names, so
that one that was changed, or closes over something else, would be answered with the
pairs of another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, Self

import joblib
import sklearn

from skparisk._validate import is_whole
from skparisk.calibration import SampledPairs
from skparisk.exceptions import warn_caller
from skparisk.queries import Query
from skparisk.reference import Reference
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity._digest import (
    NoDigestError,
    build,
    digest,
    digest_or_none,
    versions,
)
from skparisk.sensitivity._document import (
    FORMAT_VERSION,
    DamagedFileError,
    as_written,
    from_written,
    pack,
    unpack,
    write_whole,
)

_FOLDER = "skparisk-pairs"
_FORMAT, _BESIDE = "skparisk.pairs", "skparisk.beside_pairs"
# Bytes of files of which the contents of the last few stay in memory: a grid reads the
# same ones in each of its fits.
_SMALL = 2**20


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
        if not is_whole(random_state):
            raise ValueError(
                "random_state must be a whole number with a memory, because other "
                f"pairs are drawn each time with {random_state!r}, so that none is "
                "found again. Set one, or leave memory None."
            )
        return cls(Path(os.fspath(location)).absolute() / _FOLDER)

    def key_of(
        self,
        query: Query,
        reference: Reference,
        sketch: RecordSketch | None,
        about: dict[str, Any],
    ) -> Key:
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
        records = known["reference"] if sketch is None else digest(sketch.features)
        return Key(records, known["query"], known["reference"], about, *_made_by())

    def folder_of(self, key: Key) -> Path:
        """Return where all pairs of the records of a reference are."""
        return self._location / key.records

    def find(self, key: Key) -> SampledPairs | None:
        """Return pairs that were kept, or None. Damaged ones are not trusted."""
        found: SampledPairs | None = _find(
            self._path(key), _FORMAT, "The pairs in {} are drawn", from_written
        )
        return found

    def keep(self, key: Key, pairs: SampledPairs) -> None:
        """Write pairs, for others to find."""
        _keep(self._path(key), _FORMAT, *as_written(pairs))

    def _path(self, key: Key) -> Path:
        return self.folder_of(key) / f"{key.digest}.npz"


def kept_beside(
    pairs: SampledPairs, about: Any, make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return a document of what else follows from a reference: kept beside its pairs.

    It is made of the reference and `about`, of nothing else and of no private record.
    Where pairs are not kept, or `about` is not known again, it is made each time.
    """
    drawing, known = pairs.drawing, None
    if drawing is not None and drawing.kept is not None:
        known = digest_or_none([drawing.reference, about, _made_by()])
    if known is None:
        return make()
    assert drawing is not None
    assert drawing.kept is not None
    path = drawing.kept / f"beside-{known}.npz"
    found = _find(path, _BESIDE, "What is in {} is made", lambda document, _: document)
    if found is None:
        found = make()
        _keep(path, _BESIDE, found, {})
    return found


def _find(
    path: Path, kind: str, what: str, read: Callable[[Any, Any], Any]
) -> Any | None:
    """Return what was kept, or None. What is damaged is not trusted."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        read_in = _contents if len(data) <= _SMALL else _contents.__wrapped__
        document, arrays = read_in(data, kind)
        if document["key"] != path.stem:
            raise DamagedFileError("holds other contents than its name says")
        return read(document, arrays)
    except DamagedFileError as error:
        warn_caller(
            f"{what.format(path)} again, because the file {error}.", UserWarning
        )
        return None


@lru_cache(maxsize=8)
def _contents(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was packed, which nobody may change: it is the same for each fit.

    Its bytes are all that it follows from.
    """
    document, arrays = unpack(data, kind, FORMAT_VERSION)
    for array in arrays.values():
        array.flags.writeable = False
    return document, arrays


def _keep(
    path: Path, kind: str, document: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write a file, for others to find."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {**document, "key": path.stem}
    write_whole(path, pack(kind, FORMAT_VERSION, named, arrays))


def forget_kept(pairs: SampledPairs) -> None:
    """Remove all that is kept of the reference of pairs, which is private after all."""
    if pairs.drawing is not None and pairs.drawing.kept is not None:
        _contents.cache_clear()
        with suppress(FileNotFoundError):
            rmtree(pairs.drawing.kept)


def _made_by() -> tuple[dict[str, str], dict[str, Any]]:
    """Return versions, and settings, as what estimators do depends on them as well."""
    return {**versions(), "build": build()}, _settings()


def _settings() -> dict[str, Any]:
    """Return what scikit-learn was told to do otherwise, but for what it shows."""
    shown = ("display", "print_changed_only")
    return {
        name: value for name, value in sklearn.get_config().items() if name not in shown
    }
