"""PrivateGridSearchCV: hyper-parameters that are chosen privately."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.utils import (
    Tags,
    assert_all_finite,
    check_array,
    check_consistent_length,
    get_tags,
)
from sklearn.utils.metadata_routing import MetadataRouter

from skparisk._fitted import forget_fit
from skparisk._fitted_parts import refuse_frozen_on
from skparisk._private import PrivateMixin
from skparisk._private_data import hide_values
from skparisk._secure_noise import noise_source
from skparisk._validate import (
    check_at_least,
    check_choice,
    check_epsilon,
    check_n_jobs,
    check_probability,
    check_random_state,
    check_verbose,
)
from skparisk.certificate import Certificate
from skparisk.composition import compose_basic
from skparisk.exceptions import (
    IncompatibleError,
    PrivacyLeakWarning,
    warn_caller,
    warn_if_seeded,
)
from skparisk.ledger import spend
from skparisk.linear_model._bounds import check_y_bounds
from skparisk.mechanisms import LaplaceMechanism
from skparisk.model_selection._candidates import (
    Records,
    as_indexable,
    configure,
    leading_frozen_steps,
)
from skparisk.model_selection._hold_out import (
    RecordScore,
    default_record_score,
    score_hold_out,
    split_records,
)
from skparisk.model_selection._levels import Candidate
from skparisk.model_selection._public import (
    count_public_records,
    find_public_records,
    refuse_private_samplers,
    shares_records,
    tabulate_scores,
)
from skparisk.model_selection._random_stopping import RandomStopping
from skparisk.model_selection._recorded import (
    Choice,
    charge_leaks,
    choose_by_exponential,
    fit_recorded,
)
from skparisk.model_selection._simulation import (
    check_single_scoring,
    score_estimator,
    simulate_scores,
)
from skparisk.model_selection._splits import SPLITS_BY_VALUES, may_split_by_values

__all__ = ["SELECTIONS", "PrivateGridSearchCV"]

SELECTIONS = ("reference", "exponential", "random-stopping")

CHOSEN_ON_PRIVATE = (
    "The candidate was chosen by its score on the private data themselves, without "
    "noise."
)
DECLARED_SCORE = (
    "The caller says that record_score scores each record only by its own target and "
    "prediction; this is not checked."
)
# The best of n candidates is missed with a probability of less than 1 / (1 + this).
_RUNS_PER_CANDIDATE = 10


class PrivateGridSearchCV(GridSearchCV):
    """Grid search whose whole cost in privacy is known, and counted.

    Plain `GridSearchCV` fits each candidate to each fold, so that the levels of all
    these fits add up, and then chooses by scores on private records without noise,
    which voids any guarantee. This one never looks at a private score without noise.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline with one. Anything that charges what it
        releases to an open ledger will do. Parts that are not of skparisk must not
        learn from the private records: a scaler belongs in a `FrozenEstimator`, fitted
        to public records before, or in a :class:`~skparisk.PrivateEstimator`; else it
        is a leak, which the certificate tells, and "random-stopping" refuses.

    param_grid : dict or list of dict
        As in `GridSearchCV`. Public: it must not depend on the private data.

    selection : {"reference", "exponential", "random-stopping"}, default="reference"
        How the candidate is chosen.

        * "reference": by simulation on public records, see
          :func:`~skparisk.model_selection.simulate_scores`. The choice is free, and
          the best candidate is fitted to the private records once.
        * "exponential": all candidates are fitted to one part of the private records,
          and the exponential mechanism chooses by scores on the other part.
        * "random-stopping": candidates drawn at random are fitted, a random number of
          times, and the best of these models is released, at three times the level of
          one fit, however many candidates there are.

    epsilon : float, default=1.0
        Privacy level, in (0, inf]. "exponential": of the choice alone.
        "random-stopping": what one run may spend at most; it is refused if it asks for
        more. Not used for "reference".

    gamma : float, default=0.05
        For "random-stopping": risk of each candidate, in [0, 1); it is refused if it
        asks for more. The risks of all candidates add up, and their sum must be below
        1; a candidate with a known sensitivity has none. One whose parameters do not
        tell its level, or with several private parts, must have none.

    scoring : str, callable or None, default=None
        One score for public records, and for `score`, as in `GridSearchCV`.

    record_score : callable, default=None
        ``record_score(y_true, y_pred)`` returns a number in [0, 1] for each private
        record that is held out, larger for better, by nothing but this record's own
        target and prediction. Numbers outside are clipped, NaN is 0. None: 1 for the
        right label and else 0; for regressors 1 minus the absolute error, as a share
        of the width of `y_bounds`, and at least 0.

    y_bounds : tuple of float, default=None
        (lowest, highest) target, which is public. Needed to score regressors on
        private records, unless there is a `record_score`.

    holdout : float, default=0.2
        Share of the private records to score on, in (0, 1), rounded up to a record.
        For "exponential", and for "random-stopping" without a reference.

    n_runs : int, default=None
        For "random-stopping": mean number of runs, >= 1. It costs time, and no
        privacy. None: ten for each candidate, so that any one of them is tried with a
        probability of more than 10/11.

    cv : int, splitter or iterable, default=5
        For "reference": splits of the public records.

    n_jobs : int, default=None
        For "reference": workers of the simulation. Private records are worked on in
        this process alone, where ledgers are open.

    random_state : int, RandomState, Generator or None, default=None
        Seeds what is public: the simulation, and which records are held out.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: the noise of the choice, and the number of runs, come from the operating
        system's cryptographic source. Anything else is for tests, and warns: the
        choice is then not private. It is not handed on to the estimator.

    verbose : int or None, default=0
        Above 0: messages of the simulation.

    Attributes
    ----------
    certificate_ : Certificate
        What the whole search guarantees.

    best_estimator_ : estimator
        The released model. There is no further fit.

    best_params_ : dict
        Its parameters.

    best_index_ : int
        Their number in ``ParameterGrid(param_grid)``.

    cv_results_ : dict
        For "reference", if it was public: as in `GridSearchCV`, without times.

    best_score_ : float
        For "reference", if it was public: mean score of the best candidate.

    scorer_ : callable
        What `score` scores with.

    multimetric_ : bool
        False.

    classes_, n_features_in_, feature_names_in_ : ndarray, int, ndarray
        Of the best estimator, where it has them.

    Notes
    -----
    **Guarantee**. "reference" (:ref:`thm-free-simulation`): that of one fit.
    "exponential" (:ref:`thm-hold-out-choice`): the larger of the choice's `epsilon` and
    the sum over the fits of all candidates, as every record is in one part only.
    "random-stopping" (:ref:`thm-random-stopping`): ``3 * epsilon``, at a risk over
    pairs that is the sum over the candidates. The caller must ensure that the reference
    is public and describes the population, and that no one observes how long
    "random-stopping" takes, as the time tells of the number of runs.

    Without a reference "reference" simulates on the training data themselves. This
    warns, and the certificate says so; "random-stopping" refuses candidates that would
    sample pairs from them.

    An open :class:`~skparisk.ledger.PrivacyLedger` is charged for each fit and for the
    choice as they happen, which is more than the certificate of "exponential" says. If
    parameters tell that their levels do not fit, nothing is fitted. For
    "random-stopping" the total is charged before the first run. If a fit fails, so does
    the search: what was charged stays charged, and nothing is kept.

    A `random_state` of None in a candidate is one fixed number in all of its runs of
    "random-stopping", so that these sample the same pairs; runs with a risk that differ
    in their certificates are refused. An error in one of them must not depend on the
    private data. Searches in several threads at once count each other's releases as
    well, and "random-stopping" refuses to run while others release anything.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> from skparisk.model_selection import PrivateGridSearchCV
    >>> X, y = load_census(return_X_y=True)
    >>> ridge = PrivateRidge(epsilon=1.0, sensitivity=0.5)
    >>> search = PrivateGridSearchCV(ridge, {"alpha": [1.0, 100.0]}, random_state=0)
    >>> search = search.fit(X[900:], y[900:], X_reference=X[:900], y_reference=y[:900])
    >>> search.certificate_.epsilon, len(search.cv_results_["mean_test_score"])
    (1.0, 2)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        selection: str = "reference",
        epsilon: float = 1.0,
        gamma: float = 0.05,
        scoring: Any = None,
        record_score: RecordScore | None = None,
        y_bounds: Sequence[float] | None = None,
        holdout: float = 0.2,
        n_runs: int | None = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = 0,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            cv=cv,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.selection = selection
        self.epsilon = epsilon
        self.gamma = gamma
        self.record_score = record_score
        self.y_bounds = y_bounds
        self.holdout = holdout
        self.n_runs = n_runs
        self.random_state = random_state
        self.noise_random_state = noise_random_state

    def fit(
        self, X: Any, y: Any = None, *, X_reference: Any = None, y_reference: Any = None
    ) -> Self:
        """Choose a candidate, and release it fitted to the private records.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records.

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets or labels.

        X_reference : array-like of shape (n_rows, n_features), default=None
            Public records, in the units that `X` has here; a pipeline transforms them
            as it does `X`. Candidates are scored on them (but for "exponential"), and
            those that sample pairs, and have no reference of their own, sample from
            them. For "reference" None stands for the reference of the sampler.

        y_reference : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Their targets or labels.

        Returns
        -------
        self : PrivateGridSearchCV

        Raises
        ------
        ValueError
            If a parameter is out of range, a candidate refuses its parameters, or its
            fit fails.

        IncompatibleError
            If a candidate is not private, has another relation than "replace-one" and
            records are held out, or a guarantee that random stopping does not keep; if
            one of several has pairs that were drawn before a choice by "reference"; or
            if a fit works in other processes, or in threads for "random-stopping".

        BudgetExceededError
            If an open ledger has not enough left, or a run of "random-stopping" asks
            for more than `epsilon`, or for a delta.

        Warns
        -----
        PrivacyLeakWarning
            If "reference" has no reference but the training data, parts that are not of
            skparisk are fitted to them, or the noise is seeded; and what the candidates
            warn of.
        """
        forget_fit(self)
        self._check_parameters()
        check_consistent_length(X, y)
        if (y_reference is None) != (X_reference is None or y is None):
            raise ValueError(
                "X_reference and y_reference must be given together if y is given."
            )
        candidates = [
            Candidate(params, configure(self.estimator, params))
            for params in ParameterGrid(self.param_grid)
        ]
        records = Records(*map(as_indexable, (X, y, X_reference, y_reference)))
        self._check_records(records)
        self._check_public(candidates, records)
        entropy = check_random_state(self.random_state, "random_state").bytes(16)
        seeds = np.random.SeedSequence(int.from_bytes(entropy, "little"))
        choose = {
            "reference": self._choose_by_reference,
            "exponential": self._choose_by_hold_out,
            "random-stopping": self._choose_by_random_stopping,
        }[self.selection]
        scorer = check_scoring(self.estimator, self.scoring, allow_none=True)
        choice = choose(candidates, records, seeds)
        self.scorer_ = scorer
        self.multimetric_ = False
        self.best_index_ = choice.index
        self.best_params_ = candidates[choice.index].params
        self.best_estimator_ = choice.fitted
        self.certificate_ = choice.certificate
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        if choice.results is not None:
            self.cv_results_ = choice.results
            self.best_score_ = choice.results["mean_test_score"][choice.index]
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what `fit` asks for, and what the estimator does.

        Returns
        -------
        routing : MetadataRouter
        """
        return super().get_metadata_routing().add_self_request(self)

    def _check_parameters(self) -> None:
        check_choice(self.selection, "selection", SELECTIONS)
        check_epsilon(self.epsilon)
        risk = isinstance(self.gamma, Real) and not isinstance(self.gamma, bool)
        if not risk or not 0 <= self.gamma < 1:
            raise ValueError(f"gamma must be a number in [0, 1), got {self.gamma!r}.")
        check_single_scoring(self.scoring)
        if not (self.record_score is None or callable(self.record_score)):
            raise ValueError(
                f"record_score must be None or a callable, got {self.record_score!r}."
            )
        if self.y_bounds is not None:
            check_y_bounds(self.y_bounds)
        check_probability(self.holdout, "holdout")
        if self.n_runs is not None:
            check_at_least(self.n_runs, "n_runs", 1)
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        check_random_state(self.random_state, "random_state")
        noise_source(self.noise_random_state)

    def _check_records(self, records: Records) -> None:
        """Refuse what no fit would take before anything is released."""
        if records.y is not None:
            hide_values(assert_all_finite, records.y, input_name="y")
        elif get_tags(self.estimator).target_tags.required:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        if isinstance(self.estimator, PrivateMixin):
            hide_values(check_array, records.X, dtype=np.float64, input_name="X")

    def _check_public(self, candidates: Sequence[Candidate], records: Records) -> None:
        """Refuse private records that come back as public ones, before any split."""
        estimators = [candidate.estimator for candidate in candidates]
        refuse_private_samplers(estimators, records.X)
        for estimator in estimators:
            frozen = leading_frozen_steps(estimator)
            parts = [step.estimator for step in frozen]
            whole = [make_pipeline(*frozen)] if frozen else []
            refuse_frozen_on(parts, whole, records.X, records.y)
        public = records.X_reference
        if public is not None and shares_records(records.X, public):
            raise ValueError(
                "X_reference must be public and must not share records with the "
                "training data."
            )

    def _choose_by_reference(
        self,
        candidates: Sequence[Candidate],
        records: Records,
        seeds: np.random.SeedSequence,
    ) -> Choice:
        """Choose by simulation, and fit the best candidate to the private records."""
        if len(candidates) > 1 and any(candidate.has_pairs for candidate in candidates):
            raise IncompatibleError(
                "selection='reference' must not look at the pairs that calibrate the "
                "noise: a SensitivitySampler must not be fitted beforehand, nor have a "
                "reference with sampling='disjoint' or 'split'."
            )
        made, simulated = seeds.spawn(2)
        estimators = [candidate.estimator for candidate in candidates]
        n_records = count_public_records(estimators, len(records))
        public = find_public_records(estimators[0], records, n_records, made)
        leaks = []
        if public is None:
            by_values = may_split_by_values(self.cv, estimators[0])
            leaks.append(
                Certificate(
                    0.0,
                    leaks=(CHOSEN_ON_PRIVATE,),
                    void_reasons=(SPLITS_BY_VALUES,) if by_values else (),
                )
            )
            warn_caller(
                f"{CHOSEN_ON_PRIVATE} Give X_reference, which must be public.",
                PrivacyLeakWarning,
            )
        scores = simulate_scores(
            estimators,
            *(public or (records.X, records.y)),
            n_records=n_records,
            scoring=self.scoring,
            cv=self.cv,
            n_jobs=self.n_jobs,
            random_state=np.random.default_rng(simulated),
            verbose=check_verbose(self.verbose),
        )
        results = tabulate_scores(
            [candidate.params for candidate in candidates], scores
        )
        index = int(results["rank_test_score"].argmin())
        spend(*leaks, note="a choice by scores on the private data themselves")
        leaks += charge_leaks([candidates[index]])
        fitted, releases = fit_recorded(estimators[index], records)
        certificate = compose_basic([*leaks, *releases])
        return Choice(index, fitted, certificate, None if public is None else results)

    def _choose_by_hold_out(
        self,
        candidates: Sequence[Candidate],
        records: Records,
        seeds: np.random.SeedSequence,
    ) -> Choice:
        """Fit all candidates, and choose by scores on records that are held out."""
        record_score, provisos = self._check_record_score()
        training, held_out = split_records(records, self.holdout, seeds)
        warn_if_seeded(self.noise_random_state)
        return choose_by_exponential(
            candidates,
            training,
            lambda model: score_hold_out(model, held_out, record_score),
            epsilon=self.epsilon,
            provisos=provisos,
            noise_random_state=self.noise_random_state,
        )

    def _choose_by_random_stopping(
        self,
        candidates: Sequence[Candidate],
        records: Records,
        seeds: np.random.SeedSequence,
    ) -> Choice:
        """Keep the best of a random number of runs, by public or by noisy scores."""
        split, nested = seeds.spawn(2)
        noise = self.noise_random_state
        if noise is not None:  # one stream for all that is drawn
            noise = check_random_state(noise, "noise_random_state")
        provisos: tuple[str, ...] = ()
        relation = None
        if records.X_reference is None:
            relation = "replace-one"
            record_score, provisos = self._check_record_score()
            mechanism = LaplaceMechanism(1.0, self.epsilon)
            training, held_out = split_records(records, self.holdout, split)
            if any(candidate.needs_reference for candidate in candidates):
                raise ValueError(
                    "X_reference must be given with selection='random-stopping', "
                    "unless each candidate has a sampler with a reference or a known "
                    "sensitivity, and each classifier its classes: what would "
                    "otherwise be taken from the training data would differ between "
                    "runs on neighboring databases."
                )

            def score(model: Any) -> float:
                total = score_hold_out(model, held_out, record_score)
                return float(mechanism.release([total], noise_random_state=noise)[0])

        else:
            scorer = check_scoring(self.estimator, self.scoring)
            training = records

            def score(model: Any) -> float:
                return score_estimator(
                    scorer, model, records.X_reference, records.y_reference
                )

        known = [seed for candidate in candidates for seed in candidate.seeds]
        known += [] if noise is None else [self.noise_random_state]
        plan = RandomStopping.plan(
            candidates,
            epsilon=self.epsilon,
            gamma=self.gamma,
            relation=relation,
            provisos=provisos,
            seeded=bool(known),
        )
        for seed in known[:1]:  # runs do not warn: how often they did would tell
            warn_if_seeded(seed)
        n_runs = self.n_runs or _RUNS_PER_CANDIDATE * len(candidates)
        return plan.choose(
            training, score, n_runs=n_runs, seeds=nested, noise_random_state=noise
        )

    def _check_record_score(self) -> tuple[RecordScore, tuple[str, ...]]:
        """Return how private records are scored, and what is not checked about it."""
        if self.record_score is None:
            return default_record_score(self.estimator, self.y_bounds), ()
        return self.record_score, (DECLARED_SCORE,)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        noisy = self.selection != "reference" and self.noise_random_state is None
        theirs = get_tags(self.estimator)
        tags.non_deterministic = noisy or theirs.non_deterministic
        tags.target_tags = theirs.target_tags
        return tags
