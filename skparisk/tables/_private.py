"""PrivateTable: one release of what a data steward first asks of a data frame.

Nearly half of it is docstrings: what may be asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skparisk._callers import tell_leaks_around
from skparisk._fitted import whole_fit
from skparisk.core.calibrate import Target, find_known
from skparisk.core.checks import (
    IncompatibleError,
    check_epsilon,
    check_flag,
    check_probability,
    check_relation,
)
from skparisk.core.exact import noise_source
from skparisk.core.release import Plan, release
from skparisk.core.sealed import is_frame, seal
from skparisk.ledger import OPEN
from skparisk.queries._cells import CellsQuery, CellSums, half_of
from skparisk.queries._together import Floats
from skparisk.tables._answers import as_counts, deviations, means, quantile
from skparisk.tables._questions import Group, check_group, find_query


class _Marginal(NamedTuple):
    """What was released of some columns: sums over the cells of all others."""

    question: CellSums
    # Counts, if there are any, and then sums and numbers of missing values.
    sums: Floats
    variance: float


class PrivateTable(BaseEstimator):
    """Counts, means and quantiles of a data frame, by groups, in one release.

    Everything is computed from counts, and sums of clipped numbers, over the cells that
    declared categories and bins make: epsilon-differentially private for any data.
    Cells do not depend on the data: those that are empty are there as well.

    Parameters
    ----------
    schema : SchemaReference or mapping of str to column
        What each column may hold, as :class:`~skparisk.SchemaReference` takes it: a
        range ``(low, high)``, a list of categories, and so on. Public.

    counts : str, tuple of str, or list of these, default=None
        Columns whose cells are counted: a name, a tuple of several for a cross table,
        ``()`` for all records; or a list of these.

    means : mapping of str to the same, default=None
        For columns of numbers: by what their means are asked, ``()`` for the mean of
        all records. They are clipped to their declared ranges.

    bins : int or mapping of str to int or sequence of float, default=10
        For columns of numbers that are counted, or grouped by: how many bins of equal
        width, >= 1; or increasing edges. The first and the last bin have what is
        outside as well.

    shares : mapping of str or tuple of str to float, default=None
        The share of epsilon, > 0, that each group of `counts` and `means` gets; they
        need not add up to anything. None: all released numbers have the same noise.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How neighboring data differ: "replace-one" takes the number of records as
        public.

    epsilon : float, default=1.0
        Privacy level of all together, in (0, inf].

    noise_random_state : int, RandomState, Generator or None, default=None
        None: noise comes from the operating system's cryptographic source. Anything
        else is for tests, and warns: nothing is then private.

    Attributes
    ----------
    query_ : CellsQuery
        What was asked.

    released_ : ndarray of shape (n_outputs,)
        The answer with noise: all else follows from it.

    budget_ : dict of tuple of str to float
        The part of epsilon that each group has.

    noise_scales_ : dict of tuple of str to float
        Scale of the Laplace noise in counts of each group, and in sums of shares of
        half of a range.

    n_records_ : int or None
        Records, if that is public.

    epsilon_, certificate_ : float, Certificate
        The level, and what is guaranteed.

    Notes
    -----
    **Guarantee** (:ref:`thm-tables`). With exact Laplace noise on exact sums at their
    proven sensitivity the release is epsilon-differentially private. A value that is no
    declared category is counted as "(other)", one that is missing, or no number where
    there should be one, as "(missing)", and numbers are clipped to their ranges; none
    of this is said. Text that is a number is read as one, so read files as text
    (``pandas.read_csv(path, dtype=str)``): else the type of a column, and with it each
    of its cells, may follow from one record. Protected are rows: each person must have
    one.

    Counts and means are unbiased but for clipping, and may be below 0; what follows
    from several groups agrees within the noise only.

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
    >>> table.epsilon_, table.certificate_.risk, table.budget_[("age",)]
    (1.0, 0.0, 0.3333333333333333)
    """

    def __init__(
        self,
        schema: Any,
        *,
        counts: Any = None,
        means: Mapping[str, Any] | None = None,
        bins: Any = 10,
        shares: Mapping[Any, float] | None = None,
        relation: str = "replace-one",
        epsilon: float = 1.0,
        noise_random_state: Any = None,
    ) -> None:
        self.schema = schema
        self.counts = counts
        self.means = means
        self.bins = bins
        self.shares = shares
        self.relation = relation
        self.epsilon = epsilon
        self.noise_random_state = noise_random_state

    @whole_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Answer all questions about a data frame, and release the answers with noise.

        Parameters
        ----------
        X : data frame of pandas or polars
            Private records, one a row. Columns that are not asked about are not looked
            at, and none is changed.

        y : ignored
            For the interface of scikit-learn.

        Raises
        ------
        ValueError
            If a parameter is out of range, nothing is asked for, or it is too much.

        IncompatibleError
            If `X` is no data frame, or lacks a column that is asked about.

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
        query = find_query(
            self.schema, self.counts, self.means, self.bins, self.shares, relation
        )
        n_records = len(_check_frame(X, query))
        public = relation == "replace-one"
        if public and not n_records:
            raise ValueError(
                "X must have at least one row with relation='replace-one', got none."
            )
        noise, certificate = find_known(
            query.bound(relation),
            target,
            law="laplace",
            n_outputs=query.n_outputs,
            n_records=max(n_records, 1),
            relation=relation,
            proven=True,
        )
        if not public:  # the evidence would tell how many records there are
            certificate = certificate.without_evidence()
        certificate = certificate.weaken(leaks=tell_leaks_around())
        asked = X[query.columns] if query.columns else X
        plan = Plan(query, lambda n_outputs: (noise, certificate), certificate)
        self.released_, self.certificate_ = release(
            plan,
            seal(asked),
            OPEN,
            note=str(query),
            noise_random_state=self.noise_random_state,
        )
        self.query_ = query
        self.epsilon_ = certificate.epsilon
        self.n_records_ = n_records if public else None
        whole = query.bound(relation)
        self.budget_ = {
            each.by: self.epsilon_ * each.weight * each.bound(relation) / whole
            for each in query.questions
        }
        self.noise_scales_ = {
            each.by: noise.noise_scale / each.weight for each in query.questions
        }
        return self

    def count(
        self, by: Any = (), *, confidence: float = 0.95, consistent: bool = False
    ) -> Any:
        """Return how many records are in each cell, for nothing more.

        Parameters
        ----------
        by : str or tuple of str, default=()
            Columns whose cells to count: a group that was asked for, or a part of one.
            (): all records.

        confidence : float, default=0.95
            With what probability each interval has the true count, in (0, 1).

        consistent : bool, default=False
            Whether counts are moved to the nearest that are not negative, and that add
            up to the number of records if this is public. They are then no longer
            unbiased; `std_error` and intervals are those of the plain ones.

        Returns
        -------
        counts : pandas.DataFrame
            With a row for each cell, "count", "std_error" of the noise, and the ends
            "low" and "high" of intervals.

        Raises
        ------
        ValueError
            If no group that was asked for has these columns.
        """
        check_is_fitted(self, "certificate_")
        group = check_group(by, "by")
        width = deviations(check_probability(confidence, "confidence"))
        consistent = check_flag(consistent, "consistent")
        if not group and self.n_records_ is not None:
            n, error = np.array([float(self.n_records_)]), 0.0
            return _frame((), (), {"count": n, "std_error": error, "low": n, "high": n})
        found = self._marginal(group, None)
        counts, error = found.sums[0], math.sqrt(found.variance)
        most = math.inf if self.n_records_ is None else float(self.n_records_)
        columns = {
            "count": as_counts(counts, self.n_records_) if consistent else counts,
            "std_error": np.full(counts.shape, error),
            "low": (counts - width * error).clip(0.0, most),
            "high": (counts + width * error).clip(0.0, most),
        }
        return _frame(group, _labels(found.question, group), columns)

    def mean(self, value: str, by: Any = (), *, confidence: float = 0.95) -> Any:
        """Return the mean of a column in each cell, for nothing more.

        Of numbers that are not missing, clipped to their declared range.

        Parameters
        ----------
        value : str
            A column whose mean was asked for.

        by : str or tuple of str, default=()
            A group that was asked for with it, or a part of one.

        confidence : float, default=0.95
            With what probability each interval has the true mean, in (0, 1), nearly.

        Returns
        -------
        means : pandas.DataFrame
            With a row for each cell, "mean", "std_error" of the noise, and the ends
            "low" and "high" of intervals. NaN, and all of the range, where the noise
            hides whether there is any record.

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
        """Return quantiles of a column of numbers from its histogram, for nothing more.

        Numbers are taken to be uniform in each bin.

        Parameters
        ----------
        value : str
            A column of numbers that was counted, in a group of any columns.

        q : float or sequence of float, default=0.5
            Shares of the numbers that are below, in [0, 1].

        confidence : float, default=0.95
            With what probability each interval has the true quantile, in (0, 1).

        Returns
        -------
        quantiles : pandas.DataFrame
            With a row for each of `q`, "quantile", and the ends "low" and "high" of
            intervals, which are edges of bins. NaN where the noise hides all numbers.

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
            each = 2 * self.noise_scales_[question.by] ** 2
            n_cells = math.prod(sums.shape[axis] for axis in others)
            moved = np.transpose(sums, [0, *axes, *others])
            added = moved.reshape(*moved.shape[: 1 + len(axes)], -1).sum(axis=-1)
            found.append(_Marginal(question, added, n_cells * each))
        if not found:
            what = "counts" if value is None else f"means of {value!r}"
            raise ValueError(
                f"by must be one of the groups whose {what} were asked for in fit, or "
                f"a part of one; got {group}: what was asked is {self.query_}."
            )
        return min(found, key=lambda each: each.variance)


def _check_frame(X: Any, query: CellsQuery) -> Any:
    """Return a data frame that has all columns, each once."""
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
    return X


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
