"""PrivateGridSearchCV: hyper-parameters that are chosen privately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.utils import (
    Tags,
    assert_all_finite,
    check_array,
    check_consistent_length,
    get_tags,
)
from sklearn.utils.metadata_routing import MetadataRouter

from skparisk._callers import leaks_around
from skparisk._checks import check_n_jobs, check_verbose, private_people, seed_sequence
from skparisk._fitted import whole_fit
from skparisk._private import PrivateMixin
from skparisk.core.checks import IncompatibleError, check_random_state, is_whole
from skparisk.core.compose import compose_basic
from skparisk.core.exact import noise_source
from skparisk.core.release import hide_values
from skparisk.core.sealed import (
    People,
    group_rows,
    ids_of,
    key_of_id,
    of_people,
    rows_of,
)
from skparisk.model_selection._exponential import ExponentialSelection
from skparisk.model_selection._fits import (
    Candidate,
    Choice,
    Records,
    Task,
    as_indexable,
    charge_leaks,
    configure,
    find_samplers,
    fit_recorded,
    refuse_private_records,
)
from skparisk.model_selection._simulation import check_single_scoring, simulate_scores
from skparisk.reference._base import is_reference
from skparisk.reference._table import shares_people

_SHARED = (
    "groups must be of other people than those of the reference, but some ids are the "
    "same."
)


def check_cv(cv: Any) -> None:
    """Refuse what are no splits of public records."""
    many = hasattr(cv, "split") or isinstance(cv, Iterable)  # is not used up
    if isinstance(cv, str) or not (cv is None or (cv >= 2 if is_whole(cv) else many)):
        raise ValueError(
            "cv must be None, a whole number >= 2, a splitter or an iterable of "
            f"splits, got {cv!r}."
        )


def choose_by_reference(task: Task) -> Choice:
    """Choose by simulation, and fit the best candidate to the private records."""
    candidates, records = task.candidates, task.records
    if len(candidates) > 1 and any(candidate.has_pairs for candidate in candidates):
        raise IncompatibleError(
            "selection='reference' must not look at the pairs that calibrate the "
            "noise: a SensitivitySampler must not be fitted beforehand, nor have a "
            "reference with sampling='split'."
        )
    X, y = records.X_reference, records.y_reference
    if X is None:
        raise ValueError(
            "X_reference must be public records with selection='reference', which "
            "scores the candidates on them, got None: give some, or choose on private "
            "records by selection='exponential'."
        )
    estimators = [candidate.estimator for candidate in candidates]
    # With "add-remove" public is what a sampler was given: there may be one less.
    samplers = find_samplers(estimators)
    known = [getattr(sampler, "n_records_", sampler.n_records) for sampler in samplers]
    n_records = max((n for n in known if n is not None), default=len(records))
    scores = simulate_scores(
        estimators,
        rows_of(X),
        rows_of(y),
        n_records=n_records,
        groups=X.numbers if isinstance(X, People) else None,
        scoring=task.scoring,
        cv=task.cv,
        n_jobs=task.n_jobs,
        random_state=np.random.default_rng(task.seeds),
        verbose=task.verbose,
    )
    results = _tabulate([candidate.params for candidate in candidates], scores)
    index = int(results["rank_test_score"].argmin())
    told = charge_leaks([candidates[index]])
    fitted, releases = fit_recorded(estimators[index], records)
    return Choice(index, fitted, compose_basic([*told, *releases]), results)


def _tabulate(
    params: Sequence[dict[str, Any]], scores: NDArray[np.float64]
) -> dict[str, Any]:
    """Return candidates and their scores as `cv_results_`, without times."""
    with np.errstate(invalid="ignore"):  # infinite scores
        means, deviations = scores.mean(axis=1), scores.std(axis=1)
    comparable = np.where(np.isnan(means), -np.inf, means)
    results: dict[str, Any] = {}
    for name in sorted({name for candidate in params for name in candidate}):
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for row, candidate in enumerate(params):
            if name in candidate:
                column[row] = candidate[name]
        results[f"param_{name}"] = column
    results["params"] = list(params)
    for split, of_split in enumerate(scores.T):
        results[f"split{split}_test_score"] = of_split
    results["mean_test_score"] = means
    results["std_test_score"] = deviations
    above = comparable[None, :] > comparable[:, None]
    results["rank_test_score"] = 1 + above.sum(axis=1, dtype=np.int32)
    return results


def _as_records(X: Any, y: Any, groups: Any, *public: Any) -> Records:
    """Return records person by person; refuse ids on one side, or of both sides."""
    *others, also = public
    X, y, *others = map(as_indexable, (X, y, *others))
    if (also is None) != (groups is None or others[0] is None):
        raise ValueError(
            "groups and groups_reference must be given together if X_reference is "
            "given: neighbors differ in one person, or in one row, on both sides."
        )
    mine = private_people(groups, int(X.shape[0]))
    theirs = None
    if also is not None:
        theirs = group_rows(also, "groups_reference", int(others[0].shape[0]))
        keys = [{*map(key_of_id, ids_of(ids) or ())} for ids in (groups, also)]
        if not keys[0].isdisjoint(keys[1]):
            raise ValueError(_SHARED)
    return Records(
        *(of_people(part, mine) for part in (X, y)),
        *(of_people(part, theirs) for part in others),
    )


class PrivateGridSearchCV(GridSearchCV):
    """Grid search with a guarantee for the choice and the model together.

    Plain `GridSearchCV` fits each candidate to each fold, whose levels add up, and then
    chooses by private scores without noise, which voids any guarantee. This search
    never looks at a private score without noise.

    Parameters
    ----------
    estimator : estimator
        A private estimator, a pipeline with one, or anything that charges its releases
        to an open ledger. Other parts, such as a scaler, must be fitted to public
        records before, in a `FrozenEstimator`, or sit inside a
        :class:`~skparisk.PrivateEstimator`. Else they are a leak on the certificate.

    param_grid : dict or list of dict
        As in `GridSearchCV`. Public: it must not depend on the private data.

    selection : {"reference", "exponential"} or ExponentialSelection, \
            default="reference"
        How the candidate is chosen.

        * "reference": by the scores of
          :func:`~skparisk.model_selection.simulate_scores` on the public records that
          `fit` is given. The choice is free, and the best candidate is fitted once.
          Candidates whose pairs were drawn before the choice are refused.
        * "exponential", or :class:`ExponentialSelection`: all candidates are fitted to
          one part of the private records, and the exponential mechanism chooses by
          scores on the other part.

    scoring : str, callable or None, default=None
        One score for public records, and for `score`, as in `GridSearchCV`.

    cv : int, splitter or iterable, default=5
        For "reference": splits of the public records, as in `GridSearchCV`; an int is
        >= 2.

    n_jobs : int, default=None
        Workers of the simulation by "reference". Private records are worked on in this
        process alone, where ledgers are open.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the simulation, and the choice of the held-out records.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: the operating system's cryptographic source. Anything else is for tests,
        and warns: the choice is then not private. The estimator has its own.

    verbose : int or None, default=0
        Above 0: messages of the simulation.

    Attributes
    ----------
    certificate_ : Certificate
        Guarantee of the whole search.

    best_estimator_ : estimator
        The released model. There is no further fit.

    best_params_ : dict
        Its parameters.

    best_index_ : int
        Their number in ``ParameterGrid(param_grid)``.

    cv_results_, best_score_ : dict, float
        For "reference": as in `GridSearchCV`, without times.

    scorer_ : callable
        Scorer of `score`.

    multimetric_ : bool
        False.

    classes_, n_features_in_, feature_names_in_ : ndarray, int, ndarray
        Of the best estimator, where it has them.

    Notes
    -----
    **Guarantee**. By "reference" as for one fit (:ref:`thm-free-simulation`): the
    caller must ensure that the reference is public and describes the population. Else
    as for :class:`ExponentialSelection`.

    An open :class:`~skparisk.ledger.PrivacyLedger` is charged as the search goes on. If
    a fit fails, so does the search, and charges stay. Searches in several threads at
    once count each other's releases as well.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> from skparisk.model_selection import PrivateGridSearchCV
    >>> X, y = load_census(return_X_y=True)
    >>> grid = {"alpha": [1.0, 10000.0]}
    >>> search = PrivateGridSearchCV(PrivateRidge(), grid, random_state=0)
    >>> search = search.fit(X[900:], y[900:], X_reference=X[:900], y_reference=y[:900])
    >>> print(search.best_params_, "at level", search.certificate_.epsilon)
    {'alpha': 10000.0} at level 1.0
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        selection: str | ExponentialSelection = "reference",
        scoring: Any = None,
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
        self.random_state = random_state
        self.noise_random_state = noise_random_state

    @whole_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        X_reference: Any = None,
        y_reference: Any = None,
        groups_reference: Any = None,
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
            as it does `X`. "reference" scores candidates on them. Candidates without a
            reference of their own sample their pairs from them.

        y_reference : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Their targets or labels.

        groups, groups_reference : array-like of shape (n_rows,), default=None
            Whose each private and each public row is, if people have several; not for
            "exponential". Splits are then of people.

        Raises
        ------
        ValueError
            If a parameter is out of range, there are no public records for
            "reference", a candidate refuses its parameters, or its fit fails.

        IncompatibleError
            If a candidate is not private, or has another relation than "replace-one"
            and records are held out. If one of several has pairs drawn before a choice
            by "reference". If a fit works in other processes.

        BudgetExceededError
            If an open ledger has not enough left.

        Warns
        -----
        PrivacyLeakWarning
            If parts outside skparisk are fitted to the private records, or the noise is
            seeded; also the warnings of the candidates.
        """
        exponential = self._check_parameters()
        hide_values(check_consistent_length, X, y)
        if is_reference(X_reference):
            raise ValueError(
                "X_reference must be records in a search, got a "
                f"{type(X_reference).__name__}: give it to the SensitivitySampler of "
                "the estimator, as its reference, and public records to score on."
            )
        if (y_reference is None) != (X_reference is None or y is None):
            raise ValueError(
                "X_reference and y_reference must be given together if y is given."
            )
        candidates = [
            Candidate(params, configure(self.estimator, params))
            for params in ParameterGrid(self.param_grid)
        ]
        records = _as_records(X, y, groups, X_reference, y_reference, groups_reference)
        if exponential and records.of_people:
            raise ValueError(
                "groups must be None with selection='exponential', which holds rows "
                "out, and not people."
            )
        self._check_records(records)
        samplers = find_samplers([each.estimator for each in candidates])
        if any(shares_people(sampler.reference, groups) for sampler in samplers):
            raise ValueError(_SHARED)
        refuse_private_records([each.estimator for each in candidates], records)
        scorer = check_scoring(self.estimator, self.scoring, allow_none=True)
        task = Task(
            candidates,
            records,
            seed_sequence(self.random_state),
            estimator=self.estimator,
            scoring=self.scoring,
            cv=self.cv,
            n_jobs=self.n_jobs,
            verbose=check_verbose(self.verbose),
            noise_random_state=self.noise_random_state,
        )
        # Their fits are silent, and say it on their certificates.
        leaks_around()
        choice = exponential._choose(task) if exponential else choose_by_reference(task)
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
        """Return the metadata requests of `fit` and of the estimator."""
        return super().get_metadata_routing().add_self_request(self)

    def _check_parameters(self) -> ExponentialSelection | None:
        """Return the selection unless it is by reference, with all parameters checked.

        Not of another type: it could claim more than it was charged for.
        """
        selection = self.selection
        if isinstance(selection, str) and selection == "exponential":
            selection = ExponentialSelection()
        by_reference = isinstance(selection, str) and selection == "reference"
        if not by_reference and type(selection) is not ExponentialSelection:
            raise ValueError(
                "selection must be 'reference', 'exponential' or "
                f"ExponentialSelection(...); got {self.selection!r}."
            )
        if not isinstance(selection, str):
            selection._check_parameters()
        check_cv(self.cv)
        check_single_scoring(self.scoring)
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        check_random_state(self.random_state, "random_state")
        noise_source(self.noise_random_state)
        return None if isinstance(selection, str) else selection

    def _check_records(self, records: Records) -> None:
        """Refuse what no fit would take before anything is released."""
        if records.y is not None:
            hide_values(assert_all_finite, rows_of(records.y), input_name="y")
        elif get_tags(self.estimator).target_tags.required:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        private = isinstance(self.estimator, PrivateMixin)
        if private and not self.estimator._takes_any_table:
            X = rows_of(records.X)
            hide_values(check_array, X, dtype=np.float64, input_name="X")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        free = isinstance(self.selection, str) and self.selection == "reference"
        theirs = get_tags(self.estimator)
        noisy = not free and self.noise_random_state is None
        tags.non_deterministic = noisy or theirs.non_deterministic
        tags.target_tags = theirs.target_tags
        return tags
