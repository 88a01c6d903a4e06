"""Random stopping: the best of a random number of private runs."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring

from skparisk._secure_noise import noise_source, sample_uniform_integers
from skparisk._silence import silenced
from skparisk._validate import check_at_least, check_random_state, check_share
from skparisk.certificate import Certificate
from skparisk.certificate._claim import LEARNS_MORE
from skparisk.certificate._rounding import add_up
from skparisk.composition import compose_basic
from skparisk.exceptions import (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
    warn_if_seeded,
)
from skparisk.ledger import spend, suspend_open
from skparisk.ledger._open import count_recorded
from skparisk.mechanisms import LaplaceMechanism
from skparisk.mechanisms._charge import as_seeded
from skparisk.model_selection._candidates import Records, with_seeds
from skparisk.model_selection._hold_out import HoldOutSelection, RecordScore
from skparisk.model_selection._levels import (
    Candidate,
    find_certificates,
    private_parts,
)
from skparisk.model_selection._recorded import Choice, Task, fit_recorded
from skparisk.model_selection._simulation import score_estimator

# The best of n candidates is missed with a probability of less than 1 / (1 + this).
_RUNS_PER_CANDIDATE = 10

# Errors that are told as they are: they hold nothing but what they say.
_PLAIN_ERRORS = (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
    TypeError,
    ValueError,
)


class RandomStoppingSelection(HoldOutSelection):
    """Fit candidates drawn at random, a random number of times, and keep the best.

    For `selection` of :class:`~skparisk.model_selection.PrivateGridSearchCV`, where
    "random-stopping" is short for ``RandomStoppingSelection()``. It costs three times
    the level of one fit, however many candidates there are. Scores are those on the
    reference, or without one noisy ones on private records that are held out.

    Parameters
    ----------
    epsilon : float, default=1.0
        What one run may spend at most, in (0, inf]; it is refused if it asks for more.

    gamma : float, default=0.05
        Risk of each candidate, in [0, 1); it is refused if it asks for more. The risks
        of all candidates add up, and their sum must be below 1; a candidate with a
        known sensitivity has none. One whose parameters do not tell its level, or with
        several private parts, must have none.

    n_runs : int, default=None
        Mean number of runs, >= 1. It costs time, and no privacy. None: ten for each
        candidate, so that any one of them is tried with a probability of more than
        10/11.

    holdout : float, default=0.2
        Without a reference: share of the private records to score on, in (0, 1).

    record_score : callable, default=None
        Without a reference: scores single records, see :class:`ExponentialSelection`.

    y_bounds : tuple of float, default=None
        Without a reference: (lowest, highest) target, to score regressors.

    Notes
    -----
    **Guarantee** (:ref:`thm-random-stopping`). ``3 * epsilon``, at a risk over pairs
    that is the sum over the candidates. The caller must ensure that the reference is
    public and describes the population, that no one observes how long the search takes,
    as the time tells of the number of runs, and that errors in a run do not depend on
    the private data.

    An open ledger is charged for the total before the first run. Candidates that would
    sample pairs from the training data, or that are fitted with parts which are not of
    skparisk, are refused, and so are releases of other threads at the same time. A
    `random_state` of None in a candidate is one fixed number in all of its runs, so
    that these sample the same pairs; runs with a risk that differ in their certificates
    are refused.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> from skparisk.model_selection import PrivateGridSearchCV as Search
    >>> from skparisk.model_selection import RandomStoppingSelection
    >>> ridge, grid = PrivateRidge(sensitivity=0.5), {"alpha": [0.1, 1.0, 10.0, 100.0]}
    >>> search = Search(ridge, grid, selection=RandomStoppingSelection(y_bounds=(0, 1)))
    >>> search.fit(*load_census(return_X_y=True)).certificate_.epsilon
    3.0
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        n_runs: int | None = None,
        holdout: float = 0.2,
        record_score: RecordScore | None = None,
        y_bounds: Sequence[float] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.gamma = gamma
        self.n_runs = n_runs
        self.holdout = holdout
        self.record_score = record_score
        self.y_bounds = y_bounds

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_share(self.gamma, "gamma")
        if self.n_runs is not None:
            check_at_least(self.n_runs, "n_runs", 1)

    def _choose(self, task: Task) -> Choice:
        """Fit random candidates, a random number of times, and keep the best.

        The number of runs, and all of them but the best, are secret: nothing may tell
        about them but the time they take, and no error holds what they released.
        """
        split, nested = task.seeds.spawn(2)
        noise = task.noise_random_state
        if noise is not None:  # one stream for all that is drawn
            noise = check_random_state(noise, "noise_random_state")
        training, score, provisos = self._score_runs(task, split, noise)
        known = [seed for candidate in task.candidates for seed in candidate.seeds]
        known += [] if noise is None else [task.noise_random_state]
        risks, total = self._plan(task, provisos)
        for seed in known[:1]:  # runs do not warn: how often they did would tell
            warn_if_seeded(seed)
            total = as_seeded(total, seed)
        seeds = nested.spawn(len(task.candidates))
        estimators = [
            _silent(
                with_seeds(each.estimator, seed, ("random_state",), keep_given=True)
            )
            for each, seed in zip(task.candidates, seeds, strict=True)
        ]
        source = noise_source(noise)
        spend(total, note="a choice by random stopping")
        failure: BaseException
        try:
            return self._find_best(estimators, training, score, risks, total, source)
        except BaseException as error:  # an interruption has frames as well
            failure = _without_results(error)
        raise failure  # outside, so that no frame of a run comes along

    def _find_best(
        self,
        estimators: Sequence[Any],
        records: Records,
        score: Callable[[Any], float],
        risks: Sequence[float],
        total: Certificate,
        source: Any,
    ) -> Choice:
        """Return the best run."""
        n_runs = self.n_runs or _RUNS_PER_CANDIDATE * len(estimators)
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
                _check_run(run, total, risks[index])
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
        certificate = total.amended(provisos=run.provisos, conditions=run.conditions)
        return dataclasses.replace(choice, certificate=certificate)

    def _score_runs(
        self, task: Task, split: np.random.SeedSequence, noise: Any
    ) -> tuple[Records, Callable[[Any], float], tuple[str, ...]]:
        """Return what to fit, a public or a noisy score, and what is not checked."""
        public = task.records.X_reference, task.records.y_reference
        if public[0] is not None:
            scorer = check_scoring(task.estimator, task.scoring)
            return task.records, lambda fit: score_estimator(scorer, fit, *public), ()
        training, score, provisos = self._hold_out(task, split)
        mechanism = LaplaceMechanism(1.0, self.epsilon)
        if any(candidate.needs_reference for candidate in task.candidates):
            raise ValueError(
                "X_reference must be given with selection='random-stopping', unless "
                "each candidate has a sampler with a reference or a known sensitivity, "
                "and each classifier its classes: what would otherwise be taken from "
                "the training data would differ between runs on neighboring databases."
            )

        def noisy(fit: Any) -> float:
            return float(mechanism.release([score(fit)], noise_random_state=noise)[0])

        return training, noisy, provisos

    def _plan(
        self, task: Task, provisos: Sequence[str]
    ) -> tuple[list[float], Certificate]:
        """Check what is known before of the candidates, and add it up.

        Return the risk that a run of each may have, 0 where parameters do not tell, and
        the total. A union bound over candidates, and not over runs, needs that all runs
        of a candidate with a risk are calibrated alike.
        """
        known = [candidate.level for candidate in task.candidates]
        levels = [level for level in known if level is not None]
        for candidate, level in zip(task.candidates, known, strict=True):
            _check_candidate(candidate, level, self.epsilon, self.gamma)
        risks = [0.0 if level is None else _whole_risk(level) for level in known]
        risk = add_up(risks)
        if risk >= 1:
            raise ValueError(
                f"gamma={self.gamma!r} is too large for {len(known)} candidates: their "
                f"risks add up to {risk:g}."
            )
        # Runs with another relation than the total are refused.
        public = task.records.X_reference is not None and len(levels) == len(known)
        relation = None if public else "replace-one"
        # Relations that do not go together are refused here.
        together = compose_basic([Certificate(0.0, relation=relation), *levels])
        total = Certificate(
            add_up([self.epsilon] * 3),
            risk=risk,
            randomness="implicit",
            relation=together.relation,
            method="random-stopping",
            provisos=tuple(sorted({*provisos, *together.provisos})),
        )
        return risks, total


def _check_run(run: Certificate, total: Certificate, risk: float) -> None:
    """Refuse a run for which the total does not hold."""
    cases = {
        f"relation={run.relation!r} instead of {total.relation!r}": (
            run.relation not in (None, total.relation)
        ),
        "a delta": run.delta > 0,
        "a risk over the noise": run.risk > 0 and run.randomness != "implicit",
        "a risk that does not follow from its parameters, so its runs may not be "
        "calibrated alike": _whole_risk(run) > risk,
        "no guarantee": run.void and not total.void,
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
        copied = copy.copy(error)
        # Dask lets copies of errors have them as well.
        copied.__cause__ = copied.__context__ = None
        return copied.with_traceback(None)
    return ValueError(
        f"A run of selection='random-stopping' failed with {type(error).__name__}: "
        f"{error}"
    )


def _silent(estimator: Any) -> Any:
    """Return an estimator that tells nothing while it is fitted."""
    nested = estimator.get_params(deep=True)
    loud = [name for name in nested if name.rpartition("__")[2] == "verbose"]
    return estimator.set_params(**{name: 0 for name in loud if nested[name]})
