"""Penalties that are compared by simulated releases on public records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from skparisk.core.calibrate import Terms
from skparisk.core.checks import CalibrationError, check_random_state
from skparisk.core.exact import noise_source
from skparisk.core.noise import AdditiveNoise
from skparisk.core.pairs import SampledPairs
from skparisk.neighbors import n_own
from skparisk.queries import LinearSVCQuery, Query, RidgeQuery
from skparisk.queries._base import Floats
from skparisk.queries._labels import label_codes
from skparisk.queries._linear import (
    LinearQuery,
    UnitsQuery,
    in_units,
    units_of,
)
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._records import Schema
from skparisk.sensitivity import SensitivitySampler
from skparisk.sensitivity._parallel import PairSpec
from skparisk.sensitivity._terms import find_noise, settle

_FOLDS = 5


def simulated_noise(pairs: SampledPairs, terms: Terms) -> AdditiveNoise:
    """Return noise whose shape and size are those that the same pairs ask for.

    It must not be released: the terms are for twice as many. A shape that is learned
    from half of few pairs would be far from that of all. It is learned from all, in
    which they are closer than others are: the noise is about a tenth too small.
    """
    twice = pairs.take(np.tile(np.arange(len(pairs)), 2))
    # By the terms neighbors of a database count as if they were on their own.
    noise = find_noise(replace(twice, n_neighbors=terms.n_neighbors), terms).noise
    assert isinstance(noise, AdditiveNoise)
    return noise


# Powers of 10 for each record, and columns of size 1: from where nothing is lost to the
# penalty, to where little but the intercept is left. Larger ones where that helps;
# smaller ones than two that were worse are not tried, as they get more noise, and take
# the longest to fit. There is one more half a decade on either side of the best: a top
# is flat toward smaller penalties and steep toward larger ones, so that a parabola over
# decades is off.
_LEAST, _MOST, _LARGER = -4.0, 1.0, 2


class Tried(dict[float, tuple[float, float]]):
    """Scores and noise of penalties, by their logarithm for each record."""

    def best(self) -> float:
        """Return the best; of equals the smallest, which lets the features count."""
        return max(self, key=lambda place: (self[place][0], -place))

    def vertex(self) -> float:
        """Return where a parabola through the best and its neighbors has its top."""
        best = self.best()
        places = sorted(self)
        around = places[max(places.index(best) - 1, 0) : places.index(best) + 2]
        scores = [self[place][0] for place in around]
        if len(around) < 3 or not np.isfinite(scores).all():
            return best
        low, middle, high = scores
        bend = low - 2 * middle + high
        step = (around[2] - around[0]) / 2
        return best + step * (low - high) / (2 * bend) if bend < 0 else best


def climb(score: Callable[[float], tuple[float, float]]) -> Tried:
    """Try penalties a decade apart, from the largest on, and then beside the best."""
    tried, place = Tried(), _MOST
    while place >= _LEAST and (not tried or tried.best() - place < 1.5):
        tried[place] = score(place)
        place -= 1
    for _ in range(_LARGER):
        top, below = sorted(tried, reverse=True)[:2]
        if not tried[top][0] > tried[below][0]:
            break
        tried[top + 1] = score(top + 1)
    best = tried.best()
    for place in (best - 0.5, best + 0.5):
        tried[place] = score(place)
    return tried


# What scikit-learn has for all three of them.
USUAL_PENALTY = 1.0
# Each of about six candidates gets this share of the pairs of a fit.
_SHARE_OF_PAIRS, _FEWEST_PAIRS, _MOST_PAIRS = 8, 24, 1000
# Databases of so many records differ little in how far their neighbors are, so that
# each may have several of them.
_LARGE, _NEIGHBORS = 2**12, 5
_DRAWS = 64
_STEPS = 2**20
# Records of the table that are fitted or scored in a fold.
_MOST_FITTED, _MOST_SCORED = 5000, 1000
# Rows of a table that pairs are drawn from, or as many for each column if that is more:
# the few pairs of a candidate need not prepare all rows of a large table. Or as many as
# have this many of the rarest class, without which answers hardly differ.
_MOST_ROWS, _ROWS_PER_COLUMN, _ROWS_PER_CLASS = 5000, 64, 20


@dataclass(frozen=True, eq=False)
class PenaltyChoice:
    """Comparison of penalties on public records.

    Of a model with ``alpha="auto"`` or ``C="auto"``, or with None and a chosen penalty.
    All of it is public. Given as `alpha` or `C`, it is the penalty of other fits.

    Parameters
    ----------
    chosen : float
        Where the score is best, which the model was fitted with: between candidates, by
        a parabola.

    units : tuple of float
        For each column the power of 2 next to its standard deviation in the reference
        (root mean square without an intercept): the penalty is on the coefficient times
        this, which removes the units of the data.

    candidates : ndarray of shape (n_candidates,)
        Values of `alpha`, or of `C`, in increasing order.

    scores : ndarray of shape (n_candidates,)
        Expected score of the release on held-out public records. R2: over the noise, as
        `score` has it (below its median). Labels: 1 minus the mean loss, logarithmic or
        hinge, its median over draws of the noise. -inf where no noise could be
        calibrated.

    noise : ndarray of shape (n_candidates,)
        Standard deviation of the noise of a released number, root mean square over all
        of them, for so few pairs. Infinite where none could be calibrated.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skparisk import PrivateRidge
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> public = {"X_reference": X[::2], "y_reference": y[::2]}
    >>> model = PrivateRidge(random_state=0).fit(X[1::2], y[1::2], **public)
    >>> model.penalty_choice_.chosen == model.alpha_
    True
    >>> len(model.penalty_choice_.scores) == len(model.penalty_choice_.candidates)
    True
    """

    chosen: float
    units: tuple[float, ...]
    candidates: Floats
    scores: Floats
    noise: Floats

    def __repr__(self) -> str:
        n, best = len(self.candidates), self.scores.max()
        return f"PenaltyChoice({self.chosen:g} of {n}, score {best:.3f})"


class PenaltyChooser:
    """Releases that are simulated with candidates for a penalty.

    Each is calibrated to few pairs, which are the same for all candidates, and never
    those that calibrate the release: a penalty that does well on a few pairs would make
    these look smaller than a fresh one.
    """

    def __init__(
        self,
        source: SensitivitySampler,
        table: TableReference,
        n_private: int,
        query: LinearQuery,
    ) -> None:
        # With "add-remove" the number of private records is private itself.
        n_records = source.n_records
        if n_records is None and source.relation == "replace-one":
            n_records = n_private
        self._n_records = n_records
        self._source, self._table, self._query = source, table, query
        rng = check_random_state(source.random_state, "random_state")
        entropy = int.from_bytes(rng.bytes(16), "little")
        # Two words, where the sampling of pairs that calibrate has one: other streams.
        seeds = np.random.SeedSequence([entropy, 1]).spawn(3)
        self._pairs_seed, self._noise_seed = (
            int(seed.generate_state(1)[0]) for seed in seeds[:2]
        )
        self._rng = np.random.default_rng(seeds[2])

    def query(self, penalty: float) -> LinearQuery | UnitsQuery:
        """Return the query with a penalty, for columns in units of their size."""
        return in_units(self._query.with_penalty(penalty), self._units)

    @np.errstate(over="ignore", invalid="ignore")  # numbers near the largest ones
    def choose(self) -> PenaltyChoice | None:
        """Return the best of several penalties, or None if none can be released."""
        assert self._table.whole is not None
        pool = self._table.whole.numbers
        if self._n_records is None or pool.y is None:
            return None  # said where pairs are drawn
        self._units = units_of(pool.X, fit_intercept=self._query.fit_intercept)
        self._prepare(pool)
        tried = climb(self._score)
        if tried[tried.best()][0] == -math.inf:
            return None
        order = sorted(tried, key=self._penalty)
        scores, noise = np.array([tried[place] for place in order]).T
        return PenaltyChoice(
            self._penalty(tried.vertex()),
            self._units,
            np.array([self._penalty(place) for place in order]),
            scores,
            noise,
        )

    def _prepare(self, pool: RecordPool) -> None:
        """Find what all candidates share: terms, folds and draws of the noise."""
        source = self._source
        given: Any = source.n_pairs
        given = given if not isinstance(given, str) else _SHARE_OF_PAIRS * 125
        self._n_pairs = int(
            np.clip(given // _SHARE_OF_PAIRS, _FEWEST_PAIRS, _MOST_PAIRS)
        )
        assert self._n_records is not None
        large = min(self._n_records, pool.n_records) >= _LARGE
        self._n_neighbors = _NEIGHBORS if large else 1
        self._n_pairs -= self._n_pairs % self._n_neighbors
        self._terms, self._n_pairs = _agree(source, self._n_pairs)
        self._classes = self._query.classes
        self._X = pool.X
        most = max(_MOST_ROWS, _ROWS_PER_COLUMN * pool.X.shape[1])
        if self._classes is not None and pool.y is not None:
            firsts = self._query.targets_of(pool.y)[0][pool.first_rows]
            rarest = np.unique(firsts, return_counts=True)[1].min()
            most = max(most, _ROWS_PER_CLASS * pool.n_records // int(rarest))
        self._drawn_from = self._table.numbers._part(most)
        self._folds = [
            _Fold(pool, train, test, self._query) for train, test in self._splits(pool)
        ]
        self._standard: Floats | None = None

    def _splits(self, pool: RecordPool) -> list[tuple[Any, Any]]:
        """Return rows to fit and rows to score, with all classes among both."""
        assert pool.y is not None
        order = self._rng.permutation(pool.n_records)
        if self._classes is not None:
            firsts = self._query.targets_of(pool.y)[0][pool.first_rows]
            order = order[np.argsort(firsts[order], kind="stable")]
        fold = np.arange(len(order)) % _FOLDS
        splits = []
        for number in range(min(_FOLDS, len(order))):
            rows = [
                self._rng.permutation(order[part])
                for part in (fold != number, fold == number)
            ]
            assert self._n_records is not None
            n_train = min(self._n_records, _MOST_FITTED)
            splits.append((rows[0][:n_train], rows[1][:_MOST_SCORED]))
        return splits

    def _penalty(self, place: float) -> float:
        """Return the penalty of so many powers of 10 for each record."""
        assert self._n_records is not None
        strength = 10**place * self._n_records
        regress = isinstance(self._query, RidgeQuery)
        return float(f"{strength if regress else 1 / strength:.3g}")

    def _score(self, place: float) -> tuple[float, float]:
        """Return the expected score of a release, and the size of its noise."""
        penalty = self._penalty(place)
        found = self._noise(self._released(penalty))
        if found is None:
            return -math.inf, math.inf
        covariance = found.covariance()
        size = math.sqrt(np.trace(covariance) / len(covariance))
        score = self._expected(penalty, found, covariance)
        return (score if math.isfinite(score) else -math.inf), size

    def _released(self, penalty: float) -> Query:
        """Return what is released with a penalty."""
        return self.query(penalty)

    def _expected(
        self, penalty: float, noise: AdditiveNoise, covariance: Floats
    ) -> float:
        """Return the expected score, of labels the median over draws of the noise."""
        draws = None if self._classes is None else self._draws(noise)
        query = self._query.with_penalty(penalty)
        scores = [
            fold.score(self._answer(query, fold), covariance, draws, self._query)
            for fold in self._folds
        ]
        return float(np.mean(scores))

    def _answer(self, query: LinearQuery, fold: _Fold) -> Floats:
        # With the penalty for each record that it will have.
        assert self._n_records is not None
        sized = query.resized(fold.n_records / self._n_records)
        asked = in_units(sized, self._units)
        return np.asarray(asked(fold.X, fold.y), dtype=np.float64)

    def _noise(self, query: Query) -> AdditiveNoise | None:
        """Return the noise that few pairs ask for, and these; None if infinite."""
        source = self._source
        assert self._n_records is not None
        try:
            spec = PairSpec(
                query,
                self._drawn_from,
                n_pairs=self._n_pairs,
                n_neighbors=self._n_neighbors,
                n_records=self._n_records,
                relation=source.relation,
                tried=True,
            )
            pairs = spec.sample(
                Schema.of_width(self._folds[0].X.shape[1]),
                check_random_state(self._pairs_seed, "random_state").bytes(16),
                n_jobs=source.n_jobs,
            )
            known = replace(
                pairs,
                draw_seed=self._noise_seed,
                weights=query.output_weights(self._X, pairs.n_outputs),
                n_independent=self._table.n_independent(n_own(source.relation)),
            )
            # Of all candidates alike, as their numbers of outputs are.
            self._terms = settle(self._terms, pairs.n_outputs)
            return simulated_noise(known, self._terms)
        except CalibrationError:
            return None  # it would be refused, so it is not chosen

    def _draws(self, noise: AdditiveNoise) -> Floats:
        """Return noise, made of the same numbers for all candidates."""
        if self._standard is None:
            drawn = noise.law.sample(
                _STEPS, _DRAWS * noise.n_outputs, noise_source(self._noise_seed)
            )
            self._standard = drawn.reshape(_DRAWS, -1) / _STEPS
        return np.asarray(noise.shape.color(self._standard * noise.noise_scale))


class _Fold:
    """Public records that are fitted, and others that are scored."""

    def __init__(
        self, pool: RecordPool, train: Any, test: Any, query: LinearQuery
    ) -> None:
        part = pool.part(train)
        self.X, self.y, self.n_records = part.X, part.y, part.n_records
        self._X, y = pool.take(test)
        self._y, self._own = query.targets_of(y)  # and weights, if there are any
        if query.classes is None:
            targets, _ = query.targets_of(pool.y)
            self._spread = np.maximum(np.var(targets, axis=0).ravel(), 2.0**-1000)
            self._weights: Floats | None = None

    def score(
        self,
        answer: Floats,
        covariance: Floats,
        draws: Floats | None,
        query: LinearQuery,
    ) -> float:
        """Return R2 that is expected; or, with draws, 1 less the usual mean loss."""
        if draws is None or query.classes is None:
            return self._r2(answer, covariance)
        codes, n_classes = label_codes(self._y, query.classes), len(query.classes)
        scores = self._linear(answer + draws, 1 if n_classes == 2 else n_classes)
        if n_classes == 2:
            own, scores = (codes == 1)[None], scores[:, :1]
        else:
            own = codes == np.arange(n_classes)[:, None]
        if isinstance(query, LinearSVCQuery):
            charged = np.maximum(1 - np.where(own, scores, -scores), 0.0)
            losses = np.sum(charged**2 if query.is_smooth else charged, axis=1)
        elif n_classes == 2:
            losses = np.logaddexp(0, np.where(own, -scores, scores))[:, 0]
        else:
            losses = logsumexp(scores, axis=1) - np.sum(scores * own, axis=1)
        means = np.average(losses, axis=1, weights=self._own)
        return 1 - float(np.median(means))

    def _r2(self, answer: Floats, covariance: Floats) -> float:
        """Without draws: the noise adds its variance at each record to the error."""
        if self._weights is None:
            # What an output adds to each prediction, in deviations of its target.
            shares = self._linear(np.eye(len(answer)), len(self._spread))
            shares = shares / np.sqrt(self._spread)[:, None]
            if self._own is not None:
                shares = shares * np.sqrt(self._own / self._own.mean())
            shares = shares.reshape(len(answer), -1)
            self._weights = shares @ shares.T / shares.shape[1]
        predicted = self._linear(answer[None], len(self._spread))[0]
        targets = np.reshape(np.asarray(self._y), (len(self._X), -1)).T
        errors = np.square(targets - predicted)
        error = np.mean(np.average(errors, axis=1, weights=self._own) / self._spread)
        return float(1 - error - np.vdot(self._weights, covariance))

    def _linear(self, answers: Floats, n_problems: int) -> Floats:
        """Return what answers predict, of shape (n_answers, n_problems, n_rows)."""
        n_coef = self._X.shape[1] * n_problems
        coef = answers[:, :n_coef].reshape(len(answers), n_problems, -1)
        scores = np.asarray(coef @ self._X.T)
        if answers.shape[1] > n_coef:
            scores += answers[:, n_coef:, None]
        return scores


def _agree(source: SensitivitySampler, n_pairs: int) -> tuple[Terms, int]:
    """Return terms for twice so many pairs, or for more where these certify no risk."""
    alone = clone(source).set_params(neighbors_per_database=1)
    while True:
        try:
            return alone._agree(2 * n_pairs), n_pairs
        except CalibrationError:  # those of the fit are enough
            n_pairs *= 2
