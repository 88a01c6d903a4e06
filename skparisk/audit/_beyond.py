"""Fresh pairs, by their exact loss at the noise that is stated, and what they show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from skparisk.audit._blocks import BlockJudge
from skparisk.audit._claim_report import ShareBeyond
from skparisk.audit._releases import Audited, KnownNoise, Pair, Records
from skparisk.core.checks import check_at_least
from skparisk.core.claim import Certificate
from skparisk.core.pairs import SampledPairs
from skparisk.neighbors import NeighborPairs
from skparisk.reference._base import RecordPool
from skparisk.reference._records import as_records, as_targets, n_rows, take_rows

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
    query = judge.query.detached()
    y = population.y if query.needs_y else None
    pool = RecordPool(*known.sampler._as_asked(population.X, y))
    n = population.n_records
    differences = query.on_pool(pool, n)
    found = []
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        zeros = np.zeros(len(part), dtype=np.intp)
        pairs = NeighborPairs.of(pool, part[:, :-1].copy(), zeros, part[:, -1].copy())
        found.append(differences(pairs))
    values = np.concatenate([each.values for each in found])
    off_by = [each.errors for each in found if each.errors is not None]
    errors = np.concatenate(off_by) if off_by else None
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
