"""Random stopping: the best of a random number of private runs."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skparisk._secure_noise import noise_source, sample_uniform_integers
from skparisk._text import SEEDED
from skparisk.composition import PrivacyGuarantee, compose_basic
from skparisk.composition._rules import add_up, keep_conditions
from skparisk.exceptions import IncompatibleError
from skparisk.ledger import spend, suspend_open
from skparisk.model_selection._candidates import Records, with_seeds
from skparisk.model_selection._levels import Candidate
from skparisk.model_selection._recorded import Choice, add_provisos, fit_recorded

__all__ = ["RandomStopping"]


@dataclass(frozen=True, eq=False)
class RandomStopping:
    """What each run may spend, and what the best of all of them guarantees.

    Parameters
    ----------
    candidates : tuple of Candidate

    epsilon : float
        What one run may spend at most.

    risks : tuple of float
        The risk that a run may have at most, for each candidate.

    total : PrivacyGuarantee
    """

    candidates: tuple[Candidate, ...]
    epsilon: float
    risks: tuple[float, ...]
    total: PrivacyGuarantee

    @classmethod
    def plan(
        cls,
        candidates: Sequence[Candidate],
        *,
        epsilon: float,
        gamma: float,
        relation: str | None,
        provisos: Sequence[str],
        seeded: bool,
    ) -> Self:
        """Check what is known before of the candidates, and add it up.

        One whose level is known may take no more risk than it will, so that the risks
        of all add up to less.
        """
        known = [candidate.level for candidate in candidates]
        levels = [level for level in known if level is not None]
        for level in levels:
            _check_level(level, epsilon)
        risks = [
            min(gamma, add_up([level.risk, level.failure_prob])) if level else gamma
            for level in known
        ]
        risk = add_up(risks)
        if risk >= 1:
            raise ValueError(
                f"gamma={gamma!r} is too large for {len(candidates)} candidates: their "
                f"risks add up to {risk:g}."
            )
        # Relations that do not go together are refused here.
        together = compose_basic([PrivacyGuarantee(0.0, relation=relation), *levels])
        rests_on = {*provisos, *together.provisos}
        rests_on.update(*(candidate.provisos for candidate in candidates))
        total = PrivacyGuarantee(
            add_up([epsilon] * 3),
            risk=risk,
            randomness="implicit",
            relation=together.relation,
            method="random-stopping",
            void_reasons=(SEEDED,) if seeded else (),
            provisos=tuple(sorted(rests_on)),
        )
        return cls(tuple(candidates), epsilon, tuple(risks), total)

    def choose(
        self,
        records: Records,
        score: Callable[[Any], float],
        *,
        n_runs: int,
        seeds: np.random.SeedSequence,
        noise_random_state: Any,
    ) -> Choice:
        """Fit random candidates, a random number of times, and keep the best.

        The number of runs, and all of them but the best, are secret: nothing may tell
        about them but the time they take.
        """
        estimators = [
            _silent(
                with_seeds(
                    candidate.estimator, seed, ("random_state",), keep_given=True
                )
            )
            for candidate, seed in zip(
                self.candidates, seeds.spawn(len(self.candidates)), strict=True
            )
        ]
        source = noise_source(noise_random_state)
        spend(self.total, note="a choice by random stopping")
        best: tuple[float, Choice] | None = None
        more = True
        with suspend_open(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while more or best is None:
                index = int(sample_uniform_integers(len(estimators), 1, source)[0])
                fitted, releases = fit_recorded(
                    estimators[index],
                    records,
                    epsilon=self.epsilon,
                    gamma=self.risks[index],
                )
                run = compose_basic(releases)
                self._check_run(run)
                reached = score(fitted)
                reached = -math.inf if math.isnan(reached) else reached
                if best is None or reached > best[0]:
                    best = reached, Choice(index, fitted, run)
                # One more with a probability of 1 - 1 / n_runs.
                more = sample_uniform_integers(n_runs, 1, source)[0] > 0
        choice, run = best[1], best[1].certificate
        certificate = keep_conditions(add_provisos(self.total, run.provisos), [run])
        return dataclasses.replace(choice, certificate=certificate)

    def _check_run(self, run: PrivacyGuarantee) -> None:
        """Refuse a run for which the total does not hold."""
        cases = {
            f"relation={run.relation!r}, and not {self.total.relation!r}": (
                len({self.total.relation, run.relation} - {None}) > 1
            ),
            "a delta": run.delta > 0,
            "a risk over the noise": run.risk > 0 and run.randomness != "implicit",
            "no guarantee": run.voided and not self.total.voided,
            "a leak": bool(run.leaks),
        }
        for what, applies in cases.items():
            if applies:
                raise IncompatibleError(
                    f"selection='random-stopping' does not hold for a candidate with "
                    f"{what}. {' '.join(run.caveats)}".rstrip()
                )


def _check_level(level: PrivacyGuarantee, epsilon: float) -> None:
    """Refuse a candidate that asks for more than one run may spend."""
    if level.epsilon > epsilon:
        raise ValueError(
            f"epsilon={epsilon!r} is what one run may spend, and a candidate asks for "
            f"{level.epsilon!r}."
        )
    if level.delta or (level.risk and level.randomness == "both"):
        raise IncompatibleError(
            "selection='random-stopping' does not hold for a candidate with a delta or "
            f"a risk over the noise; got delta={level.delta!r}, risk={level.risk!r} "
            f"and randomness={level.randomness!r}."
        )


def _silent(estimator: Any) -> Any:
    """Return an estimator that tells nothing while it is fitted."""
    nested = estimator.get_params(deep=True)
    loud = [name for name in nested if name.rpartition("__")[2] == "verbose"]
    return estimator.set_params(**{name: 0 for name in loud if nested[name]})
