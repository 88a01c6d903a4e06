"""An audit of a claim: the releases are attacked, and the noise is checked."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skparisk._checks import seed_sequence
from skparisk._text import Statement, floor_text
from skparisk._words import void_reasons
from skparisk.audit._blocks import BlockJudge
from skparisk.audit._limits import check_confidence
from skparisk.audit._lower_bound import LEAST_RELEASES, attack, draw_releases
from skparisk.core.checks import IncompatibleError, check_at_least
from skparisk.core.claim import Certificate, as_certificate
from skparisk.core.compose import post_process
from skparisk.core.laws import Law
from skparisk.core.noise import AdditiveNoise
from skparisk.core.pairs import SampledPairs
from skparisk.core.release import silenced
from skparisk.core.rounding import ceil_text
from skparisk.core.sealed import take_rows
from skparisk.ledger._open import refuse_without_level
from skparisk.neighbors import known_pairs
from skparisk.queries._state import find_places, read
from skparisk.reference._base import RecordPool
from skparisk.reference._records import as_records, as_targets, n_rows
from skparisk.sensitivity import SensitivitySampler

# X, or (X, y).
Records: TypeAlias = tuple[Any, ...]
Pair: TypeAlias = tuple[Records, Records]

# Attributes that describe a release, with many numbers of public pairs.
DESCRIBED = ("sampler_", "certificate_", "template_")
_MOST_NUMBERS = 1000
# Parameters of `fit` that are about single rows.
_OF_ROWS = {"groups", "sample_weight"}


@dataclass(frozen=True, eq=False)
class KnownNoise:
    """The noise that a fitted model says it adds to the answers of its query."""

    sampler: SensitivitySampler
    noise: AdditiveNoise

    @classmethod
    def of(cls, fitted: Any) -> Self | None:
        """Return that of a model whose pairs were sampled; None where it has none."""
        sampler = fitted.sampler_
        noise = sampler.mechanism_
        if not isinstance(noise, AdditiveNoise) or not noise.steps:
            return None
        return cls(sampler, noise)

    @property
    def law(self) -> Law:
        law: Law = self.noise.law
        return law

    def answer(self, records: Records) -> NDArray[np.float64]:
        """Return the answer on a database, without noise."""
        X = as_records(records[0], "X")
        y = as_targets(records[1]) if len(records) > 1 else None
        query = copy.deepcopy(self.sampler.query_)
        return query(*self.sampler._as_asked(X, y if query.needs_y else None))

    def shift(self, first: Records, second: Records) -> float:
        """Return the distance of two answers over the noise scale; inf without one."""
        try:
            moved = self.answer(first) - self.answer(second)
        except Exception:  # which tells the databases apart by itself
            return math.inf
        white = self.noise.shape.whiten(moved[np.newaxis])
        scale = self.noise.noise_scale
        return float(np.linalg.norm(white[0], ord=self.law.norm)) / scale

    def allowed(self, shift: float, claim: Certificate) -> tuple[float, float]:
        """Return the level that a distance has, and the delta that it is one at."""
        if self.law.bounded:
            size = {"n_outputs": self.noise.n_outputs, "steps": self.noise.steps}
            return float(self.law.levels(np.array([shift]), 0.0, **size)[0]), 0.0
        delta = float(self.law.profile(claim.epsilon, shift)) if shift else 0.0
        return claim.epsilon, min(delta * (1 + 1e-6) + 1e-12, 1.0)


@dataclass(frozen=True, eq=False)
class Audited:
    """Something to audit: how it is released, what it claims, what noise it states."""

    name: str
    release: Callable[..., Any]
    claim: Certificate
    known: KnownNoise | None
    # What fits raised, once releases are drawn: they count as releases without numbers.
    failures: list[Exception] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        estimator: Any,
        databases: Pair,
        fit_params: Mapping[str, Any] | None,
        claim: Any,
    ) -> Audited:
        """Fit it to both databases of a first pair, to see what it releases."""
        stated = None if claim is None else as_certificate(claim)
        name = getattr(estimator, "__name__", type(estimator).__name__)
        if not hasattr(estimator, "fit"):
            if not callable(estimator) or stated is None:
                raise ValueError(
                    "estimator must have fit, or be a callable that maps a database to "
                    f"numbers, with a claim such as claim=1.0; got {estimator!r} with "
                    f"claim={claim!r}."
                )
            return cls(name, estimator, stated, None)
        params = dict(fit_params or {})
        if of_rows := sorted(_OF_ROWS & params.keys()):
            raise ValueError(
                f"fit_params must have neither {' nor '.join(sorted(_OF_ROWS))}, got "
                f"{' and '.join(of_rows)}: these are of the rows of X, and an audit "
                "fits to other databases. Audit a callable that takes them from a "
                "column of X, with `claim` and, for people with several rows, `pairs`."
            )
        fitted = _first_fit(estimator, databases[0], params)
        stated = getattr(fitted, "certificate_", None) if stated is None else stated
        if not isinstance(stated, Certificate):
            raise ValueError(
                f"claim must be given for a {name}, which has no certificate_: a "
                "Certificate, or numbers such as 1.0 or (1.0, 1e-6)."
            )
        if stated.protects_membership:
            raise IncompatibleError(
                "An audit compares two databases, but the claim of a SecretSample is "
                "about which records of one database are used. Audit its release as a "
                "callable that draws them anew."
            )
        sampler = getattr(fitted, "sampler_", None)
        known = None
        if isinstance(sampler, SensitivitySampler):
            # The pairs are public, and drawn once: what is audited is the release.
            kept: dict[str, Any] = {"sensitivity": FrozenEstimator(sampler)}
            own = estimator.get_params(deep=False)
            if "classes" in own and hasattr(fitted, "classes_"):
                kept["classes"] = fitted.classes_
            estimator, params = clone(estimator).set_params(**kept), {}
            known = KnownNoise.of(fitted) if math.isfinite(stated.epsilon) else None
        places = places_of(
            [_first_fit(estimator, each, params) for each in (*databases, *databases)]
        )
        if not places:
            raise ValueError(f"estimator must learn numbers, but {name} has none.")

        failures: list[Exception] = []

        def release(database: Records) -> NDArray[np.float64]:
            try:
                fitted = fit_to(estimator, database, params)
            except (MemoryError, OSError):  # of the machine
                raise
            except Exception as error:
                failures.append(error)
                return np.full(sum(places.values()), np.nan)
            return numbers_of(fitted, places)

        return cls(name, release, stated, known, failures)


def fit_to(estimator: Any, database: Records, params: Mapping[str, Any]) -> Any:
    """Return a copy that is fitted to a database, without its warnings."""
    with silenced():
        return clone(estimator).fit(*database, **params)


def _first_fit(estimator: Any, database: Records, params: Mapping[str, Any]) -> Any:
    """Return a fit, or say that it failed before anything was attacked."""
    try:
        return fit_to(estimator, database, params)
    except Exception as error:
        error.add_note(
            f"It was raised by the fit of a {type(estimator).__name__} to a database "
            f"of {n_rows(database[0])} records of the first pair, before any attack."
        )
        raise


def places_of(fits: list[Any]) -> dict[str, int]:
    """Return the sizes of all numbers by place, or of those different among fits."""
    sizes: dict[str, int] = {}
    values: dict[str, list[bytes]] = {}
    for fitted in fits:
        params = fitted.get_params(deep=False) if hasattr(fitted, "get_params") else ()
        skipped = {*params, *DESCRIBED}
        for place, value in find_places(fitted):
            if place.partition(".")[0] in skipped or isinstance(value, str):
                continue
            if isinstance(value, np.ndarray | np.number | int | float):
                numbers = np.asarray(value)
                if numbers.dtype.kind in "iufb" and numbers.size <= _MOST_NUMBERS:
                    sizes[place] = max(sizes.get(place, 0), numbers.size)
                    values.setdefault(place, []).append(numbers.tobytes())
    moved = {place: size for place, size in sizes.items() if len({*values[place]}) > 1}
    return moved or sizes


def numbers_of(fitted: Any, places: Mapping[str, int]) -> NDArray[np.float64]:
    """Return the numbers at the places, NaN where there are fewer."""
    found = np.full(sum(places.values()), np.nan)
    start = 0
    for place, size in places.items():
        try:
            values = np.ravel(np.asarray(read(fitted, place), dtype=np.float64))[:size]
            found[start : start + len(values)] = values
        except (AttributeError, LookupError):  # this fit has no such number
            pass
        start += size
    return found


_BLOCK = 64
_EXACT_PAIRS = 1000
EVIDENCE, NOTHING = "evidence against", "no evidence found"


@dataclass(frozen=True)
class PairAttack:
    """Result of an attack on the releases of one pair of databases.

    Parameters
    ----------
    lower_bound : float
        Lower bound of the privacy level, in [0, inf).

    allowed : float
        Level that the claim leaves to this pair, in [0, inf]; infinite where a risk
        over pairs says nothing of single ones.

    delta : float
        The delta that both are levels at, in [0, 1].

    distinguisher : str
        What gave the level away.

    n_hits, n_hits_neighbor, n_tested : int
        How many of `n_tested` fresh releases it gave away: of the database that makes
        it likelier, and of the other one. Half of the releases are fresh.

    Examples
    --------
    >>> from skparisk.audit import PairAttack
    >>> found = PairAttack(1.2, 1.0, 0.0, "exact repeats", 90, 20, 100)
    >>> found.contradicts
    True
    """

    lower_bound: float
    allowed: float
    delta: float
    distinguisher: str
    n_hits: int
    n_hits_neighbor: int
    n_tested: int

    @property
    def contradicts(self) -> bool:
        """Whether the lower bound exceeds the claim."""
        return self.lower_bound > self.allowed


@dataclass(frozen=True)
class ShareBeyond:
    """Count of fresh pairs, or pairs and outputs, beyond the level of a claim.

    Parameters
    ----------
    n_pairs, n_beyond : int
        Pairs, and pairs beyond the level.

    risk : float
        Share that the claim allows, in [0, 1].

    p_value : float
        Probability, in [0, 1], that there are as many if the claim is right.

    alpha : float
        The p-value from which on it is no evidence, in (0, 1).
    """

    n_pairs: int
    n_beyond: int
    risk: float
    p_value: float
    alpha: float

    @property
    def contradicts(self) -> bool:
        """Whether the count exceeds chance."""
        return self.p_value < self.alpha


@dataclass(frozen=True)
class ClaimAudit(Statement):
    """Result of :func:`audit_claim`; prints as text.

    It looks at releases and at answers without noise, so that it is no release itself:
    keep it inside, unless the records were public or simulated.

    Parameters
    ----------
    estimator : str
        Name of the audited estimator or function.

    claim : Certificate
        Its claim.

    confidence : float
        Probability, in [0.5, 1), that nothing is called evidence if the claim is right.

    n_releases : int
        Releases of each database of each attacked pair.

    attacks : tuple of PairAttack
        One for each attacked pair.

    share : ShareBeyond or None
        Of fresh pairs; None where the claim is about every pair.

    n_failed : int
        Fits that failed: each of them is a release without numbers.

    failure : str
        Error of the first of them. It may show values of the records, and is not in the
        text.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import audit_claim
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=1.0)
    >>> def release(database, size):
    ...     return mechanism.release(np.full((size, 1), 4 * database[0].sum()))
    >>> X = np.arange(5.0)[:, np.newaxis] % 2
    >>> found = audit_claim(release, X, claim=mechanism, n_releases=500, random_state=0)
    >>> found.verdict
    'evidence against'
    """

    estimator: str
    claim: Certificate
    confidence: float
    n_releases: int
    attacks: tuple[PairAttack, ...]
    share: ShareBeyond | None = None
    n_failed: int = 0
    failure: str = ""

    @property
    def worst(self) -> PairAttack:
        """The attack that exceeded the claim about its pair the most."""
        return max(
            self.attacks,
            key=lambda one: (one.lower_bound - one.allowed, one.lower_bound),
        )

    @property
    def contradicted(self) -> bool:
        """Whether there is evidence against the claim."""
        found = [attack.contradicts for attack in self.attacks]
        return any(found) or (self.share is not None and self.share.contradicts)

    @property
    def verdict(self) -> str:
        """``"evidence against"``, or ``"no evidence found"``; never "private"."""
        return EVIDENCE if self.contradicted else NOTHING

    def _meaning(self) -> list[str]:
        """Return sentences for those who decide whether to believe the claim."""
        n, confidence = len(self.attacks), f"{self.confidence:g}"
        first = (
            f"There is evidence against the claim of {self.estimator} (confidence "
            f"{confidence})."
            if self.contradicted
            else f"No evidence was found against the claim of {self.estimator}. That "
            "does not show that it is right: other pairs, or other attacks, may tell "
            "more."
        )
        said = [first, f"The claim: {self.claim.guarantee}"]
        said += [f"The claim is void: {text}" for text in void_reasons(self.claim)]
        said.append(self._about_worst(n))
        if self.share is not None:
            share = self.share
            said.append(
                f"{share.n_beyond} of {share.n_pairs} fresh pairs are beyond the "
                "level, by their exact loss; the claim allows a share of "
                f"{share.risk:.4g} (p-value {share.p_value:.2g})."
            )
        if self.n_failed:
            total = 2 * n * self.n_releases
            said.append(
                f"{self.n_failed} of the {total} fits failed (the first with "
                f"{self.failure.partition(':')[0]}), which counts as a release without "
                "numbers."
            )
        said.append(
            "An audit looks at answers without noise, and is no release: keep it "
            "inside unless the records are public."
        )
        return said

    def _about_worst(self, n: int) -> str:
        worst = self.worst
        pairs = "the attacked pair" if n == 1 else f"the worst of {n} attacked pairs"
        at = f" at delta = {worst.delta:.3g}" if worst.delta else ""
        allowed = (
            "the claim leaves a single pair any level"
            if math.isinf(worst.allowed)
            else f"the claim leaves one pair at most {ceil_text(worst.allowed, 3)}"
        )
        return (
            f"{self.n_releases} releases of either database of {pairs}: a privacy "
            f"level of at least {floor_text(worst.lower_bound, 3)}{at}, by "
            f"{worst.distinguisher}, where {allowed}."
        )


def judge_pairs(
    known: KnownNoise,
    claim: Certificate,
    population: Population,
    rows: NDArray[np.intp],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], int]:
    """Return the distances of fresh pairs, and how many exceed the stated level."""
    judge = BlockJudge.of(known.sampler)
    judge = replace(judge, target=replace(judge.target, epsilon=claim.epsilon))
    query = copy.deepcopy(judge.query)
    y = population.y if query.needs_y else None
    pool = RecordPool(*known.sampler._as_asked(population.X, y))
    differences = query.on_pool(pool, population.n_records)
    found = [
        differences(known_pairs(pool, rows[start : start + _BLOCK], rng))
        for start in range(0, len(rows), _BLOCK)
    ]
    values = np.concatenate([each.values for each in found])
    off_by = [each.errors for each in found if each.errors is not None]
    sampled = SampledPairs(
        values,
        np.max(off_by, axis=0) if off_by else None,
        np.zeros(values.shape[1]),
        draw_seed=int.from_bytes(rng.bytes(16), "little"),
    )
    white = known.noise.shape.whiten(values)
    distances = np.linalg.norm(white, ord=known.law.norm, axis=1)
    return distances, int(np.count_nonzero(judge.are_beyond(sampled, rng)))


def sampled_p_value(
    known: KnownNoise, claim: Certificate, n: int, count: int, *, fixed: bool
) -> float:
    """Return the p-value of `count` among `n` fresh pairs beyond the level.

    A given claim (`fixed`) is about the noise as it is. The claim of a certificate is
    an average over samples of as many people as the reference has: the noise is the
    same for all pairs, and its risk a beta variable where it is an order statistic of
    independent pairs (:ref:`thm-lower-bound`), and else any of that mean, or below
    outside of a failure.
    """
    risk = claim.risk
    if risk <= 0 or risk >= 1:
        return 1.0 if risk or not count else 0.0
    if fixed or claim.failure_prob:
        tail = float(stats.binom.sf(count - 1, n, risk))
        return min(1.0, claim.failure_prob + tail)
    evidence = known.sampler.certificate_.require_evidence()
    n_sampled = evidence.n_pairs or 0  # without those of the shape
    table = known.sampler.pairs_.sketch
    if table is not None and table.whole:  # two people a pair
        n_sampled = min(n_sampled, table.n_rows // 2)
    # Nor are pairs of one database independent.
    if evidence.order_index is not None and evidence.n_neighbors == 1:
        a = risk * (n_sampled + 1)
        return float(stats.betabinom.sf(count - 1, n, a, n_sampled + 1 - a))
    limits = np.linspace(risk, 1.0, 257)[1:]  # Markov's inequality, at the best limit
    bounds = risk / limits + stats.binom.sf(count - 1, n, limits)
    return float(min(1.0, bounds.min()))


@dataclass(frozen=True, eq=False)
class Population:
    """Records to draw fresh databases from."""

    X: Any
    y: Any
    n_records: int

    @classmethod
    def of(cls, X: Any, y: Any, n_records: int | None) -> Population:
        X = as_records(X, "X")
        y = None if y is None else as_targets(y)
        rows = n_rows(X)
        size = rows // 2 if n_records is None else n_records
        check_at_least(size, "n_records", 1)
        if rows <= size:
            raise ValueError(
                f"X must have more than n_records={size} rows, to replace a record, "
                f"got {rows}."
            )
        return cls(X, y, size)

    def rows(self, n_pairs: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return rows of pairs; the last one takes the place of the first.

        No row is replaced, or takes a place, in two pairs: people are independent, and
        pairs that share them are not.
        """
        total = n_rows(self.X)
        own = rng.permutation(total)[: 2 * n_pairs].reshape(-1, 2)
        found = np.empty((len(own), self.n_records + 1), dtype=np.intp)
        for row, (removed, added) in zip(found, own, strict=True):
            order = rng.permutation(total)
            others = order[(order != removed) & (order != added)]
            row[0], row[1:-1], row[-1] = removed, others[: self.n_records - 1], added
        return found

    def pair(self, rows: NDArray[np.intp], at: int) -> Pair:
        own = rows[at]
        other = np.concatenate([own[-1:], own[1:-1]])
        return self._take(own[:-1]), self._take(other)

    def _take(self, rows: NDArray[np.intp]) -> Records:
        X = take_rows(self.X, rows)
        return (X,) if self.y is None else (X, take_rows(self.y, rows))


def audit_claim(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    pairs: Any = "sampled",
    n_releases: int = 1000,
    n_pairs: int | None = None,
    n_attacked: int = 2,
    n_records: int | None = None,
    claim: Any = None,
    confidence: float = 0.95,
    fit_params: Mapping[str, Any] | None = None,
    random_state: Any = None,
) -> ClaimAudit:
    """Try to break the claim of a release, of skparisk or not.

    An attack distinguishes the releases of two neighboring databases as well as it can.
    Half of them learn to: by mean differences, a logistic regression, exact repeats and
    low bits, which give lost and seeded noise away. The other half counts how often the
    learned event occurs. If the model samples pairs and states its noise, fresh pairs
    are judged by their exact loss, and the attack asks if a pair loses more than that.

    A fit that fails counts as a release without numbers. Errors of a callable, or of
    the very first fit, are passed on.

    .. important::
       An audit compares answers without noise, so that its result is no private
       release. Use public or simulated records, or keep the result inside the
       environment of the private ones. It is refused inside of a ledger, which would be
       charged for each of its releases.

    Parameters
    ----------
    estimator : estimator or callable
        Anything with `fit`; its numbers are compared after fits to either database. Or
        ``release(database)``, which returns numbers with fresh noise in each call; a
        database is a tuple (X,) or (X, y). If it has a parameter `size`,
        ``release(database, size=n)`` returns n independent releases along the first
        axis, which takes far less time. An estimator is copied. Pairs of a reference
        are sampled once, for all fits.

    X : array-like of shape (n_rows, n_features)
        Records, which stand for the population: rows of fresh databases are drawn from
        them without replacement.

    y : array-like of shape (n_rows,), default=None
        Their targets or labels.

    pairs : "sampled" or list of tuple, default="sampled"
        "sampled": fresh pairs, which replace one record by another. If the noise is
        known, the audit attacks the pairs that move the answer most. Else the pairs to
        attack, each of two databases (X,) or (X, y).

    n_releases : int, default=1000
        Releases of each database of an attacked pair, >= 40.

    n_pairs : int, default=None
        Fresh pairs that a risk is tested with where the noise is known, half of the
        rows at most. None: up to 1000.

    n_attacked : int, default=2
        Number of sampled pairs to attack.

    n_records : int, default=None
        Records of a database. None: half of the rows.

    claim : Certificate, mechanism, float or tuple, default=None
        The claim, as numbers epsilon, (epsilon, delta) or (epsilon, delta, risk). None:
        the `certificate_` of the fitted estimator. A given risk is over the noise as it
        is; the risk of a certificate is an average over the sampled pairs.

    confidence : float, default=0.95
        Probability, in [0.5, 1), that nothing is called evidence if the claim is right:
        all tests of an audit share 1 - confidence.

    fit_params : dict, default=None
        Further parameters of `fit`, such as ``X_reference``: public records other than
        `X`. Neither `groups` nor `sample_weight`, which belong to single rows.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the pairs, and which releases learn. Do not seed the noise of the
        estimator.

    Returns
    -------
    audit : ClaimAudit
        Its `verdict` is "evidence against" or "no evidence found".

    Raises
    ------
    ValueError
        If a parameter is out of range, there is no claim, or too few records; or if
        releases are no numbers of one shape.

    IncompatibleError
        If a ledger is open, if the claim is about a secret sample or a learned law, or
        has a risk over pairs and there is no noise to judge these by.

    Notes
    -----
    **Guarantee** (:ref:`thm-lower-bound`). If the claim is right, the verdict is
    "evidence against" with probability 1 - `confidence` at most. With a risk over
    pairs, the records must be of the population that the claim is about. That no
    evidence is found shows nothing: see :ref:`thm-audit` for an audit that can support
    a reference, and costs a privacy level of its own.

    Examples
    --------
    >>> from skparisk import PrivateRidge, audit_claim
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> public = {"X_reference": X[1000:2000], "y_reference": y[1000:2000]}
    >>> quick = {"n_releases": 40, "n_attacked": 1, "random_state": 0}
    >>> found = audit_claim(
    ...     PrivateRidge(1.0), X[:400], y[:400], fit_params=public, **quick
    ... )
    >>> found.verdict, found.share.n_pairs
    ('no evidence found', 200)
    """
    refuse_without_level(
        "An audit of a claim",
        remedy="It looks at answers without noise: use public or simulated records, "
        "outside of the ledger.",
    )
    check_confidence(confidence)
    n_releases = check_at_least(n_releases, "n_releases", LEAST_RELEASES)
    n_attacked = check_at_least(n_attacked, "n_attacked", 1)
    rng = np.random.default_rng(seed_sequence(random_state))
    population = Population.of(X, y, n_records)
    given = _check_pairs(pairs)
    first = given[0] if given else population.pair(population.rows(1, rng), 0)
    audited = Audited.of(estimator, first, fit_params, claim)
    stated, known = audited.claim, audited.known
    if stated.sampled and known is None and math.isfinite(stated.epsilon):
        raise IncompatibleError(
            f"The claim has a risk of {stated.risk:g} over pairs, but {audited.name} "
            "does not state its noise, by which pairs are judged: one pair that is "
            "told apart is no evidence. Audit the model itself, or claim a level and a "
            "delta of every pair, claim=(epsilon, delta)."
        )
    n_beyond = None
    if not given:
        most = n_rows(population.X) // 2
        if n_pairs is None:
            n_pairs = min(_EXACT_PAIRS, most)
        if not 1 <= n_pairs <= most:
            raise ValueError(
                f"n_pairs must be in [1, {most}], as no row of X may change in two "
                f"pairs, got {n_pairs!r}."
            )
        rows = population.rows(n_pairs, rng)
        order = np.arange(n_pairs)
        if known is not None:
            distances, n_beyond = judge_pairs(known, stated, population, rows, rng)
            order = np.argsort(-distances)
        given = [population.pair(rows, int(at)) for at in order[:n_attacked]]
    each = (1 - confidence) / (len(given) + (n_beyond is not None))
    attacks = []
    for at, pair in enumerate(given, start=1):
        try:
            draws = [draw_releases(audited.release, one, n_releases) for one in pair]
        except Exception as error:
            error.add_note(
                f"It was raised by a release of pair {at} of {len(given)}, which ends "
                "the audit. Return NaN where a release fails: that is counted, and no "
                "error."
            )
            raise
        attacks.append(_attack_pair(audited, pair, draws, each, rng))
    share = None
    if n_beyond is not None:
        assert known is not None
        n, fixed = len(rows), claim is not None
        p_value = sampled_p_value(known, stated, n, n_beyond, fixed=fixed)
        share = ShareBeyond(n, n_beyond, stated.risk, p_value, each)
    failures = [f"{type(error).__name__}: {error}" for error in audited.failures]
    return ClaimAudit(
        audited.name,
        stated,
        confidence,
        n_releases,
        tuple(attacks),
        share,
        n_failed=len(failures),
        failure=failures[0] if failures else "",
    )


def _check_pairs(pairs: Any) -> list[Pair]:
    """Return the pairs that are given; none where they are found."""
    if isinstance(pairs, str) and pairs == "sampled":
        return []
    good = isinstance(pairs, list) and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(each, tuple) and len(each) in (1, 2) for each in pair)
        for pair in pairs
    )
    if not good or not pairs:
        raise ValueError(
            "pairs must be 'sampled' or a list of pairs of databases, each a tuple "
            f"(X,) or (X, y), got {type(pairs).__name__} {pairs!r:.60}."
        )
    return list(pairs)


def _attack_pair(
    audited: Audited,
    pair: Pair,
    draws: list[NDArray[np.float64]],
    alpha: float,
    rng: np.random.Generator,
) -> PairAttack:
    """Attack one pair, and say what the claim leaves to it."""
    claim = audited.claim
    allowed, delta = math.inf, claim.delta
    if not claim.sampled:
        every = post_process(claim)  # a risk over the noise is a delta of every pair
        allowed, delta = every.epsilon, every.delta
    elif audited.known is not None:
        shift = audited.known.shift(*pair)
        allowed, delta = audited.known.allowed(shift, claim)
    seed = int(rng.integers(2**31))
    found = attack(*draws, alpha=alpha, delta=delta, random_state=seed)
    return PairAttack(
        lower_bound=found.level,
        allowed=allowed,
        delta=delta,
        distinguisher=found.words,
        n_hits=found.hits,
        n_hits_neighbor=found.others,
        n_tested=found.n,
    )
