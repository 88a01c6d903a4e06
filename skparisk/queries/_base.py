"""What a query is, plain functions as queries, and the simplest queries.

A third of it is docstrings: the contract of whoever writes a query.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.release import without_values
from skparisk.neighbors import NeighborPairs
from skparisk.reference._base import RecordPool

Floats: TypeAlias = NDArray[np.float64]

# Answers that differ by a smaller share of the largest differ by rounding, if at all.
_ROUNDING = 2.0**-40
# Nor is an output more than rounding that is a smaller share of the largest of all.
_NOTHING = 2.0**-46
# Of the mean: what a weight of 0 counts as, so that every database has an answer.
_LEAST_WEIGHT = 2.0**-40


@dataclass(frozen=True)
class SampleWeights:
    """Survey weights: the last column of targets, as shares of the mean public one.

    They are part of a record, so that neighbors differ in them as well.

    Parameters
    ----------
    mean, most : float
        Mean and largest public weight, > 0: a larger one counts as `most`.
    """

    mean: float
    most: float

    @classmethod
    def of(cls, public: Floats) -> Self:
        """Return the mean and the maximum of public weights."""
        return cls(float(public.mean()), float(public.max()))

    def split(self, y: Any) -> tuple[Any, Floats]:
        """Return targets, or None if there are none; and weights, of mean 1."""
        columns = np.asarray(y)
        weights = columns[:, -1].astype(np.float64) / self.mean
        targets: Any = columns[:, :-1]
        if targets.shape[1] < 2:
            targets = targets[:, 0] if targets.shape[1] else None
        return targets, weights.clip(_LEAST_WEIGHT, self.most / self.mean)


@dataclass(frozen=True, eq=False)
class PairDifferences:
    """Differences of a query on a block of pairs.

    Parameters
    ----------
    values : ndarray of shape (n_pairs, n_outputs)
        Answer on the first database minus answer on the second. Infinite for a pair
        with an unanswered database.

    errors : ndarray of shape (n_outputs,), default=None
        The most that each number may be off. None: these are the differences of the
        very answers that would be released.

    sizes : ndarray of shape (n_outputs,), default=None
        The largest answers, which determine the largest difference that counts as
        rounding. None: the errors alone decide.

    failure : str, default=None
        Why a database could not be answered, where one could not.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64] | None = None
    sizes: NDArray[np.float64] | None = None
    failure: str | None = None


Differences: TypeAlias = Callable[[NeighborPairs], PairDifferences]

# What a class claims of its answers, and what is done without asking for them.
_OF_ANSWERS = (
    "is_sum",
    "is_mean",
    "is_smooth",
    "is_unordered",
    "is_repeatable",
    "is_plain",
    "on_pool",
)


def _is_ours(kind: type) -> bool:
    """Tell if a class is of this package."""
    return kind.__module__.partition(".")[0] == "skparisk"


class Query:
    """A function of a database; subclasses may compute `differences` faster.

    A class that implements this guarantees that its answer is a function of the
    database alone, and that what `on_pool` returns are the differences of such answers,
    but for the errors that it says. It may assume that records are an array of finite
    numbers, unless it says `any_table`, and that a pool is not changed. A fitted
    sampler serves an equal query, so queries must be equal only if they answer alike.

    Claims of a query of this package are about its own answers alone. So your own
    subclass inherits no such claim, and makes only its own; it answers both databases
    of each pair.

    Attributes
    ----------
    any_table : bool
        Whether it takes records as they are given, and not only finite numbers.

    is_sum : bool
        Whether answers on neighbors differ exactly by the terms of one record. Whatever
        the records are that both have: these are then not drawn, so that a table gives
        as many pairs as it has pairs of rows.

    is_mean : bool
        Whether it is a sum over the records divided by their number.

    is_correction : bool
        Whether it corrects a fit of public records, and takes what that leaves. Only
        for such a query, pairs are drawn from rows under fits to the other rows.

    is_repeatable : bool
        Whether it is known that it answers alike when it is asked again: without random
        numbers, and without a change of itself. Otherwise it answers a sampled database
        twice.
    """

    any_table = False
    is_sum = False
    is_mean = False
    is_correction = False
    is_repeatable = False
    # Of records whose targets have weights beside them.
    sample_weights: SampleWeights | None = None
    # What errors advise, of an output that few people move.
    if_bare = (
        "leave it out, or ask for a number that many people have a part in, such as "
        "the 95th percentile"
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if _is_ours(cls):
            return
        for name in _OF_ANSWERS:
            owner = next(kind for kind in cls.__mro__ if name in vars(kind))
            kept = name == "on_pool" and cls._is_one_method(owner)
            if owner is not Query and _is_ours(owner) and not kept:
                setattr(cls, name, vars(Query)[name])

    @classmethod
    def _is_one_method(cls, owner: type[Query]) -> bool:
        """Tell if pairs, by `owner`, and single databases are answered by one method.

        So that a class of one's own may change it for both.
        """
        return False

    @property
    def needs_y(self) -> bool:
        """Whether the answer depends on targets."""
        return False

    @property
    def is_smooth(self) -> bool:
        """Whether it is a sum, a mean, or a minimizer of a smooth loss of sums.

        For these, measurements show that databases of few, repeated rows say as much as
        others.
        """
        return self.is_sum or self.is_mean

    @property
    def is_unordered(self) -> bool:
        """Whether answers do not depend on the order of the records.

        But for rounding. Else private records are put in a random one.
        """
        return False

    @property
    def rows_per_record(self) -> int:
        """Rows that a table needs for each record of a database to be like people."""
        return 0

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Return the answer, of shape (n_outputs,)."""
        raise TypeError(f"{type(self).__name__} does not say what it computes.")

    def sampled(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return the answer on a sampled database, or raise if it is inaccurate.

        Such pairs count as if they needed infinite noise.
        """
        return self(X, y)

    def rounding(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest difference of an output that counts as rounding.

        From the largest answers: a share of each, but all of an answer that is
        negligible beside the others.
        """
        return rounding_of(sizes, _NOTHING)

    def output_name(self, output: int) -> str:
        """Return the name of an output in errors."""
        return f"Output {output} (counted from 0)"

    def output_weights(self, X: Any, n_outputs: int) -> NDArray[np.float64] | None:
        """Return the weight of an error in each output.

        For the public records X of a database, in the form of the query: a matrix W of
        shape (n_outputs, n_outputs). An error e costs e' W e, such as its mean square
        effect on predictions at these records. Noise is shaped by it
        (:ref:`thm-noise-shape`), which no guarantee rests on. None: not known.
        """
        return None

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        """Return the query with the public constants that rounding needs."""
        return self

    def forget_place(self) -> None:
        """Drop the constants, in place, because their records are private.

        For all samplers that have this query, as they share its pairs.
        """

    def resized(self, share: float) -> Query:
        """Rescale the penalty to another number of records.

        A term weighed against a sum over records, such as a penalty, changes with their
        number. Without any, it is the same query.
        """
        return self

    @property
    def is_plain(self) -> bool:
        """Whether it answers each database by itself.

        They are then drawn and answered a few at a time.
        """
        return type(self).on_pool is Query.on_pool

    def targets_of(self, y: Any) -> tuple[Any, Floats | None]:
        """Return targets, and weights of mean 1 if there are any."""
        known = self.sample_weights
        return (y, None) if known is None or y is None else known.split(y)

    def check_has_targets(self, pool: RecordPool) -> None:
        """Raise ValueError if the query needs targets and the pool has none."""
        if self.needs_y and pool.y is None:
            raise ValueError(
                f"The query {self} takes targets, but the reference has none (y), or "
                "none that are numbers."
            )

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        """Prepare a pool for all pairs, and return the function of their differences.

        The returned function maps a `NeighborPairs` block to `PairDifferences`, moved
        away from zero by their largest error.
        """
        return self._plain_differences

    def differences(self, pairs: NeighborPairs) -> NDArray[np.float64]:
        """Return f(D) - f(D') for each pair, of shape (n_pairs, n_outputs)."""
        return self.on_pool(pairs.pool, pairs.n_records)(pairs).values

    def _plain_differences(self, pairs: NeighborPairs) -> PairDifferences:
        """Answer each database once, and each of its neighbors."""
        differences: dict[int, NDArray[np.float64]] = {}
        largest: NDArray[np.float64] | None = None
        failure = None
        first: NDArray[np.float64] | None  # set for the first pair of each database
        for pair in range(len(pairs)):
            try:
                if pair % pairs.n_neighbors == 0:
                    first = None
                    first = self.sampled(*pairs.first(pair))
                if first is None:
                    continue
                answers = [first, self.sampled(*pairs.second(pair))]
            except Exception as error:
                # Not hidden: such pairs need infinite noise, and too many are refused
                # with this as the reason.
                told = without_values(str(error))
                failure = failure or f"{type(error).__name__}: {told}"
                continue
            lengths = {*map(len, answers), *(() if largest is None else [len(largest)])}
            if len(lengths) > 1:
                raise ValueError(
                    "The query must return the same number of outputs for every "
                    f"database, got {sorted(lengths)}."
                )
            sizes = np.abs(answers).max(axis=0, where=np.isfinite(answers), initial=0.0)
            largest = sizes if largest is None else np.maximum(largest, sizes)
            differences[pair] = answers[0] - answers[1]
        if largest is None:
            return PairDifferences(np.empty((len(pairs), 0)), failure=failure)
        values = np.full((len(pairs), len(largest)), np.inf)
        for pair, difference in differences.items():
            values[pair] = difference
        return PairDifferences(values, sizes=largest, failure=failure)


@dataclass(frozen=True)
class FunctionQuery(Query):
    """Any callable as a query.

    Parameters
    ----------
    function : callable
        ``function(X)`` or ``function(X, y)``, returns a number or an array, to be
        flattened. `X` comes as given: a data frame, a sparse matrix in CSR, a 1-d array
        of texts, or an array, of floats if it has only numbers. Values may be missing.
        A frame becomes an array if the public records, or the data that a sampler is
        fitted with, are one. `y` is an array of floats or of labels; it is passed if a
        second positional argument is required or is named "y".

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import FunctionQuery
    >>> FunctionQuery(np.median)(np.array([[1.0], [2.0], [9.0]]))
    array([2.])
    """

    function: Callable[..., Any]

    any_table = True  # any function does

    @cached_property
    def needs_y(self) -> bool:
        """Whether the function takes targets."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except ValueError:  # a builtin without a signature
            return False
        positional = [
            p
            for p in parameters
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if len(positional) < 2:
            return False
        return positional[1].default is inspect.Parameter.empty or (
            positional[1].name == "y"
        )

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        answer = self.function(X, y) if self.needs_y else self.function(X)
        try:
            numbers = np.asarray(answer).ravel()
            if numbers.size and not np.iscomplexobj(numbers) and answer is not None:
                return numbers.astype(np.float64)
        except (TypeError, ValueError):
            pass  # said below, without the answer, which may be private
        raise ValueError(
            f"The query {self} must return a number or an array of at least one "
            f"number, got {type(answer).__name__}."
        )

    def __str__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def rounding_of(sizes: NDArray[np.float64], nothing: float) -> NDArray[np.float64]:
    """Return what is rounding in outputs of these sizes that belong together."""
    residue = sizes <= nothing * sizes.max(initial=0.0)
    return np.where(residue, 2 * sizes, _ROUNDING * sizes)


def same_but_for(share: float, one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Tell if numbers differ by no more than a share of the largest of `other`."""
    size = np.abs(other).max(initial=0.0, where=np.isfinite(other))
    return one.shape == other.shape and np.allclose(
        one, other, rtol=0.0, atol=share * size, equal_nan=True
    )
