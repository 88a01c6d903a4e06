"""Records that are declared: a data dictionary in place of public data."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_at_least, check_choice, check_share, is_number
from skparisk.core.sealed import PublicForm, Records
from skparisk.reference._base import Held, RecordPool, RecordSource, Reference
from skparisk.reference._domain import Categories, Column, Domain, Interval
from skparisk.reference._records import (
    Schema,
    as_records,
    as_targets,
)
from skparisk.reference._table import Split

_ALLOWED = (
    "a tuple (low, high), a range of whole numbers, a list of categories, or a mapping "
    "of categories to weights"
)


_Drawn: TypeAlias = tuple[Records, NDArray[Any] | None]

# More whole numbers are a range, and no classes.
_MOST_LISTED = 2048


@dataclass(frozen=True, eq=False)
class Spec:
    """One column that is declared."""

    # Whole numbers, an interval, or values with their shares.
    law: Any
    # It holds all that is drawn.
    domain: Interval | Categories
    # All values, where these are few enough to be listed.
    classes: NDArray[Any] | None = None
    # Share of the values that are missing, if any may be.
    missing: float | None = None
    # What values become, one after the other.
    encoders: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...] = ()

    @classmethod
    def of(cls, declared: Any, name: str) -> Self:
        """Return what was declared of the column `name`, checked."""
        if isinstance(declared, cls):  # by a file
            return declared
        try:
            return cls._of(declared)
        except ValueError as error:
            raise ValueError(f"{name} of the schema: {error}") from error

    @classmethod
    def _of(cls, declared: Any) -> Self:
        if isinstance(declared, range):
            if not declared:
                raise ValueError(f"a range must not be empty, got {declared!r}.")
            # Not the least of all: there may be very many.
            low, high = sorted((declared[0], declared[-1]))
            domain = Interval(low, high)
            few = len(declared) <= _MOST_LISTED
            classes = np.asarray(declared) if few else None
            return cls(declared, domain, classes)
        if isinstance(declared, tuple) and len(declared) == 2:
            domain = Interval(*declared)
            return cls(domain, domain)
        if isinstance(declared, Mapping):
            return cls.weighted(list(declared), list(declared.values()))
        if isinstance(declared, list | np.ndarray):
            return cls.weighted(list(declared), [1.0] * len(declared))
        raise ValueError(f"it must be {_ALLOWED}; got {declared!r}.")

    @classmethod
    def weighted(cls, values: Sequence[Any], weights: Sequence[Any]) -> Self:
        """Return categories, each with its share of the weights."""
        domain = Categories(tuple(values))
        law = array_of(domain.values), _shares(weights)
        return cls(law, domain, array_of(domain.present))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return so many values, independent and alike."""
        values: NDArray[Any]
        if isinstance(self.law, range):
            places = rng.integers(len(self.law), size=n)
            values = self.law.start + self.law.step * places
        elif isinstance(self.law, tuple):
            known, shares = self.law
            values = rng.choice(known, n, p=shares)
        else:
            above, low, high = rng.random(n), self.law.low, self.law.high
            # Not low + above * (high - low), which may overflow.
            values = ((1 - above) * low + above * high).clip(low, high)
        if self.missing is not None:
            numbers = values.dtype.kind in "iuf"
            values = values.astype(np.float64 if numbers else object)
            values[rng.random(n) < self.missing] = np.nan if numbers else None
        return self.encode(values)

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what became of values of the column."""
        for encode in self.encoders:
            values = encode(values)
        return values

    def with_missing(self, share: Any, name: str) -> Self:
        """Return the column with a share of values that are missing."""
        check_share(share, f"missing[{name!r}]")
        if isinstance(self.domain, Categories) and self.domain.missing:
            raise ValueError(
                f"missing[{name!r}] must not be given, because None is one of the "
                "declared categories."
            )
        domain = self.domain
        if isinstance(domain, Interval):
            domain = replace(domain, missing=True)
        else:
            domain = Categories((*domain.values, None))
        return replace(self, missing=float(share), domain=domain, classes=None)

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the column with what `encode` makes of its values."""
        encoders, domain = (*self.encoders, encode), self.domain
        classes = None if self.classes is None else encode(self.classes)
        if isinstance(domain, Categories):
            assert classes is not None  # none of them is missing
            domain = Categories(tuple(classes.tolist()))
        return replace(self, encoders=encoders, classes=classes, domain=domain)


def _shares(weights: Sequence[Any]) -> NDArray[np.float64]:
    numbers = all(map(is_number, weights))
    values = np.array(weights if numbers else [math.nan], dtype=np.float64)
    good = np.isfinite(values).all() and (values >= 0).all() and values.any()
    total = values.sum()
    if not good or not math.isfinite(total):
        raise ValueError(
            "weights must be finite numbers >= 0, not all 0, one for each category; "
            f"got {list(weights)!r}."
        )
    return values / total


def array_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as an array of numbers or booleans, or else of objects."""
    for kinds in ((bool, np.bool_), (Real,)):
        if all(isinstance(value, kinds) for value in values):
            return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# What a file may say of a column, and the keys that may be beside it.
_KINDS: dict[str, tuple[str, ...]] = {
    "range": (),
    "whole": (),
    "categories": ("weights",),
}


def _read_layout(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a schema that a document of TOML declares."""
    _check_keys(document, ("columns", "target", "container"), "the schema")
    columns = document.get("columns", {})
    if not isinstance(columns, Mapping):
        raise ValueError("columns must be tables [columns.NAME] in the schema.")
    read = {
        name: _read_column(column, f"the column {name!r}", "missing")
        for name, column in columns.items()
    }
    missing = {
        name: column["missing"]
        for name, column in columns.items()
        if "missing" in column
    }
    target = document.get("target")
    if isinstance(target, list):
        target = tuple(target)
    elif isinstance(target, Mapping):
        target = _read_column(target, "the target")
    return {**document, "columns": read, "missing": missing, "target": target}


def _read_column(column: Any, where: str, *optional: str) -> Any:
    """Return what a table of TOML says that a column holds."""
    if not isinstance(column, Mapping):
        raise ValueError(f"{where} must be a table of TOML, got {column!r}.")
    found = [key for key in _KINDS if key in column]
    if len(found) != 1:
        raise ValueError(
            f"{where} must have one of {', '.join(_KINDS)}; got {list(column)}."
        )
    kind = found[0]
    _check_keys(column, (kind, *_KINDS[kind], *optional), where)
    if not isinstance(column[kind], list):
        raise ValueError(f"{kind} of {where} must be a list, got {column[kind]!r}.")
    try:
        return _read_values(kind, column[kind], column.get("weights"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} of {where} is wrong: {error}") from error


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ValueError(
            f"{where} has the key {unknown[0]!r}, which must be one of "
            f"{', '.join(known)}."
        )


def _read_values(kind: str, values: list[Any], weights: Any) -> Any:
    """Return what the class takes for a column of a kind."""
    if kind in ("range", "whole"):
        low, high = values
        return (low, high) if kind == "range" else range(low, high + 1)
    if weights is None:
        return values
    if not isinstance(weights, list) or len(weights) != len(values):
        raise ValueError(
            f"weights must be a list of {len(values)} numbers, got {weights!r}"
        )
    return Spec.weighted(values, weights)


def _put_in(
    container: str, names: Sequence[str] | None, columns: Sequence[NDArray[Any]]
) -> Any:
    """Return columns in an array, or in a data frame of pandas or polars."""
    if container == "array" or names is None:
        numbers = all(values.dtype.kind in "biuf" for values in columns)
        dtype = np.float64 if numbers else object
        return np.column_stack([values.astype(dtype) for values in columns])
    listed = columns if container == "pandas" else [v.tolist() for v in columns]
    # Imported here, as it is only needed for this.
    return import_module(container).DataFrame(dict(zip(names, listed, strict=True)))


_CONTAINERS = ("pandas", "polars", "array")
# Shared records are drawn from so many times the records of a database, or as many as
# this if these are fewer; never from fewer than twice as many.
_POOL_PER_RECORD = 16
_MOST_POOL = 2**16
# Rows that structure, such as categories and quantiles, is learned from.
ROWS_OF_WHOLE = 2048


class SchemaReference(Held, Reference):
    """Draw records from declared columns, and clip private records to them.

    For a data dictionary without public records: only the allowed values of each column
    are public. Columns are independent of each other. Private values are moved into the
    declared ranges, and unknown categories become the first one: silently, as a word
    about it would be a release.

    Parameters
    ----------
    columns : mapping of str to column, or list of columns
        Values of each column, in order; a list for arrays without names.

        * ``(low, high)``: numbers, uniform.
        * ``range(18, 91)``: whole numbers, all as likely.
        * ``["f", "m"]``: categories, all as likely. Texts, numbers, booleans, and None
          where a value may be missing.
        * ``{"f": 3, "m": 1}``: categories and their weights.

    target : str, tuple of str, or column, default=None
        Names of the target columns, or their values: ``["no", "yes"]`` or ``{"no": 9,
        "yes": 1}`` for classes, ``(0.0, 5e5)`` for numbers. None: none.

    missing : mapping of str or int to float, default=None
        Shares of missing values in a column, by name or position, in [0, 1). In other
        columns the middle of the range replaces a missing number. But estimators of
        finite numbers refuse records with missing ones, and their error reveals that
        there are some.

    container : {"pandas", "polars", "array"}, default=None
        Container of the records. None: a data frame of pandas where there are names,
        and else an array.

    Raises
    ------
    ValueError
        If a column is none of these, a range is reversed or not finite, a category is
        there twice, a weight is negative, or the target is not declared.

    Notes
    -----
    **Guarantee** (:ref:`thm-schema`). The differing records are drawn afresh for each
    pair, the shared ones from other simulated rows. The risk is exact for two records
    of the declared law, and for whole databases if differences do not depend on shared
    records, as for sums and means. Real people are not of that law: of logistic
    regression, five times as many pairs exceed the level. So the guarantee does not
    stand (:attr:`~skparisk.Certificate.private` is False), and fits warn, before
    :func:`~skparisk.audit_reference` supports it with real records. For
    :func:`~skparisk.learn_reference` the schema only declares columns.

    Examples
    --------
    >>> from skparisk import SchemaReference
    >>> schema = SchemaReference(
    ...     {"age": (18, 90), "sex": ["f", "m"], "wage": (0.0, 5e5)},
    ...     target="wage",
    ...     container="array",
    ... )
    >>> schema
    SchemaReference(2 columns, 1 target)
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | Sequence[Any],
        *,
        target: Any = None,
        missing: Mapping[Any, float] | None = None,
        container: str | None = None,
    ) -> None:
        named = isinstance(columns, Mapping)
        if not isinstance(columns, Mapping | list) or not columns:
            raise ValueError(
                "columns must be a mapping of names to columns, or a list of columns, "
                f"with at least one; got {columns!r}."
            )
        pairs: dict[Any, Any] = dict(columns if named else enumerate(columns))
        if named and not all(isinstance(name, str) for name in pairs):
            raise ValueError(f"columns must have texts as names, got {list(pairs)!r}.")
        shares = missing or {}
        unknown = [name for name in shares if name not in pairs]
        if unknown:
            raise ValueError(
                f"missing must name columns of the schema, {list(pairs)}; got "
                f"{unknown[0]!r}."
            )
        specs = {
            name: Spec.of(spec, f"The column {name!r}") for name, spec in pairs.items()
        }
        for name, share in shares.items():
            specs[name] = specs[name].with_missing(share, name)
        names = list(specs)
        self._targets, self._one_target = _split_targets(specs, target)
        self._target_names = [name for name in names if name not in specs]
        if not specs:
            raise ValueError("columns must have more than the target.")
        self._specs = list(specs.values())
        self._names: tuple[str, ...] | None = tuple(specs) if named else None
        allowed = _CONTAINERS if named else ("array",)
        default = allowed[0]
        self._container = check_choice(container or default, "container", allowed)
        self._domain = Domain(
            [spec.domain for spec in self._specs],
            [spec.domain for spec in self._targets],
        )

    # Set by an audit that supports a claim about such records.
    _audited = False

    @property
    def made_up(self) -> bool:
        return True

    @classmethod
    def from_toml(cls, path: Any) -> Self:
        """Return the schema in a TOML file.

        Parameters
        ----------
        path : str or path-like
            A file of TOML. ``[columns.NAME]`` has one of ``range = [18, 90]``, ``whole
            = [0, 12]`` (both ends included), and ``categories = ["f", "m"]``, maybe
            with ``weights = [3, 1]``; and maybe ``missing = 0.05``. At the top,
            ``target`` is a name or a list of names, or ``[target]`` a column as above.
            ``container`` is as for the class.

        Raises
        ------
        ValueError
            If a key is not known, or the schema is wrong.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from skparisk import SchemaReference
        >>> path = Path(tempfile.mkdtemp()) / "schema.toml"
        >>> characters = path.write_text("columns.age.range = [18, 90]")
        >>> SchemaReference.from_toml(path)
        SchemaReference(1 column)
        """
        return cls(**_read_layout(tomllib.loads(Path(path).read_text("utf-8"))))

    def sample(self, n_records: int, rng: np.random.Generator) -> Any:
        """Return simulated records.

        Parameters
        ----------
        n_records : int
            How many, >= 1.

        rng : numpy.random.Generator
            Generator to draw with.

        Returns
        -------
        records : X or (X, y)
            With targets where these are declared. ``CallableReference(schema.sample)``
            draws all records of all databases afresh, which takes longer.
        """
        X, y = self._draw(check_at_least(n_records, "n_records", 1), rng)
        return X if y is None else (X, y)

    def _draw(
        self, n_records: int, rng: np.random.Generator, *, with_all: bool = False
    ) -> _Drawn:
        """Return records; `with_all` values that can be listed are in the first."""
        columns = []
        for spec in (*self._specs, *self._targets):
            columns.append(spec.draw(n_records, rng))
            if with_all and spec.classes is not None:
                columns[-1][: len(spec.classes)] = spec.classes
        return self._assemble(columns)

    def _assemble(self, columns: Sequence[NDArray[Any]]) -> _Drawn:
        """Return columns of features and targets as records."""
        n_features = len(self._specs)
        X = _put_in(self._container, self._names, columns[:n_features])
        y = self._as_targets(columns[n_features:]) if self._targets else None
        return as_records(X, "X of the reference"), y

    def _as_targets(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        y = columns[0] if self._one_target else np.column_stack(columns)
        return as_targets(y, "y of the reference")

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the same schema with `encode` applied to its targets."""
        return self._with([spec.encoded(encode) for spec in self._targets])

    def _with(self, targets: list[Spec]) -> Self:
        """Return the same schema of features, with other targets."""
        other = copy.copy(self)
        domain = Domain(self._domain.columns, [spec.domain for spec in targets])
        vars(other).update(_targets=targets, _domain=domain)
        for name in ("schema", "form"):
            vars(other).pop(name, None)
        return other

    @property
    def description(self) -> str:
        plural = "" if len(self._specs) == 1 else "s"
        return (
            "the differing ones drawn from a declared schema of "
            f"{len(self._specs)} column{plural}, the others from simulated records of "
            "it, to which private records are clipped"
        )

    @property
    def domain(self) -> Domain:
        """Domain to which private records are clipped."""
        return self._domain

    @property
    def declared(self) -> dict[str, Column]:
        """Declared values of each named column, targets last."""
        names = [*(self._names or ()), *self._target_names]
        columns = [*self.domain.columns, *self.domain.targets]
        return dict(zip(names, columns, strict=False))  # targets may have no name

    @cached_property
    def form(self) -> PublicForm:
        """Container and types of the drawn records."""
        return PublicForm.of(*self._listing())

    @cached_property
    def schema(self) -> Schema:
        """Names and kinds of the columns of the features."""
        return Schema.of(self._listing()[0], self._names)

    @property
    def targets(self) -> NDArray[Any] | None:
        """All classes, or two targets; None if none are declared."""
        if not self._targets:
            return None
        if len(self._targets) == 1 and self._targets[0].classes is not None:
            return as_targets(self._targets[0].classes)
        rng = np.random.default_rng(0)
        return self._as_targets([spec.draw(2, rng) for spec in self._targets])

    @property
    def whole(self) -> RecordPool:
        """Simulated records that include each declared category."""
        return RecordPool(*self._listing(ROWS_OF_WHOLE))

    def _listing(self, least: int = 2, rng: Any = 0) -> _Drawn:
        """Return some records, in which each value is that can be listed."""
        known = [s.classes for s in (*self._specs, *self._targets)]
        size = max([least, *(len(values) for values in known if values is not None)])
        return self._draw(size, np.random.default_rng(rng), with_all=True)

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs, which share simulated records."""
        rng = np.random.default_rng(seed)
        size = n_shared
        if n_pairs > 1:
            size = max(2 * n_shared, min(_POOL_PER_RECORD * n_shared, _MOST_POOL))
        pool = RecordPool(*self._draw(size + n_pairs * n_own, rng))
        others, own = np.split(np.arange(pool.n_records), [size])
        return Split(pool, n_shared, n_own, own, others, replacement=False)

    def __repr__(self) -> str:
        numbers = [f"{len(self._specs)} column{'s' * (len(self._specs) > 1)}"]
        if self._targets:
            plural = "s" * (len(self._targets) > 1)
            numbers.append(f"{len(self._targets)} target{plural}")
        return f"{type(self).__name__}({', '.join(numbers)})"


def _split_targets(specs: dict[Any, Spec], target: Any) -> tuple[list[Spec], bool]:
    """Take the targets out of the columns; tell if there is one, by itself."""
    if target is None:
        return [], True
    several = isinstance(target, tuple) and target != ()
    several = several and all(isinstance(name, str) for name in target)
    if not isinstance(target, str) and not several:
        found = [Spec.of(target, "The target")]
    else:
        names = target if isinstance(target, tuple) else (target,)
        for name in names:
            if name not in specs:
                raise ValueError(
                    f"target must be a column of the schema, {list(specs)}, or say "
                    f"what it holds; got {name!r}."
                )
        found = [specs.pop(name) for name in names]
    for spec in found:
        if spec.domain.missing:
            raise ValueError("A target must not be missing in any record.")
    return found, not several
