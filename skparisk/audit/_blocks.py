"""Counting blocks of private records that exceed a level: each is a pair by itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from skparisk._threads import one_thread
from skparisk.core.calibrate import Target, drawn_scales
from skparisk.core.checks import check_at_least
from skparisk.core.laws import Law, as_law
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs, norms_of_pairs
from skparisk.core.release import unseen
from skparisk.core.sealed import People, rows_of, take_rows
from skparisk.neighbors import Database, known_pairs
from skparisk.queries import Query
from skparisk.reference._base import RecordPool
from skparisk.sensitivity import SensitivitySampler

Block = tuple[Database, np.random.SeedSequence]

# Of a database, unless those of the release have fewer: one record is 5 % of it then.
LEAST_RECORDS = 20


@dataclass(frozen=True, eq=False)
class BlockJudge:
    """Tell if the pair of a block exceeds the level. All fields are public."""

    query: Query
    n_records: int
    n_outputs: int
    target: Target
    law: Law
    shape: NoiseShape
    averages: bool
    noise_scale: float

    @classmethod
    def of(cls, sampler: SensitivitySampler) -> BlockJudge:
        """Return that of a fitted sampler."""
        evidence = sampler.certificate_.require_evidence()
        return cls(
            query=sampler.query_,
            n_records=evidence.n_records,
            n_outputs=evidence.n_outputs,
            target=sampler._target(),
            law=as_law(sampler.law),
            shape=getattr(sampler.mechanism_, "shape", NoiseShape()),
            averages=evidence.order_index is None,
            noise_scale=evidence.noise_scale,
        )

    def exceeds(self, block: Block) -> bool:
        """Tell if the pair of a block exceeds the level; one without an answer does."""
        with unseen():  # nothing but that
            return self._exceeds(*block)
        return True

    def _exceeds(self, records: Database, seed: np.random.SeedSequence) -> bool:
        rng = np.random.default_rng(seed)
        n = self.n_records
        X, y = records
        ends = X.ends if isinstance(X, People) else None
        pool = RecordPool(rows_of(X), rows_of(y), ends)
        pairs = known_pairs(pool, np.arange(n + 1)[None], rng)
        # A pool for each block: others would have a say in what is rounding here.
        found = copy.deepcopy(self.query).on_pool(pairs.pool, n)(pairs)
        answered = np.isfinite(found.values).all()
        if not answered or found.values.shape[1] != self.n_outputs:
            return True
        pair = SampledPairs(
            found.values,
            found.errors,
            np.zeros(self.n_outputs),
            draw_seed=int.from_bytes(rng.bytes(16), "little"),
        )
        return bool(self.are_beyond(pair, rng)[0])

    def are_beyond(
        self, pairs: SampledPairs, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Tell which answered pairs exceed the level: what calibration has at a risk.

        With one draw of the noise where the risk is over that as well.
        """
        epsilon, n_outputs = self.target.epsilon, self.n_outputs
        if self.target.randomness == "both" and not self.averages:
            drawn = drawn_scales(pairs, epsilon, self.shape)
            return np.asarray(drawn > self.noise_scale)
        distances = norms_of_pairs(pairs, self.shape, self.law)
        if not self.averages:
            unit = self.law.unit_noise(epsilon, self.target.delta, n_outputs)
            return np.asarray(distances * unit.scale > self.noise_scale)
        risks = self.law.risks(
            distances / self.noise_scale,
            epsilon,
            n_outputs=n_outputs,
            steps=self.law.risk_steps(epsilon, self.target.gamma, n_outputs),
        )
        return np.asarray(rng.random(len(risks)) < risks)


def choose_blocks(
    n_rows: int,
    n_blocks: int | None,
    *,
    n_release: int | None,
    needed: Callable[[], int],
) -> tuple[int, int]:
    """Return how many blocks there are, and the records of a database of each.

    That is one less than a block has, and no more than the release has, if that is
    known. `needed` says how many blocks are enough, where none are given.
    """
    most = n_rows if n_release is None else n_release
    size = min(LEAST_RECORDS, most) + 1
    if n_blocks is None:
        wanted = needed()
        chosen = max(wanted, n_rows // (most + 1))
        advice = "give more records, a larger epsilon, or fewer n_blocks, which are "
        advice += "likelier to be inconclusive"
    else:
        chosen = wanted = check_at_least(n_blocks, "n_blocks", 1)
        advice = f"n_blocks may be {n_rows // size} at most"
    if n_rows < wanted * size:
        raise ValueError(
            f"X must have at least {wanted * size} records, for {wanted} blocks of "
            f"{size}, got {n_rows}: {advice}."
        )
    return chosen, min(n_rows // chosen - 1, most)


def cut_blocks(
    records: Database, n_blocks: int, size: int, seed: np.random.SeedSequence
) -> list[Block]:
    """Return disjoint blocks of records, by position after a random permutation."""
    X, y = records
    order, judged = seed.spawn(2)
    rows = np.random.default_rng(order).permutation(X.shape[0])
    lines: NDArray[np.intp] = rows[: n_blocks * size].reshape(n_blocks, size)
    return [
        ((take_rows(X, line), take_rows(y, line)), own)
        for line, own in zip(lines, judged.spawn(n_blocks), strict=True)
    ]


def count_exceeding(
    judge: BlockJudge, blocks: Sequence[Block], n_jobs: int | None = None
) -> int:
    """Return how many blocks exceed the level: private, and moved by 1 by a record."""
    with one_thread():
        tasks = (delayed(_exceeds)(judge, block) for block in blocks)
        return sum(Parallel(n_jobs=n_jobs)(tasks))


def _exceeds(judge: BlockJudge, block: Block) -> bool:
    """Tell in one worker."""
    with one_thread():
        return judge.exceeds(block)
