"""Counts, means and quantiles of a data frame: a data steward's first questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skparisk._callers import leaks_around
from skparisk._checks import check_max_rows, private_people
from skparisk._fitted import whole_fit
from skparisk.core.calibrate import Target, find_known
from skparisk.core.checks import (
    IncompatibleError,
    check_at_least,
    check_epsilon,
    check_probability,
    check_relation,
)
from skparisk.core.claim import Unit
from skparisk.core.exact import noise_source
from skparisk.core.release import Plan, release
from skparisk.core.sealed import is_frame, of_people, seal
from skparisk.ledger import OPEN
from skparisk.queries._base import Floats
from skparisk.queries._cells import (
    Bins,
    CellsQuery,
    CellSums,
    Kinds,
    half_of,
)
from skparisk.reference import SchemaReference
from skparisk.reference._domain import Categories, Column, Interval
from skparisk.reference._parted import Parted

__all__ = ["PrivateTable"]

Group: TypeAlias = tuple[str, ...]

_MOST_OUTPUTS = 2**20
_HOW = (
    "a column, a tuple of columns for their cross table, () for all records, or a list "
    "of these"
)


def find_query(
    schema: Any, counts: Any, means: Any, bins: Any, relation: str, weight: Any = None
) -> CellsQuery:
    """Return the sums from which all that is asked for follows."""
    declared = _declared(schema)
    weighted = None
    if weight is not None:
        held = _column(declared, weight, "weight")
        if not isinstance(held, Interval) or held.low < 0 or held.high == 0:
            raise ValueError(
                "weight must be a column of numbers, declared as a range (low, high) "
                f"from 0 on, of more than 0; got {weight!r}, declared as {held}."
            )
        weighted = (weight, held.high)
        relation = "add-remove"  # the sum of the weights is not public
    asked: dict[frozenset[str], tuple[Group, list[str]]] = {}
    given = {} if means is None else means
    if not isinstance(given, Mapping):
        raise ValueError(f"means must map columns to {_HOW}; got {means!r}.")
    wanted = [] if counts is None else check_groups(counts, "counts")
    for group in wanted:
        asked.setdefault(frozenset(group), (group, []))
    for value, by in given.items():
        for group in check_groups(by, f"means[{value!r}]"):
            values = asked.setdefault(frozenset(group), (group, []))[1]
            if value in values:
                raise ValueError(f"means[{value!r}] must not have {group} twice.")
            values.append(value)
    public = relation == "replace-one"
    questions = [
        _question(declared, group, values, bins, counted=bool(group) or not public)
        for group, values in asked.values()
        if group or values or not public
    ]
    if not questions:
        raise ValueError(
            "counts or means must ask for something that is not public; got "
            f"counts={counts!r}, means={means!r} with relation={relation!r}."
        )
    n_outputs = sum(each.n_outputs for each in questions)
    if n_outputs > _MOST_OUTPUTS:
        raise ValueError(
            f"counts and means must ask for at most 2**20 numbers, got {n_outputs}: "
            "take fewer columns for a cross table, or fewer bins."
        )
    return CellsQuery(tuple(questions), weighted)


def check_groups(given: Any, name: str) -> list[Group]:
    """Return groups of columns, each a tuple of names."""
    listed = given if isinstance(given, list) else [given]
    return [check_group(group, name) for group in listed]


def check_group(given: Any, name: str) -> Group:
    """Return one group of columns."""
    group = (given,) if isinstance(given, str) else given
    names = isinstance(group, tuple) and all(isinstance(each, str) for each in group)
    if not names or len({*group}) < len(group):
        raise ValueError(f"{name} must be {_HOW}; got {given!r}.")
    return tuple(group)


def _declared(schema: Any) -> dict[str, Column]:
    """Return what columns may hold, by name."""
    if not isinstance(schema, SchemaReference):
        if not isinstance(schema, Mapping):
            raise ValueError(
                "schema must be a SchemaReference, or map columns to what they hold, "
                f"such as {{'age': (18, 90), 'sex': ['f', 'm']}}; got {schema!r}."
            )
        schema = SchemaReference(schema)
    declared: dict[str, Column] = schema.declared
    if not declared:
        raise ValueError("schema must have names of columns, got none.")
    return declared


def _column(declared: Mapping[str, Column], name: Any, where: str) -> Column:
    """Return what a column holds, if that was declared."""
    column = declared.get(name)
    if column is None:
        known = [each for each, held in declared.items() if held is not None]
        raise ValueError(
            f"{where} must name columns with declared ranges or categories, {known}; "
            f"got {name!r}."
        )
    return column


def _question(
    declared: Mapping[str, Column],
    group: Group,
    values: Sequence[str],
    bins: Any,
    *,
    counted: bool,
) -> CellSums:
    """Return counts and sums over the cells of some columns."""
    cells = [
        _cells(_column(declared, name, "counts and means"), name, bins)
        for name in group
    ]
    ranges = []
    for value in values:
        column = _column(declared, value, "means")
        if not isinstance(column, Interval):
            raise ValueError(
                "means must be of columns of numbers, declared as a range (low, high); "
                f"got {value!r}, which has categories: count them."
            )
        ranges.append(column)
    return CellSums(group, tuple(cells), tuple(values), tuple(ranges), counted)


def _cells(column: Column, name: str, bins: Any) -> Kinds | Bins:
    """Return the cells of one column."""
    if isinstance(column, Categories):
        return Kinds(tuple(column.present))
    assert column is not None
    asked = bins.get(name, 10) if isinstance(bins, Mapping) else bins
    what = f"bins[{name!r}]" if isinstance(bins, Mapping) else "bins"
    if isinstance(asked, Sequence | np.ndarray) and not isinstance(asked, str):
        edges = np.asarray(asked, dtype=np.float64)
    else:
        n_bins = check_at_least(asked, what, 1)
        # Of halves: the width may be beyond all numbers.
        edges = 2 * np.linspace(column.low / 2, column.high / 2, n_bins + 1)
    right = edges.ndim == 1 and edges.size > 1 and np.isfinite(edges).all()
    if not right or not (edges[1:] > edges[:-1]).all():
        raise ValueError(
            f"{what} must be a number of bins of a range that is no point, or finite "
            f"increasing edges, at least two; got {asked!r} for the range "
            f"({column.low}, {column.high})."
        )
    return Bins(tuple(edges.tolist()))


def deviations(confidence: float) -> float:
    """Return how many standard deviations noise is within, with a probability.

    Of one Laplace noise, or of a sum of some: this is between it and a normal law.
    """
    laplace = -math.log1p(-confidence) / math.sqrt(2.0)
    return max(laplace, float(norm.ppf((1 + confidence) / 2)))


def means(
    sums: Floats, present: Floats, variance: float, n_noises: int, quantile: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means, their standard errors, and the ends of intervals (Fieller 1954).

    `sums` are noisy sums of values in [-1, 1], and `present` how many there are, each
    computed from `n_noises` counts; the noise in a sum, and in a count, has a
    `variance`. An interval ends `quantile` standard deviations off. Where there may be
    nothing, these are NaN, NaN, -1 and 1.
    """
    spread = quantile**2 * variance
    leading = present**2 - n_noises * spread
    known = (present > 0) & (leading > 0)
    leading = np.where(known, leading, 1.0)
    number = np.where(known, present, 1.0)
    mean = np.where(known, sums / number, np.nan).clip(-1, 1)
    error = np.sqrt(variance * (1 + n_noises * mean**2)) / number
    # Where (sums - r present)**2 is within the noise of that, as a quadratic in r.
    root = np.sqrt(
        np.where(known, spread * (leading + n_noises * sums**2), 0.0).clip(min=0.0)
    )
    low = np.where(known, (sums * present - root) / leading, -1.0)
    high = np.where(known, (sums * present + root) / leading, 1.0)
    return mean, error, low.clip(-1, 1), high.clip(-1, 1)


def quantile(
    counts: Floats, edges: Floats, share: float, variance: float, quantile: float
) -> tuple[float, float, float]:
    """Return the value below which a share is, and the ends of its interval.

    Of bins with noisy counts, whose noise has a `variance`, and one more edges. The
    interval ends `quantile` standard deviations off.
    """
    total = float(counts.sum())
    below = np.concatenate([[0.0], np.cumsum(counts)])
    n_below = np.arange(len(edges))
    n_above = len(counts) - n_below
    # How many more than the share are below each edge, and the noise of that.
    more = below - share * total
    noise = quantile * np.sqrt(
        variance * ((1 - share) ** 2 * n_below + share**2 * n_above)
    )
    low = _last(more[1:-1] < -noise[1:-1])
    high = _last(more[1:-1][::-1] > noise[1:-1][::-1])
    ends = float(edges[low]), float(edges[len(edges) - 1 - high])
    rising = isotonic_regression(below).clip(min=0.0)
    if total <= 0 or rising[-1] <= rising[0]:
        return math.nan, *ends
    found = np.interp(share * rising[-1], rising, edges)
    return float(np.clip(found, *ends)), *ends


def _last(true: NDArray[np.bool_]) -> int:
    """Return how many are true before the first that is not."""
    return int(true.size if true.all() else true.argmin())


class _Marginal(NamedTuple):
    """What was released of some columns: sums over the cells of all others."""

    question: CellSums
    # Counts, if there are any, and then sums and numbers of missing values.
    sums: Floats
    variance: float


class PrivateTable(BaseEstimator):
    """Counts, means and quantiles of a data frame, by groups, in one release.

    Everything is computed from counts, and sums of clipped numbers, over cells of
    declared categories and bins. Cells do not depend on the data: there are empty ones.

    Parameters
    ----------
    schema : SchemaReference or mapping of str to column
        The public range ``(low, high)``, list of categories, and so on, of each column,
        as :class:`~skparisk.SchemaReference` takes it.

    counts : str, tuple of str, or list of these, default=None
        Groups whose cells are counted: a column, a tuple of columns for their cross
        table, ``()`` for all records; or a list of these.

    means : mapping of str to the same, default=None
        Columns of numbers, with the groups of their means.

    bins : int or mapping of str to int or sequence of float, default=10
        For counted or grouping columns of numbers: bins of equal width, >= 1; or
        increasing edges. The outer bins have all numbers beyond them.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How neighboring data differ: "replace-one" takes the number of records as
        public.

    weight : str, default=None
        A column of survey weights, declared as a range from 0 on: counts are sums of
        these, and means and quantiles are weighted. Private weights are clipped to the
        range, silently; a missing one is 0. Noise in counts is in proportion to the
        largest weight of the range.

    max_rows : int, default=None
        The most rows of a person to use, drawn at random, >= 1; with `groups` of `fit`.
        Noise is in proportion to it, and counts and means are of these rows.

    epsilon : float, default=1.0
        Privacy level of all together, in (0, inf].

    noise_random_state : int, RandomState, Generator or None, default=None
        Seeds the noise, for tests: :ref:`private-parameters`.

    Attributes
    ----------
    query_ : CellsQuery
        The questions.

    released_ : ndarray of shape (n_outputs,)
        The answer with noise: all else follows from it.

    noise_scale_ : float
        Scale of the Laplace noise in counts, and in sums of shares of half of a range;
        in units of the largest weight, if there are weights.

    n_records_ : int or None
        Records, if their number is public; None with `groups`, or with weights.

    epsilon_, certificate_ : float, Certificate
        The level, and the guarantee.

    Notes
    -----
    **Guarantee** (:ref:`thm-tables`). Exact Laplace noise on exact sums at their proven
    sensitivity: epsilon-differential privacy of rows, or, with `groups`, of people with
    all of their rows.

    A value outside the declared categories counts as "(other)". A missing value, or a
    text in a column of numbers, counts as "(missing)". Numbers are clipped to their
    ranges, silently. Text with a number is read as the number. So read files as text
    (``pandas.read_csv(path, dtype=str)``): else one record may decide the type of a
    column, and with it each of its cells.

    Counts and means are unbiased but for clipping, and may be below 0. Answers from
    different groups agree within the noise only. All numbers have the same noise: what
    needs less of it is asked by a table of its own, with an open
    :class:`~skparisk.PrivacyLedger` for both.

    Examples
    --------
    >>> import pandas as pd
    >>> from skparisk import PrivateTable
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500, "age": [30, 50] * 500})
    >>> schema = {"sex": ["f", "m"], "age": (18, 90)}
    >>> table = PrivateTable(schema, counts=["sex", "age"], means={"age": "sex"})
    >>> table = table.fit(people)
    >>> table.count("sex")["count"].round(-2).loc[["f", "m"]].tolist()
    [500.0, 500.0]
    >>> table.epsilon_, table.certificate_.risk
    (1.0, 0.0)
    """

    _takes_parts = True

    def __init__(
        self,
        schema: Any,
        *,
        counts: Any = None,
        means: Mapping[str, Any] | None = None,
        bins: Any = 10,
        relation: str = "replace-one",
        weight: str | None = None,
        max_rows: int | None = None,
        epsilon: float = 1.0,
        noise_random_state: Any = None,
    ) -> None:
        self.schema = schema
        self.counts = counts
        self.means = means
        self.bins = bins
        self.relation = relation
        self.weight = weight
        self.max_rows = max_rows
        self.epsilon = epsilon
        self.noise_random_state = noise_random_state

    @whole_fit
    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Answer all questions about a data frame, and release the answers with noise.

        Parameters
        ----------
        X : data frame of pandas, polars or Dask
            Private records, one a row. Other columns are not read.

        y : ignored
            For the interface of scikit-learn.

        groups : array-like of shape (n_rows,), default=None
            Whose each row is, if people have several; see `max_rows`.

        Raises
        ------
        ValueError
            If a parameter is out of range, nothing is asked for, or it is too much.

        IncompatibleError
            If `X` is no data frame, or lacks a column of a question.

        BudgetExceededError
            If a ledger is open and refuses.

        Warns
        -----
        PrivacyLeakWarning
            If the noise is seeded, or steps of a Pipeline before it learned from the
            records.
        """
        relation = check_relation(self.relation)
        target = Target(check_epsilon(self.epsilon), 0.0, 0.0, "explicit")
        noise_source(self.noise_random_state)
        several = check_max_rows(self.max_rows, groups)
        # How many rows people have is not public.
        rows_are = "add-remove" if several else relation
        query = find_query(
            self.schema, self.counts, self.means, self.bins, rows_are, self.weight
        )
        _check_frame(X.head if isinstance(X, Parted) else X, query)
        if several and isinstance(X, Parted):
            raise ValueError(
                "X must be in memory with groups, got a Dask frame: compute it before."
            )
        # Drawn apart from the noise, and only where there are people.
        source = noise_source(self.noise_random_state) if several else None
        people = private_people(groups, len(X), max_rows=several, source=source)
        n_records = len(X) if people is None else len(people.ends)
        public = relation == "replace-one"
        if public and not n_records:
            raise ValueError(
                "X must have at least one row with relation='replace-one', got none."
            )
        noise, certificate = find_known(
            query.bound(relation) * (several or 1),
            target,
            law="laplace",
            n_outputs=query.n_outputs,
            n_records=max(n_records, 1),
            relation=relation,
            unit=Unit.PERSON if several else Unit.RECORD,
            proven=True,
        )
        if not public:  # the evidence would tell how many records there are
            certificate = certificate.without_evidence()
        certificate = certificate.weaken(leaks=leaks_around())
        asked = X
        if query.columns:
            select = itemgetter(query.columns)
            asked = X.mapped(select) if isinstance(X, Parted) else select(X)
        plan = Plan(
            query,
            lambda n_outputs: (noise, certificate),
            at_most=certificate,
            n_outputs=query.n_outputs,
        )
        self.released_, self.certificate_ = release(
            plan,
            seal(of_people(asked, people)),
            OPEN,
            note=str(query),
            noise_random_state=self.noise_random_state,
        )
        self.query_ = query
        self.epsilon_ = certificate.epsilon
        counted = public and not several and query.weight is None
        self.n_records_ = n_records if counted else None
        self.noise_scale_ = noise.noise_scale
        return self

    def count(self, by: Any = (), *, confidence: float = 0.95) -> Any:
        """Return the number of records in each cell, or of the used rows of people.

        With weights, their total weight.

        Parameters
        ----------
        by : str or tuple of str, default=()
            A requested group, or a part of one. (): all records.

        confidence : float, default=0.95
            With what probability each interval has the true count, in (0, 1).

        Returns
        -------
        counts : pandas.DataFrame
            A row for each cell: "count", "std_error" of the noise, and the ends "low"
            and "high" of intervals.

        Raises
        ------
        ValueError
            If no requested group has these columns.
        """
        check_is_fitted(self, "certificate_")
        group = check_group(by, "by")
        width = deviations(check_probability(confidence, "confidence"))
        if not group and self.n_records_ is not None:
            n, error = np.array([float(self.n_records_)]), 0.0
            return _frame((), (), {"count": n, "std_error": error, "low": n, "high": n})
        found = self._marginal(group, None)
        unit = self.query_.weight[1] if self.query_.weight else 1.0
        counts, error = unit * found.sums[0], unit * math.sqrt(found.variance)
        low, high = counts - width * error, counts + width * error
        most = math.inf if self.n_records_ is None else float(self.n_records_)
        columns = {
            "count": counts,
            "std_error": np.full(counts.shape, error),
            "low": low.clip(0.0, most),
            "high": high.clip(0.0, most),
        }
        return _frame(group, _labels(found.question, group), columns)

    def mean(self, value: str, by: Any = (), *, confidence: float = 0.95) -> Any:
        """Return the mean of a column in each cell.

        Of the numbers present, clipped to their declared range.

        Parameters
        ----------
        value : str
            A column whose mean was asked for.

        by : str or tuple of str, default=()
            A group requested with it, or a part of one.

        confidence : float, default=0.95
            As of `count`; nearly.

        Returns
        -------
        means : pandas.DataFrame
            As of `count`, with "mean". NaN, and the whole range, where the noise hides
            whether there is any record.

        Raises
        ------
        ValueError
            If it was not asked for.
        """
        check_is_fitted(self, "certificate_")
        group = check_group(by, "by")
        width = deviations(check_probability(confidence, "confidence"))
        found = self._marginal(group, value)
        question, sums = found.question, found.sums
        place = int(question.counted) + 2 * question.values.index(value)
        n_records = sums[0] if question.counted else float(self.n_records_ or 0)
        mean, error, low, high = means(
            sums[place],
            np.asarray(n_records - sums[place + 1]),
            found.variance,
            1 + int(question.counted),
            width,
        )
        interval = question.ranges[question.values.index(value)]
        center, half = interval.fill, half_of(interval)
        columns = {
            "mean": (center + half * mean).clip(interval.low, interval.high),
            "std_error": half * error,
            "low": (center + half * low).clip(interval.low, interval.high),
            "high": (center + half * high).clip(interval.low, interval.high),
        }
        return _frame(group, _labels(question, group), columns)

    def quantile(self, value: str, q: Any = 0.5, *, confidence: float = 0.95) -> Any:
        """Return quantiles of a numeric column, assuming uniform values in each bin.

        Parameters
        ----------
        value : str
            A counted column of numbers, in a group of any columns.

        q : float or sequence of float, default=0.5
            Shares of the numbers below, in [0, 1].

        confidence : float, default=0.95
            As of `count`.

        Returns
        -------
        quantiles : pandas.DataFrame
            A row for each of `q`: "quantile", and edges of bins, "low" and "high", as
            ends of intervals. NaN where the noise hides all numbers.

        Raises
        ------
        ValueError
            If it was not counted, or `q` is out of range.
        """
        check_is_fitted(self, "certificate_")
        group = check_group(value, "value")
        width = deviations(check_probability(confidence, "confidence"))
        shares = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if shares.ndim != 1 or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"q must be numbers in [0, 1], got {q!r}.")
        found = self._marginal(group, None)
        (labels,) = _labels(found.question, group)
        bins = [label for label in labels if isinstance(label, tuple)]
        if not bins:
            raise ValueError(
                f"value must be a column of numbers, got {value!r}, which has "
                "categories."
            )
        edges = np.array([bins[0][0], *(high for _, high in bins)])
        rows = [
            quantile(found.sums[0][:-1], edges, share, found.variance, width)
            for share in shares.tolist()
        ]
        pandas = import_module("pandas")
        index = pandas.Index(shares, name="q")
        return pandas.DataFrame(rows, index, ["quantile", "low", "high"])

    def _marginal(self, group: Group, value: str | None) -> _Marginal:
        """Return the counts of a group, or its sums, with the least noise there are."""
        found: list[_Marginal] = []
        parts = self.query_.split(self.released_)
        for question, sums in zip(self.query_.questions, parts, strict=True):
            asked = question.counted if value is None else value in question.values
            if not (asked and {*group} <= {*question.by}):
                continue
            axes = [1 + question.by.index(name) for name in group]
            others = [a for a in range(1, sums.ndim) if a not in axes]
            n_cells = math.prod(sums.shape[axis] for axis in others)
            moved = np.transpose(sums, [0, *axes, *others])
            added = moved.reshape(*moved.shape[: 1 + len(axes)], -1).sum(axis=-1)
            variance = 2 * self.noise_scale_**2 * n_cells
            found.append(_Marginal(question, added, variance))
        if not found:
            what = "counts" if value is None else f"means of {value!r}"
            raise ValueError(
                f"by must be one of the groups whose {what} were asked for in fit, or "
                f"a part of one; got {group}: what was asked is {self.query_}."
            )
        return min(found, key=lambda each: each.variance)


def _check_frame(X: Any, query: CellsQuery) -> None:
    """Refuse what is no data frame that has all columns, each once."""
    if not is_frame(X):
        raise IncompatibleError(
            "X must be a data frame of pandas or polars, because columns are known by "
            f"name; got an object of type {type(X).__name__}."
        )
    names = list(X.columns)
    for name in query.columns:
        if names.count(name) != 1:
            raise IncompatibleError(
                f"X must have the column {name!r} once, but has it {names.count(name)} "
                "times."
            )


def _labels(question: CellSums, group: Group) -> list[Sequence[Any]]:
    """Return the labels of the cells of some columns; bins are pairs of edges."""
    return [question.cells[question.by.index(name)].labels for name in group]


def _frame(group: Group, labels: Sequence[Sequence[Any]], columns: Any) -> Any:
    """Return numbers for cells in a frame of pandas, which is imported here alone."""
    pandas = import_module("pandas")
    flat = {name: np.ravel(values) for name, values in columns.items()}
    shown = [
        [
            pandas.Interval(*label, closed="left") if type(label) is tuple else label
            for label in each
        ]
        for each in labels
    ]
    if not shown:
        return pandas.DataFrame(flat)
    if len(shown) == 1:
        index = pandas.Index(shown[0], name=group[0], dtype=object, tupleize_cols=False)
    else:
        index = pandas.MultiIndex.from_product(shown, names=group)
    return pandas.DataFrame(flat, index)
