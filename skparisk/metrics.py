"""Scores to file: sums over private records, released with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skparisk._checks import hide_counts, private_people
from skparisk.core.checks import IncompatibleError, check_choice, check_probability
from skparisk.core.claim import Assumption, Certificate, Unit, mint
from skparisk.core.release import Plan, hide_values, release, silenced
from skparisk.core.rounding import ceil_text
from skparisk.core.sealed import (
    People,
    check_names,
    copy_records,
    is_frame,
    is_missing,
    is_pandas,
    numbers,
    of_people,
    seal,
    take_rows,
)
from skparisk.ledger import OPEN
from skparisk.mechanisms import LaplaceMechanism
from skparisk.reference._records import as_records, columns_of, n_rows

__all__ = ["PrivateScore", "private_score"]

# Errors are rounded to such parts of the largest, so that their sum is exact.
_PARTS = 2**20
_MOST_SUMS = 2**20
# Of a person, that are scored.
_MOST_ROWS = 100
# Far from what no float can hold, also with noise. In units of the score.
_SPANS = (1e-150, 1e150)


@dataclass(frozen=True, eq=False)
class PrivateScore:
    """A noisy score on private records, with its guarantee.

    Made by :func:`private_score`.

    Parameters
    ----------
    scoring : str
        Name of the score.

    value : float or ndarray of shape (n_classes, n_classes)
        The score with noise, moved into the range of such scores. In units of the
        score: a share, the target or its square, or records.

    interval : tuple of (low, high)
        Where the score of these records without noise is, with the confidence; for a
        confusion matrix two arrays, for each count by itself.

    population_interval : tuple of (float, float) or None
        Where the expected score of a fresh record is, with the confidence, if records
        are independent draws. None for counts.

    confidence : float
        Of each interval, in (0, 1).

    n_records : int
        Scored records, or people.

    certificate : Certificate
        Guarantee of the release.
    """

    scoring: str
    value: Any
    interval: tuple[Any, Any]
    population_interval: tuple[float, float] | None
    confidence: float
    n_records: int
    certificate: Certificate

    def as_certificate(self) -> Certificate:
        """Return its claim for composition and budgets."""
        return self.certificate

    def __str__(self) -> str:
        low, high = self.interval
        level = f"epsilon {ceil_text(self.certificate.epsilon)}"
        people = self.certificate.unit == Unit.PERSON
        what = "people" if people else "records"
        about = f"confidence {self.confidence:g} each; {self.n_records} {what}, {level}"
        if self.population_interval is None:
            reach = math.ceil(np.max(np.maximum(high - self.value, self.value - low)))
            counts = np.rint(self.value).astype(int).tolist()
            return f"{counts} (each count within {reach}, {about})"
        least, most = self.population_interval
        return (
            f"{self.value:.4g} ({low:.4g} to {high:.4g} of these {what}, {least:.4g} "
            f"to {most:.4g} of people like them; {about})"
        )


class _Scoring(NamedTuple):
    """Sums over records, and how far one record moves them."""

    # (model, X, y, bounds) -> numbers of shape (n_records, n_sums), in [0, 1].
    each: Callable[[Any, Any, NDArray[Any], Any], NDArray[np.float64]]
    sensitivity: int = 1  # of the sums, when one record is replaced
    parts: int = 1
    worst: float = 0.0  # of a record that the model fails on
    power: int = 0  # of the span of `y_bounds` that is the unit of the score


def _predicted(model: Any, X: Any) -> NDArray[Any]:
    """Return one prediction for each record."""
    return np.asarray(model.predict(X)).reshape(n_rows(X))


def _is_right(model: Any, X: Any, y: NDArray[Any], bounds: Any) -> Any:
    return (_predicted(model, X) == y)[:, None]


def _cell(model: Any, X: Any, y: NDArray[Any], bounds: Any) -> Any:
    """Return which cell a record is in; a label that is no class is in none."""
    classes = np.asarray(model.classes_)
    found = _predicted(model, X)
    true, predicted = (labels[:, None] == classes for labels in (y, found))
    return (true[:, :, None] & predicted[:, None, :]).reshape(len(y), -1)


def _brier(model: Any, X: Any, y: NDArray[Any], bounds: Any) -> Any:
    true = y[:, None] == np.asarray(model.classes_)
    return ((model.predict_proba(X) - true) ** 2).sum(axis=1, keepdims=True) / 2


def _error(model: Any, X: Any, y: NDArray[Any], bounds: Any) -> Any:
    """Return errors, as shares of the span, of what is clipped to bounds."""
    low, high = bounds
    found = np.asarray(_predicted(model, X), dtype=np.float64)
    true, predicted = (np.clip(side, low, high) for side in (numbers(y), found))
    return (np.abs(true - predicted) / (high - low))[:, None]


_SCORINGS = {
    "accuracy": _Scoring(_is_right),
    "confusion_matrix": _Scoring(_cell, sensitivity=2),
    "brier_score": _Scoring(_brier, parts=_PARTS, worst=1.0),
    "mean_absolute_error": _Scoring(_error, parts=_PARTS, worst=1.0, power=1),
    "mean_squared_error": _Scoring(
        lambda *given: _error(*given) ** 2, parts=_PARTS, worst=1.0, power=2
    ),
}
# What a model must have for a score.
_NEEDED = {"brier_score": ("predict_proba", "classes_")}
_NEEDED |= {"confusion_matrix": ("predict", "classes_")}


@hide_counts
def private_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    scoring: str,
    epsilon: float,
    groups: Any = None,
    y_bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
    noise_random_state: Any = None,
) -> PrivateScore:
    r"""Return a score on private records, with noise, for filing.

    ``model.score(X, y)`` of private records is a release without noise.

    Parameters
    ----------
    model : estimator
        Fitted, and released or public. It must predict each record by itself. A record
        on which it fails, or predicts NaN, has the worst score (a confusion matrix does
        not count it), without an error: try the model on public records first.

    X : array-like or data frame of shape (n_records, n_features)
        Private records. How many they are is public.

    y : array-like of shape (n_records,)
        Their targets.

    scoring : str
        "accuracy"; "confusion_matrix", the records of each true class (rows) with each
        predicted one, without labels unknown to the model; "brier_score", the squared
        distance of probabilities and truth, for two classes half of it, as in
        scikit-learn; "mean_absolute_error" or "mean_squared_error".

    epsilon : float
        Privacy level, in (0, inf]. Unitless.

    groups : array-like of shape (n_records,), default=None
        Ids of people, if they have several records. A person then counts as the mean of
        their records, or of 100 spread evenly among them, and the level protects
        people. How many they are is public, and the number of records is not.

    y_bounds : tuple of (float, float), default=None
        For errors alone: public bounds, in units of the target, to which targets and
        predictions are clipped; 1e-150 to 1e150 apart, for squared errors 1e-75 to
        1e75.

    confidence : float, default=0.95
        Of each interval, in (0, 1).

    noise_random_state
        As in :meth:`skparisk.mechanisms.LaplaceMechanism.release`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the model has no such predictions, or is
        for another number of columns.

    IncompatibleError
        If the model was fitted to a data frame, and `X` is none, or has other columns
        or these in another order.

    BudgetExceededError
        If a ledger is open and refuses.

    Notes
    -----
    **Guarantee**. epsilon-differentially private when one record is replaced, or one
    person of `groups` with all records. The noise is the exact noise of
    :class:`~skparisk.mechanisms.LaplaceMechanism`: a sum of scores moves by the public
    width of their range at most, a confusion matrix by 2. The caller must ensure that
    the model predicts each record by itself. Both intervals pay for noise and rounding.
    The interval of the population adds the bound of Hoeffding (1963, Theorem 2), at
    half of the error each.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skparisk.metrics import private_score
    >>> X, y = np.arange(1000.0)[:, None], np.arange(1000.0)
    >>> model = LinearRegression().fit(X, y)
    >>> options = {"scoring": "mean_absolute_error", "y_bounds": (0, 1000)}
    >>> bool(private_score(model, X, y, epsilon=1.0, **options).value < 20)
    True
    """
    rule = _SCORINGS[check_choice(scoring, "scoring", _SCORINGS)]
    span = check_bounds(y_bounds, scoring)
    alpha = 1 - check_probability(confidence, "confidence")
    records, targets = hide_values(as_records, X, "X"), hide_values(_as_targets, y)
    n_records = n_rows(records)
    if targets.shape != (n_records,) or not n_records:
        raise ValueError(  # without their number, which is private of people
            "y must be one target for each record of X, at least one."
        )
    if (people := private_people(groups, n_records)) is not None:
        n_records = len(people.ends)
        targets = _beside(targets, people)
        rule = rule._replace(parts=_PARTS)
    _check_model(model, scoring, records)
    if scoring == "brier_score" and len(model.classes_) > 2:
        span = 2.0  # as of scikit-learn, which halves it for two classes
    n_sums = len(model.classes_) ** 2 if scoring == "confusion_matrix" else 1
    noise = LaplaceMechanism(rule.sensitivity * rule.parts, epsilon, n_sums)
    certificate = mint(
        epsilon=noise.epsilon,
        relation="replace-one",
        unit=Unit.RECORD if people is None else Unit.PERSON,
        loss=noise.as_certificate().loss,
        assumptions=frozenset({Assumption.ROW_WISE_SCORE}),
    )
    plan = Plan(
        partial(_sums, rule, n_sums, model, bounds=y_bounds),
        lambda n_outputs: (noise.noise, certificate),
        at_most=certificate,
        n_outputs=n_sums,
    )
    released, certificate = release(
        plan,
        seal(of_people(records, people), of_people(targets, people)),
        OPEN,
        note=f"{scoring} of {n_records} {'records' if people is None else 'people'}",
        noise_random_state=noise_random_state,
    )
    counts = scoring == "confusion_matrix"
    size = 1 if counts else n_records
    unit, most = span / (rule.parts * size), n_records if counts else span
    shape = (math.isqrt(n_sums),) * 2 if counts else ()
    value = (released * unit).reshape(shape)
    rounding = 0.0 if rule.parts == 1 else most / (2 * rule.parts)
    if people is not None and counts:
        rounding *= 2  # they are rounded down

    def around(tail: float, *others: float) -> tuple[Any, Any]:
        reach = _reach(noise, tail) * unit + rounding + sum(others)
        ends = (value - reach, value + reach)
        low, high = (np.clip(end, 0.0, most) for end in ends)
        return (low, high) if counts else (float(low), float(high))

    # P(|mean - expected| >= t) <= 2 exp(-2 n t**2), of scores in [0, 1].
    hoeffding = math.sqrt(math.log(4 / alpha) / (2 * n_records))
    clipped = np.clip(value, 0.0, most)
    return PrivateScore(
        scoring=scoring,
        value=clipped if counts else float(clipped),
        interval=around(alpha),
        population_interval=None if counts else around(alpha / 2, hoeffding * span),
        confidence=confidence,
        n_records=n_records,
        certificate=certificate,
    )


def check_noise(scoring: str, epsilon: float) -> None:
    """Refuse a level that is too small for noise of as many sums as there may be."""
    rule = _SCORINGS[scoring]
    LaplaceMechanism(rule.sensitivity * rule.parts, epsilon, _MOST_SUMS)


def check_bounds(bounds: Any, scoring: str) -> float:
    """Return the span of a score with these bounds; 1 where there are none."""
    power = _SCORINGS[scoring].power
    if not power:
        if bounds is not None:
            raise ValueError(
                f"y_bounds must be None with scoring={scoring!r}, got {bounds!r}."
            )
        return 1.0
    ends = np.asarray([] if bounds is None else bounds)
    if ends.shape != (2,) or ends.dtype.kind not in "iuf":
        ends = np.array([math.nan, math.nan])
    width = float(ends[1]) - float(ends[0])
    least, most = (limit ** (1 / power) for limit in _SPANS)
    if not least <= width <= most:
        raise ValueError(
            "y_bounds must be two finite numbers (low, high), low below high, that are "
            f"between {least:.0e} and {most:.0e} apart, with scoring={scoring!r}, got "
            f"{bounds!r}: what targets can be, by what is public of them."
        )
    return width**power


def _as_targets(y: Any) -> NDArray[Any]:
    """Return targets of which none changes what the others are, nor fails."""
    targets = np.asarray(y)
    if targets.dtype.kind in "UST":
        # Not through the array, in which numbers beside texts are texts as well.
        targets = np.asarray(targets if y is targets else y, dtype=object)
    if targets.dtype == object and targets.ndim == 1:
        # What pandas has for missing values compares to nothing, not even False.
        known = (math.nan if is_missing(each) else each for each in targets)
        return np.fromiter(known, object, len(targets))
    return targets


def _check_model(model: Any, scoring: str, records: Any) -> None:
    """Refuse a model by what is public of it, and of records."""
    missing = [
        name for name in _NEEDED.get(scoring, ("predict",)) if not hasattr(model, name)
    ]
    if missing:
        raise ValueError(
            f"model must be fitted and have {' and '.join(missing)} with "
            f"scoring={scoring!r}, got {type(model).__name__}."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        if not is_frame(records):
            raise IncompatibleError(
                f"X must be a data frame with the columns {[*names]}, as what the "
                "model was fitted to; got none."
            )
        check_names([*names], [*records.columns], "X", "The model")
    n_columns = records.shape[1] if len(records.shape) > 1 else None
    expected = getattr(model, "n_features_in_", n_columns)
    if None not in (n_columns, expected) and n_columns != expected:
        raise ValueError(
            f"X must have {expected} columns, as what the model was fitted to, got "
            f"{n_columns}."
        )


def _sums(
    rule: _Scoring, n_sums: int, model: Any, X: Any, y: NDArray[Any], bounds: Any
) -> NDArray[np.float64]:
    """Return the sums, which are whole numbers of parts; say nothing else of records.

    A score that is no number counts as the worst. A person counts with the mean of
    their rows. Their counts are rounded down, and sum to one at most.
    """
    of_people = y.ndim > 1
    layers: Any = [(np.arange(len(y)), 1.0)]
    if of_people:
        y, layers = y[:, 0], _layers(y[:, 1].astype(np.intp))
    mean = np.zeros((1, n_sums))
    with np.errstate(all="ignore"), silenced():
        score = partial(_of_one_kind, rule, n_sums, model, bounds)
        for rows, shares in layers:
            each = _each_or_worst(score, take_rows(X, rows), y[rows])
            mean = mean + np.clip(each, 0.0, 1.0) * shares
    parts = np.clip(mean, 0.0, 1.0) * rule.parts
    whole = np.floor(parts) if of_people and n_sums > 1 else np.rint(parts)
    return whole.astype(np.int64).sum(axis=0).astype(np.float64)


def _layers(people: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], Any]]:
    """Yield one row of each person, and its share in the score of that person.

    A person with many rows counts with some of them, evenly spread. The model always
    predicts as many rows at once as there are people: the number of rows of one must
    not change the last bits of a prediction for another.
    """
    order = np.argsort(people, kind="stable")
    sizes = np.bincount(people)
    firsts, used = sizes.cumsum() - sizes, np.minimum(sizes, _MOST_ROWS)
    for number in range(int(used.max())):
        there = number < used
        places = np.where(there, number * sizes // used, 0)
        yield order[firsts + places], (there / used)[:, None]


def _beside(y: NDArray[Any], people: People) -> NDArray[Any]:
    """Return targets, with the number of the person of each in a second column."""
    both = np.empty((len(y), 2), dtype=y.dtype if y.dtype == np.float64 else object)
    both[:, 0] = y
    both[people.rows, 1] = people.numbers
    return both


def _each_or_worst(
    score: Callable[..., NDArray[np.float64]], X: Any, y: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the scores of some records; those that the model fails on have the worst.

    The last bits of a prediction depend on how many records are predicted together,
    such as those of a product of matrices, and may decide its score. So the others are
    scored once more as if nothing had failed, all together.

    One text among the numbers of a column would make all of them objects, which a model
    may not take: records whose values have other types are scored apart, in as large a
    table.
    """
    alike, scores = _of_types(X), np.zeros((len(y), 1))
    for number in range(alike.max() + 1):
        own = alike == number
        places = np.where(own, np.arange(len(y)), np.argmax(own))
        each = score(take_rows(X, places), y[places])
        scores = np.where(own[:, None], each, scores)
    return scores


def _of_types(X: Any) -> NDArray[np.intp]:
    """Return a number for each record: equal where the values have the same types."""
    columns = () if sparse.issparse(X) else columns_of(X)
    types = [[*map(type, column)] for column in columns if column.dtype == object]
    known: dict[Any, int] = {}
    found = zip(*types, strict=True) if types else ((),) * n_rows(X)
    return np.array([known.setdefault(each, len(known)) for each in found])


def _of_one_kind(
    rule: _Scoring, n_sums: int, model: Any, bounds: Any, X: Any, y: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the scores of records whose values have the same types."""

    def halved(X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return scores, which are NaN for records that the model fails on."""
        n = len(y)
        try:
            known = copy_records(X)
            known = known.infer_objects() if is_pandas(X) else as_records(known)
            each = np.asarray(rule.each(model, known, y, bounds), np.float64)
            return np.nan_to_num(each.reshape(n, n_sums), nan=1.0)
        except Exception:  # of some record: each half is asked by itself
            if n == 1:
                return np.full((1, n_sums), np.nan)
            halves = slice(n // 2), slice(n // 2, None)
            return np.concatenate([halved(take_rows(X, h), y[h]) for h in halves])

    each = halved(X, y)
    failed = np.isnan(each[:, 0])
    if failed.any() and not failed.all():
        places = np.where(failed, np.argmin(failed), np.arange(len(y)))
        each = halved(take_rows(X, places), y[places])
        failed |= np.isnan(each[:, 0])
    each[failed] = rule.worst
    return each


def _reach(noise: LaplaceMechanism, tail: float) -> float:
    """Return what the noise of a value exceeds with probability at most `tail`.

    P(|Z| >= k) <= exp(-(k - 1/2) / t) for discrete Laplace noise of scale t, as
    1 + exp(-1/t) >= 2 exp(-1/(2t)); one more step for the rounding of the value.
    """
    if not noise.noise.steps:
        return 0.0
    return noise.noise_scale * math.log(1 / tail) * (1 + 2.0**-40) + 2 * noise.grid
