"""What any scikit-learn estimator learned, as a query."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced
from skparisk.core.sealed import Records, copy_records
from skparisk.queries._base import (
    Differences,
    Floats,
    Query,
    SampleWeights,
    rounding_of,
)
from skparisk.queries._given import are_alike
from skparisk.queries._labels import label_codes, missing_class
from skparisk.queries._state import Numbers, Unpadded, find_numbers, read
from skparisk.queries._sums import counts_pay
from skparisk.reference._base import RecordPool
from skparisk.reference._records import as_records

# What multiplies the penalty (alpha), or the sum of the losses (C). Others, such as
# `Lasso`, weigh a penalty against a mean, which is the same for any number of records.
_RESIZED = {
    "HuberRegressor": "alpha",
    "KernelRidge": "alpha",
    "LinearSVC": "C",
    "LinearSVR": "C",
    "LogisticRegression": "C",
    "Ridge": "alpha",
    "RidgeClassifier": "alpha",
    "SVC": "C",
    "SVR": "C",
}


def resize_penalties(estimator: Any, share: float) -> Any:
    """Return a clone that does the same to `share` times as many records."""
    params = estimator.get_params(deep=True)
    parts = {f"{n}__": part for n, part in params.items() if hasattr(part, "fit")}
    changed: dict[str, Any] = {}
    for prefix, part in {"": estimator, **parts}.items():
        found = _RESIZED.get(type(part).__name__)
        if found and type(part).__module__.startswith("sklearn."):
            name, factor = prefix + found, share if found == "alpha" else 1 / share
            changed[name] = params[name] * factor
    return clone(estimator).set_params(**changed) if changed else estimator


# Of the largest number that an estimator keeps in one place: less is what its solver
# leaves of nothing, or what it adds for stability.
_NOTHING = 2.0**-28

# Rows of a table for each record of a database, from which on components and centers,
# or predictions at points, which rest on the few records near each, vary between its
# databases as much as between databases of people, as measured.
_MATCHED, _AT_POINTS = 16, 4

Align: TypeAlias = Callable[[Numbers, Numbers], Numbers]


class Reader(Protocol):
    """Read named arrays of numbers from a fitted estimator."""

    def __call__(self, fitted: Any) -> dict[str, Floats]:
        """Return what is to be released."""
        ...


@dataclass(frozen=True)
class AttributeReader:
    """Read fitted attributes, also of inner estimators: ``steps.ridge.coef_``."""

    names: tuple[str, ...]

    def __call__(self, fitted: Any) -> dict[str, Floats]:
        return {name: _as_numbers(fitted, name) for name in self.names}


@dataclass(frozen=True, eq=False)
class PredictionReader:
    """Read predictions at public points."""

    method: str
    points: Records

    def __call__(self, fitted: Any) -> dict[str, Floats]:
        points = copy_records(self.points)  # a prediction may work in place
        answer = getattr(fitted, self.method)(points)
        return {self.method: np.asarray(answer, dtype=np.float64)}


class LearnedQuery(Unpadded, Query):
    """What an estimator learns: queries are equal if they ask equal ones the same."""

    any_table = True  # whatever the estimator takes
    asked: Any
    # Told apart by themselves: a function has no content.
    align: Align | None = None

    @property
    def _question(self) -> list[Any]:
        """All that is asked."""
        return [type(self.asked), plain_params(self.asked)]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LearnedQuery)
            and self.align == other.align
            and are_alike(self._question, other._question)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class EstimatorQuery(LearnedQuery):
    """Numbers that a scikit-learn estimator learns from a database.

    A database that lacks a class is answered with zeros, so that the query is a
    function of all databases; sampled databases without a class count as not answered.

    Parameters
    ----------
    estimator : estimator
        Fitted afresh on each database. Must be a function of it: see `repeatable`.

    reader : AttributeReader or PredictionReader
        Reader of the released numbers.

    shapes : mapping of str to tuple of int
        The shape of each array that the reader returns; others are refused.

    classes : tuple of float, default=None
        For classifiers: the numbers that stand for the classes in a database.

    labels : ndarray of shape (n_classes,), default=None
        The labels that the estimator is fitted with in their place.

    align : callable, default=None
        ``align(numbers, anchor)`` returns the same numbers, for fits defined up to sign
        or order, as close to the anchor as possible.

    anchor : mapping of str to ndarray, default=None
        The numbers of a fit on a public database.

    asked : estimator, default=None
        The estimator before its steps were fitted on public records; it decides
        equality of queries. None: `estimator`.

    template : object, default=None
        Model to put the released numbers into. It knows nothing of private records.

    front : Pipeline, default=None
        Of a Pipeline all steps but the last, fitted on public records: they transform
        each record by itself, so that the records of a pool are transformed once.

    public_steps : object, default=None
        Names of all steps fitted on public records.

    sample_weights : SampleWeights, default=None
        Of records whose targets have weights beside them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skparisk.queries import AttributeReader, EstimatorQuery
    >>> reader = AttributeReader(("coef_",))
    >>> query = EstimatorQuery(LinearRegression(), reader, {"coef_": (1,)})
    >>> query(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]))
    array([2.])
    """

    estimator: Any
    reader: Reader
    shapes: Mapping[str, tuple[int, ...]]
    classes: tuple[float, ...] | None = None
    labels: NDArray[Any] | None = None
    align: Align | None = None
    anchor: Numbers | None = None
    asked: Any = None
    template: Any = None
    front: Any = None
    public_steps: Any = None
    sample_weights: SampleWeights | None = None

    is_plain = True  # also where the front is applied to a whole pool

    @property
    def needs_y(self) -> bool:
        return self.sample_weights is not None or takes_targets(self.estimator)

    @property
    def rows_per_record(self) -> int:
        if self.align is not None and self.anchor is not None:
            return _MATCHED
        return _AT_POINTS if isinstance(self.reader, PredictionReader) else 0

    @property
    def n_outputs(self) -> int:
        """Numbers in an answer."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def __call__(self, X: Any, y: Any = None) -> Floats:
        if self.front is not None:
            return self._behind(self._as_prepared(X), y)
        y, weights = self.targets_of(y)
        if self.classes is not None:
            codes = label_codes(y, self.classes)
            if len(np.unique(codes)) < len(self.classes):
                return np.zeros(self.n_outputs)
            y = np.asarray(self.labels)[codes]
        numbers: Numbers = self.read(X, y, weights)
        for name, shape in self.shapes.items():
            if numbers[name].shape != shape:
                raise ValueError(
                    f"{name} of {self} has shape {numbers[name].shape} on one database "
                    f"but had {shape} on the first: what is released must have the "
                    "same shape on every database."
                )
        if self.align is not None and self.anchor is not None:
            numbers = self.align(numbers, self.anchor)
        return np.concatenate([numbers[name].ravel() for name in self.shapes])

    def read(self, X: Any, y: Any, weights: Floats | None = None) -> dict[str, Floats]:
        """Return the numbers learned by a fresh fit, with the estimator's labels."""
        fitted = clone(self.estimator)
        own = {} if weights is None else {weight_parameter(fitted): weights}
        targets = (y,) if takes_targets(self.estimator) else ()
        # That a database is hard to fit would be a release of its own.
        with np.errstate(all="ignore"), silenced():
            return self.reader(fitted.fit(X, *targets, **own))

    def prepared(self, X: Any) -> Any:
        """Return the records in the form of the last step."""
        return X if self.front is None else self.front.transform(copy_records(X))

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        if self.front is None or not counts_pay(pool.n_records, n_records):
            return self._plain_differences
        behind, prepared = self._behind, pool.like(self._as_prepared(pool.X), pool.y)
        return lambda pairs: behind._plain_differences(pairs.on(prepared))

    def _as_prepared(self, X: Any) -> Records:
        """Return records for the last step, in double precision as all are."""
        return as_records(self.prepared(X), "X")

    @property
    def _behind(self) -> EstimatorQuery:
        """The query of prepared records."""
        last = dict.fromkeys(self.front.named_steps, "passthrough")
        reader = self.reader
        if isinstance(reader, PredictionReader):
            reader = PredictionReader(reader.method, self.prepared(reader.points))
        estimator = clone(self.estimator).set_params(**last)
        return replace(self, estimator=estimator, reader=reader, front=None)

    def split(self, answer: Floats) -> dict[str, Floats]:
        """Split an answer into its arrays."""
        parts, start = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            parts[name] = answer[start : start + size].reshape(shape)
            start += size
        return parts

    def rounding(self, sizes: Floats) -> Floats:
        parts = self.split(sizes)
        return np.concatenate(
            [rounding_of(part.ravel(), _NOTHING) for part in parts.values()]
        )

    def output_name(self, output: int) -> str:
        names = [
            f"{name}{[*place] or ''}"
            for name, shape in self.shapes.items()
            for place in np.ndindex(*shape)
        ]
        return names[output]

    def resized(self, share: float) -> EstimatorQuery:
        asked = None if self.asked is None else resize_penalties(self.asked, share)
        return replace(
            self, estimator=resize_penalties(self.estimator, share), asked=asked
        )

    def sampled(self, X: Any, y: Any) -> Floats:
        if self.classes is not None:
            codes = label_codes(self.targets_of(y)[0], self.classes)
            counts = np.bincount(codes, minlength=len(self.classes))
            if why := missing_class(counts, self.classes, len(codes)):
                raise ValueError(why)
        return self(X, y)

    @property
    def _question(self) -> list[Any]:
        reader = self.reader
        asked = self.estimator if self.asked is None else self.asked
        what = [type(asked), plain_params(asked)]
        weights = self.sample_weights
        return [*what, type(reader), vars(reader), self.classes, weights]

    def __str__(self) -> str:
        last = dict.fromkeys(name.rpartition(".")[2] for name in self.shapes)
        return f"{type(self.estimator).__name__} ({', '.join(last)})"


def repeatable(estimator: Any) -> Any:
    """Return a clone whose fit is a function of the database, and leaves no trace.

    A `random_state` of None becomes 0, also that of a splitter: the randomness of a fit
    is public, as that of sampled pairs, and the same for all databases. What `verbose`
    prints, callbacks are told, other processes warn of, and a cache on the disk keeps
    would be releases of their own.
    """
    private = clone(estimator)
    fixed: dict[str, Any] = {}
    params = private.get_params(deep=True)
    for part in (private, *params.values()):
        if hasattr(part, "set_callbacks") and not isinstance(part, type):
            with silenced():  # some solvers warn that they call none
                part.set_callbacks()
    for name, value in params.items():
        last = name.rpartition("__")[2]
        if last == "random_state" and value is None:
            fixed[name] = 0
        elif last in ("memory", "n_jobs"):
            fixed[name] = None
        elif last == "verbose" and value:
            fixed[name] = type(value)(0)
        elif getattr(value, "random_state", 0) is None and not hasattr(
            value, "get_params"
        ):
            fixed[name] = copy.copy(value)
            fixed[name].random_state = 0
    return private.set_params(**fixed)


def has_parts(estimator: Any) -> bool:
    """Tell if an estimator is made of others."""
    params = estimator.get_params(deep=True).values()
    return any(hasattr(part, "get_params") for part in params)


def takes_targets(estimator: Any) -> bool:
    """Tell if an estimator is fitted to targets; a pipeline's tags do not say so."""
    tags = get_tags(estimator)
    supervised = tags.estimator_type in ("regressor", "classifier")
    return supervised or bool(tags.target_tags.required)


def weight_parameter(estimator: Any) -> str:
    """Return the name of the weights in `fit`: of the last step, in a Pipeline.

    Raises
    ------
    IncompatibleError
        If it takes none.
    """
    last, steps = estimator, []
    while isinstance(last, Pipeline):
        name, last = last.steps[-1]
        steps.append(f"{name}__")
    if not has_fit_parameter(last, "sample_weight"):
        raise IncompatibleError(
            f"sample_weight must be None, as {type(last).__name__} takes none in fit."
        )
    return "".join([*steps, "sample_weight"])


def _as_numbers(fitted: Any, name: str) -> Floats:
    try:
        numbers = np.asarray(read(fitted, name))
    except (AttributeError, LookupError, ValueError):  # none there, or ragged
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(
            f"{type(fitted).__name__} has no attribute {name!r} after fit that is an "
            f"array of numbers of one shape; it has {describe_candidates(fitted)}."
        )
    return numbers.astype(np.float64)


def describe_candidates(fitted: Any) -> str:
    """Name the floats that a fitted estimator holds, with their shapes."""
    found = [
        f"{name} {values.shape}"
        for name, values in sorted(find_numbers(fitted).items())
        if name.endswith("_")
    ]
    return ", ".join(found) or "none"


def plain_params(estimator: Any) -> dict[str, Any]:
    """Return all parameters, with estimators as types unless they stay fitted."""
    return {
        name: type(value)
        if hasattr(value, "get_params") and not isinstance(value, FrozenEstimator)
        else value
        for name, value in estimator.get_params(deep=True).items()
    }
