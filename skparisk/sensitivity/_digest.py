"""By what queries and references are known again, in another fit or another process.

A digest must differ wherever an answer may differ. So it is made of all that an object
holds, and there is none of what cannot be seen through: a function of one's own may
call others that change, while `joblib.hash` knows functions by their names alone. What
numpy, scipy, scikit-learn and this package define is known by its name, as their
versions are said.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import platform
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import sklearn
from numpy.typing import NDArray
from scipy import sparse

from skparisk._version import __version__
from skparisk.reference import CallableReference, DensityReference, TableReference
from skparisk.reference._mapped import stretches
from skparisk.reference._records import columns_of, is_frame

# What these define is known by its name.
_PACKAGES = frozenset({"skparisk", "numpy", "scipy", "sklearn"})
_OF_PYTHON = frozenset({"builtins", "copyreg", "functools", "math", "operator"})
_PLAIN = (bool, int, float, complex, type(None), type(...))
# Their texts say all of them.
_SAID = (
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    Decimal,
    range,
    slice,
)


class NoDigestError(TypeError):
    """Something is not known again: what it does may change without a trace."""


def versions() -> dict[str, str]:
    """Return the versions that answers depend on."""
    return {
        "skparisk": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "Python": platform.python_version(),
    }


@functools.cache
def build() -> str:
    """Return a digest of the sources of this package: a version may be worked on."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        source = path.read_bytes()
        found.update(f"{path.name}:{len(source)}:".encode())
        found.update(source)
    return found.hexdigest()


def digest(value: Any) -> str:
    """Return what a value is known by, or raise NoDigestError."""
    found = hashlib.sha256()
    _Feed(found.update).feed(value)
    return found.hexdigest()


def digest_or_none(value: Any) -> str | None:
    """Return what a value is known by, or None if it is not known again.

    What others wrote may fail in any way when it is looked at, as where methods of
    arrays are compared: no fit fails by it.
    """
    try:
        return digest(value)
    except Exception:
        return None


class _Feed:
    """Writes values as bytes that no other values are written as."""

    def __init__(self, update: Callable[[Any], None]) -> None:
        self._update = update
        self._open: set[int] = set()

    def feed(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._write(kind.__name__, repr(value).encode())
        elif kind is str:
            self._write("str", value.encode(errors="surrogatepass"))
        elif kind is bytes:
            self._write("bytes", value)
        elif kind in _SAID:
            self._write(kind.__name__, repr(value).encode())
        elif isinstance(value, np.generic):
            self._write(f"scalar {value.dtype.str}", value.tobytes())
        elif kind in (np.ndarray, np.memmap):
            self._feed_array(value)
        elif _is_na(value):
            self._write(f"pandas {kind.__name__}", b"")
        elif isinstance(value, np.dtype):
            self._write("dtype", repr(value).encode())
        else:
            self._feed_parts(value)

    def _feed_parts(self, value: Any) -> None:
        """Write what is made of other values, none of which may be itself."""
        if id(value) in self._open:
            raise NoDigestError(f"an object that holds itself ({type(value).__name__})")
        self._open.add(id(value))
        name, parts = _parts(value)
        self._feed_all(name, parts)
        self._open.remove(id(value))

    def _feed_all(self, name: str, parts: Iterable[Any]) -> None:
        self._write(name, b"")
        for part in parts:  # one after the other: a table is not copied
            self.feed(part)
        self._write("end", b"")

    def _feed_objects(self, values: list[Any]) -> None:
        """Write values of which most are texts, as in columns of a table, at once."""
        texts = [value for value in values if type(value) is str]
        is_text = np.fromiter((type(v) is str for v in values), bool, len(values))
        self._feed_array(is_text)
        self._feed_array(np.fromiter(map(len, texts), np.int64, len(texts)))
        self.feed("".join(texts))
        others = [value for value in values if type(value) is not str]
        if others.count(None) < len(others):
            self._feed_all("others", others)

    def _feed_array(self, array: NDArray[Any]) -> None:
        if array.dtype.hasobject or array.dtype.kind == "T":
            self._write(f"objects {array.shape}", b"")
            self._feed_objects(array.ravel().tolist())
            return
        if array.dtype.names is not None:  # of bytes between fields nobody knows
            self._feed_all(
                f"fields {array.dtype!r}", [array[name] for name in array.dtype.names]
            )
            return
        # In which order it is in memory decides how sums of it are rounded.
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        order = "F" if by_columns else "C" if array.flags.c_contiguous else "other"
        self._write_head(f"array {array.dtype.str} {array.shape} {order}", array.nbytes)
        # A stretch at a time: neither `tobytes` nor a contiguous array, which copy all.
        for rows in stretches(np.atleast_1d(array.T if by_columns else array)):
            self._update(np.ascontiguousarray(rows).reshape(-1).view(np.uint8))

    def _write(self, tag: str, data: Any) -> None:
        self._write_head(tag, len(data))
        self._update(data)

    def _write_head(self, tag: str, size: int) -> None:
        self._update(f"{len(tag)}:{size}:{tag}".encode(errors="surrogatepass"))


def _parts(value: Any) -> tuple[str, Iterable[Any]]:
    """Return a name and parts that together say all of a value."""
    kind = type(value)
    if kind in (list, tuple):
        return kind.__name__, value
    if kind is dict:
        return "dict", [each for item in value.items() for each in item]
    if kind in (set, frozenset):
        return kind.__name__, sorted(map(digest, value))
    if kind is functools.partial:
        return "partial", [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType | types.BuiltinMethodType):
        owner = value.__self__
        if not (owner is None or isinstance(owner, types.ModuleType)):
            if getattr(owner, value.__name__, None) != value:
                raise NoDigestError(f"a method {value.__name__} of no class")
            return f"method {value.__name__}", [owner]
    if isinstance(value, type | np.ufunc) or hasattr(value, "__qualname__"):
        return f"name {_known_name(value)}", []
    if is_frame(value):
        return _parts_of_frame(value)
    return f"object {_known_name(kind)}", _parts_of_object(value)


def _known_name(value: Any) -> str:
    """Return the name of what a known package defines, by which it is found there."""
    module = str(getattr(value, "__module__", None))
    name = str(getattr(value, "__qualname__", ""))
    if isinstance(value, np.ufunc):  # which need not say where it is from
        name = value.__name__
        module = "numpy" if getattr(np, name, None) is value else "scipy.special"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    package = module.partition(".")[0]
    if package not in _PACKAGES | _OF_PYTHON or found is not value:
        what = "the class" if isinstance(value, type) else "the function"
        raise NoDigestError(f"{what} {name or repr(value)} of {module}")
    return f"{module}.{name}"


def _parts_of_frame(frame: Any) -> tuple[str, Iterable[Any]]:
    """Return the columns of a data frame; the index is no part of records."""
    package = type(frame).__module__.partition(".")[0]
    if package not in ("pandas", "polars"):
        raise NoDigestError(f"a data frame of {package}")
    return f"frame {package}", _columns_and_kinds(frame, package)


def _columns_and_kinds(frame: Any, package: str) -> Iterator[Any]:
    yield sys.modules[package].__version__
    kinds = [*frame.dtypes]
    for name, kind, column in zip(frame.columns, kinds, columns_of(frame), strict=True):
        # Categories are known by their order, which need not be that of values.
        listed = package == "pandas" and hasattr(kind, "categories")
        yield from (name, repr(kind), [*kind.categories] if listed else [], column)


def _is_na(value: Any) -> bool:
    """Tell if it is what pandas has for nothing, of which there are two."""
    kind = type(value)
    pandas = kind.__module__.startswith("pandas.")
    return pandas and kind.__name__ in ("NAType", "NaTType")


def _parts_of_object(value: Any) -> Iterable[Any]:
    """Return what an object of a known class holds."""
    kind = type(value)
    if kind is TableReference:
        pool = value.pool
        note, domain = value._note, value.domain
        return [pool.X, pool.y, value.sampling, value.clip, note, domain]
    if kind is DensityReference:
        return [value.density, value.target_columns]
    if kind is CallableReference:
        return [value.sample, value.description]
    if isinstance(value, np.random.RandomState):
        return [value.get_state(legacy=False)]
    if isinstance(value, np.random.Generator):
        return [value.bit_generator.state]
    if sparse.issparse(value) and value.format == "csr":
        return [value.shape, value.data, value.indices, value.indptr]
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return [each for name in fields for each in (name, getattr(value, name))]
    if kind.__module__.startswith("skparisk.") and hasattr(value, "__dict__"):
        return [_state_of(value)]
    return _pickled_parts(value)


def _state_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, without what is only kept for later."""
    kind = type(value)
    return {
        name: held
        for name, held in vars(value).items()
        if not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def _pickled_parts(value: Any) -> Iterable[Any]:
    """Return what a pickle of an object would hold."""
    try:
        reduced = value.__reduce_ex__(4)
    except TypeError as error:
        raise NoDigestError(f"an object that has no pickle ({error})") from error
    if isinstance(reduced, str):  # a name that another object may have as well
        raise NoDigestError(f"the {type(value).__name__} {reduced}")
    return [list(part) if hasattr(part, "__next__") else part for part in reduced]
