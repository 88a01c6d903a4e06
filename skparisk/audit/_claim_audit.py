"""An audit of a claim: the releases are attacked, and the noise is checked."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from skparisk._checks import check_n_jobs, check_verbose, seed_sequence
from skparisk._progress import Progress
from skparisk.audit._blocks import BlockJudge
from skparisk.audit._claim_report import ClaimAudit, PairAttack, ShareBeyond
from skparisk.audit._limits import check_confidence
from skparisk.audit._lower_bound import LEAST_RELEASES, attack, draw_releases
from skparisk.audit._releases import (
    Audited,
    KnownNoise,
    Pair,
    Records,
    refuse_in_ledger,
)
from skparisk.audit._worst_neighbor import find_worst_neighbor, search, worst_pair
from skparisk.core.checks import check_at_least
from skparisk.core.claim import Certificate
from skparisk.core.pairs import SampledPairs
from skparisk.core.sealed import take_rows
from skparisk.neighbors import known_pairs
from skparisk.reference._base import RecordPool
from skparisk.reference._records import as_records, as_targets, n_rows

_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Judged:
    """Fresh pairs at the noise that is stated."""

    distances: NDArray[np.float64]
    beyond: NDArray[np.bool_]


def judge_pairs(
    known: KnownNoise | None,
    claim: Certificate,
    population: Population,
    rows: NDArray[np.intp],
    rng: np.random.Generator,
) -> Judged:
    """Return how far apart the answers of fresh pairs are, and which exceed."""
    assert known is not None
    judge = BlockJudge.of(known.sampler)
    target = replace(judge.target, epsilon=claim.epsilon)
    judge = replace(judge, target=target)
    query = copy.deepcopy(judge.query)
    y = population.y if query.needs_y else None
    pool = RecordPool(*known.sampler._as_asked(population.X, y))
    n = population.n_records
    differences = query.on_pool(pool, n)
    found = []
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        found.append(differences(known_pairs(pool, part, rng)))
    values = np.concatenate([each.values for each in found])
    off_by = [each.errors for each in found if each.errors is not None]
    errors = np.max(off_by, axis=0) if off_by else None
    sampled = SampledPairs(
        values,
        errors,
        np.zeros(values.shape[1]),
        draw_seed=int.from_bytes(rng.bytes(16), "little"),
    )
    white = known.noise.shape.whiten(values)
    distances = np.linalg.norm(white, ord=known.law.norm, axis=1)
    return Judged(distances, judge.are_beyond(sampled, rng))


def share_beyond(
    judged: Judged, claim: Certificate, audited: Audited, alpha: float, *, fixed: bool
) -> ShareBeyond:
    """Return the test that fresh pairs exceed the level at most at the risk.

    A claim that is given (`fixed`) is one of the noise as it is; that of a certificate
    is one on average over samples, of as many people as the reference has.
    """
    assert audited.known is not None
    n, count = len(judged.beyond), int(np.count_nonzero(judged.beyond))
    evidence = audited.known.sampler.certificate_.require_evidence()
    n_sampled = evidence.n_pairs or 0  # without those of the shape
    table = audited.known.sampler.pairs_.sketch
    if table is not None and table.whole:  # two people a pair
        n_sampled = min(n_sampled, table.n_rows // 2)
    p_value = share_p_value(
        count,
        n,
        claim.risk,
        failure_prob=claim.failure_prob,
        n_sampled=0 if fixed else n_sampled,
        # Nor are pairs of one database independent.
        one_draw=evidence.order_index is not None and evidence.n_neighbors == 1,
    )
    return ShareBeyond(n, count, claim.risk, p_value, alpha, exact=True)


def share_p_value(
    count: int,
    n: int,
    risk: float,
    *,
    failure_prob: float = 0.0,
    n_sampled: int = 0,
    one_draw: bool = True,
) -> float:
    """Return the probability that so many of `n` fresh pairs exceed a level.

    The noise is the same for all, and its risk is one of the sample that it was
    calibrated with: a beta variable where it is an order statistic of independent pairs
    (:ref:`thm-lower-bound`), and else any of that mean, or below outside of a failure.
    """
    if risk <= 0 or risk >= 1:
        return 1.0 if risk or not count else 0.0
    if failure_prob or not n_sampled:
        tail = float(stats.binom.sf(count - 1, n, risk))
        return min(1.0, failure_prob + tail)
    if one_draw:
        a = risk * (n_sampled + 1)
        return float(stats.betabinom.sf(count - 1, n, a, n_sampled + 1 - a))
    limits = np.linspace(risk, 1.0, 257)[1:]  # Markov's inequality, at the best limit
    bounds = risk / limits + stats.binom.sf(count - 1, n, limits)
    return float(min(1.0, bounds.min()))


@dataclass(frozen=True, eq=False)
class Population:
    """Records that fresh databases are drawn from."""

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

    def most_pairs(self) -> int:
        return n_rows(self.X) // 2

    def pair(self, rows: NDArray[np.intp], at: int) -> Pair:
        own = rows[at]
        other = np.concatenate([own[-1:], own[1:-1]])
        return self._take(own[:-1]), self._take(other)

    def _take(self, rows: NDArray[np.intp]) -> Records:
        X = take_rows(self.X, rows)
        return (X,) if self.y is None else (X, take_rows(self.y, rows))


_EXACT_PAIRS, _ATTACKED_PAIRS = 1000, 2


def audit_claim(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    pairs: Any = "sampled",
    n_releases: int = 1000,
    n_pairs: int | None = None,
    n_attacked: int = _ATTACKED_PAIRS,
    n_records: int | None = None,
    claim: Any = None,
    confidence: float = 0.95,
    fit_params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> ClaimAudit:
    """Try to break the claim of a release, of skparisk or not.

    Pairs of databases are drawn from records, and what is released about the two is
    told apart as well as it can be (:func:`estimate_epsilon_lower_bound`). Where the
    claim is about a share of pairs and the model states its noise, fresh pairs are
    judged by their exact loss, and the attack asks if a pair loses more than that.

    A fit that fails is an answer as well: it counts as a release without numbers, of
    which the audit tells how many there were. What a callable raises, or the very first
    fit, is passed on.

    .. important::
       An audit compares answers without noise, so that its result is no private
       release. Use public or simulated records, or keep the result inside the
       environment where the private ones are. It is refused inside of a ledger, which
       would be charged for each of its releases.

    Parameters
    ----------
    estimator : estimator or callable
        Anything with `fit`, whose numbers are compared after fits to either database;
        or ``release(database)``, also with a parameter `size`, as in
        :func:`estimate_epsilon_lower_bound`, where a database is a tuple (X,) or
        (X, y). It is copied. Where pairs are sampled that is done once, for all fits.

    X : array-like of shape (n_rows, n_features)
        Records, which stand for the population: rows of fresh databases are drawn from
        them without replacement.

    y : array-like of shape (n_rows,), default=None
        Their targets or labels.

    pairs : {"sampled", "canary"} or list of tuple, default="sampled"
        "sampled": fresh pairs, which replace one record by another one; those that move
        the answer most are attacked, where the noise is known. "canary": one fresh
        database, and what :func:`find_worst_neighbor` makes of it. Else the pairs to
        attack, each of two databases (X,) or (X, y).

    n_releases : int, default=1000
        Releases of each database of a pair that is attacked, >= 40.

    n_pairs : int, default=None
        Fresh pairs that a risk is tested with, half of the rows at most. None: up to
        1000 where the exact loss is known, else as many as are attacked.

    n_attacked : int, default=2
        Sampled pairs that are attacked.

    n_records : int, default=None
        Records of a database. None: half of the rows.

    claim : Certificate, mechanism, float or tuple, default=None
        What is claimed, as numbers epsilon, (epsilon, delta) or (epsilon, delta, risk).
        None: the `certificate_` of the fitted estimator. A risk that is given is taken
        to be that of the noise as it is; that of a certificate is one on average over
        the sampled pairs, and few of these may do with a larger one by chance.

    confidence : float, default=0.95
        Probability, in [0.5, 1), that nothing is called evidence if the claim is right:
        all tests of an audit share 1 - confidence.

    fit_params : dict, default=None
        Further parameters of `fit`, such as ``X_reference``: public records other than
        `X`.

    n_jobs : int, default=None
        Threads of joblib.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the pairs, and which releases learn. Noise is that of the estimator, which
        must not be seeded.

    verbose : int, default=0
        Above 0, progress is shown, by releases.

    Returns
    -------
    audit : ClaimAudit
        Its `verdict` is "evidence against" or "no evidence found".

    Raises
    ------
    ValueError
        If a parameter is out of range, there is no claim, or too few records.

    IncompatibleError
        If a ledger is open, or the claim is about a secret sample or a learned law.

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
    >>> found = audit_claim(
    ...     PrivateRidge(), X[:400], y[:400], fit_params=public, n_releases=50
    ... )
    >>> found.share.n_pairs
    200
    """
    refuse_in_ledger("An audit of a claim")
    check_confidence(confidence)
    check_n_jobs(n_jobs)
    verbose = check_verbose(verbose)
    n_releases = check_at_least(n_releases, "n_releases", LEAST_RELEASES)
    n_attacked = check_at_least(n_attacked, "n_attacked", 1)
    rng = np.random.default_rng(seed_sequence(random_state))
    population = Population.of(X, y, n_records)
    given = _check_pairs(pairs)
    if pairs == "canary" and not hasattr(estimator, "fit"):
        raise ValueError(
            "pairs must not be 'canary' with a callable, which answers with noise: "
            "search with find_worst_neighbor among answers without noise, and give the "
            "pair."
        )
    first = given[0] if given else population.pair(population.rows(1, rng), 0)
    audited = Audited.of(estimator, first, fit_params, claim)
    stated, known = audited.claim, audited.known
    alpha, worst, drawn = 1 - confidence, None, None
    if pairs == "canary":
        seed = int(rng.integers(2**31))
        if known is not None:
            worst = search(known.answer, known, first[0], random_state=seed)
        else:
            worst = find_worst_neighbor(
                estimator, *first[0], fit_params=fit_params, random_state=seed
            )
        given = [worst_pair(first[0], worst)]
    beyond = None
    if not given:
        exact = known is not None
        most = population.most_pairs()
        if n_pairs is None:
            n_pairs = min(_EXACT_PAIRS if exact else n_attacked, most)
        if not 1 <= n_pairs <= most:
            raise ValueError(
                f"n_pairs must be in [1, {most}], as no row of X may change in two "
                f"pairs, got {n_pairs!r}."
            )
        drawn = population.rows(n_pairs, rng)
        if exact:
            beyond = judge_pairs(known, stated, population, drawn, rng)
            order = np.argsort(-beyond.distances)
            n_shown = n_attacked
        else:
            order = np.arange(len(drawn))
            n_shown = len(drawn) if stated.risk else n_attacked
        given = [population.pair(drawn, int(at)) for at in order[:n_shown]]
    finite = math.isfinite(stated.epsilon)
    by_attack = finite and known is None and stated.risk > 0
    n_tests = 2 * len(given) * (not by_attack) + (by_attack or beyond is not None)
    each = alpha / max(n_tests, 1)
    each_pair = alpha / 5 if by_attack else each
    total = 2 * n_releases * len(given)
    with Progress(total, "releases", "release", shown=bool(verbose)) as progress:
        attacks = tuple(
            _attack_pair(
                audited,
                pair,
                _draw(
                    audited,
                    pair,
                    f"{at} of {len(given)}",
                    n_releases,
                    n_jobs,
                    progress,
                ),
                each_pair,
                rng,
            )
            for at, pair in enumerate(given, start=1)
        )
    share = None
    if by_attack:
        share = _share_of_attacks(attacks, stated, each_pair, each)
    elif beyond is not None:
        share = share_beyond(beyond, stated, audited, each, fixed=claim is not None)
    failures = [f"{type(error).__name__}: {error}" for error in audited.failures]
    return ClaimAudit(
        audited.name,
        stated,
        confidence,
        n_releases,
        attacks,
        share,
        worst,
        n_failed=len(failures),
        failure=failures[0] if failures else "",
    )


def _check_pairs(pairs: Any) -> list[Pair]:
    """Return the pairs that are given; none where they are found."""
    if isinstance(pairs, str) and pairs in ("sampled", "canary"):
        return []
    listed = isinstance(pairs, Sequence) and not isinstance(pairs, str) and pairs
    if not listed or not all(_is_pair(pair) for pair in pairs):
        raise ValueError(
            "pairs must be 'sampled', 'canary' or a list of pairs of databases, each a "
            f"tuple (X,) or (X, y), got {type(pairs).__name__} {pairs!r:.60}."
        )
    return list(pairs)


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(each, tuple) and len(each) in (1, 2) for each in pair)
    )


def _share_of_attacks(
    attacks: tuple[PairAttack, ...], claim: Certificate, wrong: float, alpha: float
) -> ShareBeyond:
    """Return the test of a risk by attacks, each of which may be wrong."""
    n = len(attacks)
    count = sum(one.lower_bound > claim.epsilon for one in attacks)
    risk = min(1.0, claim.risk + wrong)
    p_value = share_p_value(count, n, risk, failure_prob=claim.failure_prob)
    return ShareBeyond(n, count, claim.risk, p_value, alpha, exact=False)


def _draw(
    audited: Audited,
    pair: Pair,
    which: str,
    n_releases: int,
    n_jobs: int | None,
    progress: Progress,
) -> list[NDArray[np.float64]]:
    """Return releases of both databases, or say of which pair there are none."""
    try:
        return [
            draw_releases(audited.release, each, n_releases, n_jobs, progress)
            for each in pair
        ]
    except Exception as error:
        error.add_note(
            f"It was raised by a release of pair {which}, which ends the audit. Return "
            "NaN where a release fails: that is counted, and no error."
        )
        raise


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
    accuracy = 1.0
    if not claim.risk:
        allowed = claim.epsilon
        accuracy = claim.advantage.success().quantile
    elif audited.known is not None:
        shift = audited.known.shift(*pair)
        allowed, delta = audited.known.allowed(shift, claim)
        accuracy = (1 + audited.known.advantage(shift)) / 2
    seed = int(rng.integers(2**31))
    found = attack(*draws, alpha=alpha, delta=delta, random_state=seed)
    return PairAttack(
        lower_bound=found.level(alpha, delta),
        allowed=allowed,
        delta=delta,
        accuracy=found.accuracy(alpha),
        allowed_accuracy=accuracy,
        distinguisher=found.words[0],
    )
