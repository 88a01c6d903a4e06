"""Random stopping: the best of a random number of private runs."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skparisk._secure_noise import noise_source, sample_uniform_integers
from skparisk._silence import silenced
from skparisk.certificate import Certificate
from skparisk.certificate._claim import SEEDED
from skparisk.certificate._rounding import add_up
from skparisk.composition import compose_basic
from skparisk.exceptions import (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
)
from skparisk.ledger import spend, suspend_open
from skparisk.ledger._open import count_recorded
from skparisk.model_selection._candidates import Records, with_seeds
from skparisk.model_selection._levels import (
    LEARNS_MORE,
    Candidate,
    find_certificates,
    private_parts,
)
from skparisk.model_selection._recorded import Choice, fit_recorded

__all__ = ["RandomStopping"]

# Errors that are told as they are: they hold nothing but what they say.
_PLAIN_ERRORS = (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, eq=False)
class RandomStopping:
    """What each run may spend, and what the best of all of them guarantees.

    Parameters
    ----------
    candidates : tuple of Candidate

    epsilon : float
        What one run may spend at most.

    risks : tuple of float
        The risk that a run may have at most, for each candidate; 0 where parameters do
        not tell.

    total : Certificate
    """

    candidates: tuple[Candidate, ...]
    epsilon: float
    risks: tuple[float, ...]
    total: Certificate

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

        A union bound over candidates, and not over runs, needs that all runs of a
        candidate with a risk are calibrated alike.
        """
        known = [candidate.level for candidate in candidates]
        levels = [level for level in known if level is not None]
        for candidate, level in zip(candidates, known, strict=True):
            _check_candidate(candidate, level, epsilon, gamma)
        risks = [0.0 if level is None else _whole_risk(level) for level in known]
        risk = add_up(risks)
        if risk >= 1:
            raise ValueError(
                f"gamma={gamma!r} is too large for {len(candidates)} candidates: their "
                f"risks add up to {risk:g}."
            )
        if len(levels) < len(known):  # runs with another relation are refused
            relation = "replace-one"
        # Relations that do not go together are refused here.
        together = compose_basic([Certificate(0.0, relation=relation), *levels])
        rests_on = {*provisos, *together.provisos}
        total = Certificate(
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
        about them but the time they take, and no error holds what they released.
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
        failure: BaseException
        try:
            return self._run(estimators, records, score, n_runs, source)
        except BaseException as error:  # an interruption has frames as well
            failure = _without_results(error)
        raise failure  # outside, so that no frame of a run comes along

    def _run(
        self,
        estimators: Sequence[Any],
        records: Records,
        score: Callable[[Any], float],
        n_runs: int,
        source: Any,
    ) -> Choice:
        """Return the best run."""
        best: tuple[float, Choice] | None = None
        calibrated: dict[int, list[Any]] = {}
        recorded = count_recorded()
        more = True
        with suspend_open(), silenced():
            while more or best is None:
                index = int(sample_uniform_integers(len(estimators), 1, source)[0])
                fitted, releases = fit_recorded(
                    estimators[index], records, epsilon=self.epsilon
                )
                if count_recorded() != recorded:
                    raise IncompatibleError(
                        "selection='random-stopping' is not valid if open ledgers are "
                        "charged for single runs, because the charges tell how many "
                        "there were: the estimator must not fit in threads, and other "
                        "threads must not release anything; use n_jobs=None in the "
                        "estimator."
                    )
                run = compose_basic(releases)
                self._check_run(run, self.risks[index])
                claims = [*releases, *find_certificates(fitted)]
                if run.risk and calibrated.setdefault(index, claims) != claims:
                    raise IncompatibleError(
                        "selection='random-stopping' is not valid for a candidate with "
                        "a risk whose runs are not calibrated alike."
                    )
                reached = score(fitted)
                reached = -math.inf if math.isnan(reached) else reached
                if best is None or reached > best[0]:
                    best = reached, Choice(index, fitted, run)
                # One more with a probability of 1 - 1 / n_runs.
                more = sample_uniform_integers(n_runs, 1, source)[0] > 0
        choice, run = best[1], best[1].certificate
        certificate = self.total.amended(
            provisos=run.provisos, conditions=run.conditions
        )
        return dataclasses.replace(choice, certificate=certificate)

    def _check_run(self, run: Certificate, risk: float) -> None:
        """Refuse a run for which the total does not hold."""
        cases = {
            f"relation={run.relation!r} instead of {self.total.relation!r}": (
                run.relation not in (None, self.total.relation)
            ),
            "a delta": run.delta > 0,
            "a risk over the noise": run.risk > 0 and run.randomness != "implicit",
            "a risk that does not follow from its parameters, so its runs may not be "
            "calibrated alike": _whole_risk(run) > risk,
            "no guarantee": run.void and not self.total.void,
            "a leak": bool(run.leaks),
        }
        for what, applies in cases.items():
            if applies:
                raise IncompatibleError(
                    "selection='random-stopping' is not valid for a candidate with "
                    f"{what}. {' '.join(run.caveats)}".rstrip()
                )


def _check_candidate(
    candidate: Candidate,
    level: Certificate | None,
    epsilon: float,
    gamma: float,
) -> None:
    """Refuse a candidate that random stopping does not hold for, as far as is told."""
    if candidate.learns_more:
        raise IncompatibleError(
            "selection='random-stopping' is not valid for a candidate with a leak. "
            f"{LEARNS_MORE} Fit them to public data first and wrap them in a "
            "FrozenEstimator, or wrap each in a PrivateEstimator."
        )
    if level is None:
        return
    if level.epsilon > epsilon:
        raise ValueError(
            f"epsilon={epsilon!r} is what one run may spend, but a candidate asks for "
            f"{level.epsilon!r}."
        )
    risk = _whole_risk(level)
    if level.delta or (risk and level.randomness != "implicit"):
        raise IncompatibleError(
            "selection='random-stopping' is not valid for a candidate with a delta or "
            f"a risk over the noise; got delta={level.delta!r}, risk={level.risk!r} "
            f"and randomness={level.randomness!r}."
        )
    if risk > gamma:
        raise ValueError(
            f"gamma={gamma!r} is the risk that a candidate may have, but one asks for "
            f"{risk!r}."
        )
    n_private = len(private_parts(candidate.estimator))
    if risk and n_private > 1:
        raise IncompatibleError(
            "selection='random-stopping' is not valid for a candidate with a risk "
            "whose runs are not calibrated alike: the noise of one private part "
            f"changes what another is calibrated to; got a candidate with {n_private} "
            f"private parts and risk={risk!r}."
        )


def _whole_risk(level: Certificate) -> float:
    return add_up([level.risk, level.failure_prob])


def _without_results(error: BaseException) -> BaseException:
    """Return an error that says the same, without frames that hold what was released.

    Others than plain ones may hold the objects that they are about.
    """
    if type(error) in _PLAIN_ERRORS or not isinstance(error, Exception):
        return copy.copy(error)
    return ValueError(
        f"A run of selection='random-stopping' failed with {type(error).__name__}: "
        f"{error}"
    )


def _silent(estimator: Any) -> Any:
    """Return an estimator that tells nothing while it is fitted."""
    nested = estimator.get_params(deep=True)
    loud = [name for name in nested if name.rpartition("__")[2] == "verbose"]
    return estimator.set_params(**{name: 0 for name in loud if nested[name]})
