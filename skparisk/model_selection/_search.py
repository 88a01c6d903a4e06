"""PrivateGridSearchCV: hyper-parameters that are chosen privately."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
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
from skparisk._checks import check_n_jobs, check_verbose
from skparisk._fitted import whole_fit
from skparisk._private import PrivateMixin
from skparisk.core.checks import check_random_state
from skparisk.core.exact import noise_source
from skparisk.core.release import hide_values
from skparisk.model_selection._candidates import Records, as_indexable, configure
from skparisk.model_selection._exponential import ExponentialSelection
from skparisk.model_selection._fits import Task, refuse_private_records
from skparisk.model_selection._levels import Candidate
from skparisk.model_selection._reference import ReferenceSelection
from skparisk.model_selection._simulation import check_single_scoring
from skparisk.reference import TableReference
from skparisk.reference._base import is_reference

Selection = ReferenceSelection | ExponentialSelection

SELECTIONS: dict[str, type[Selection]] = {
    "reference": ReferenceSelection,
    "exponential": ExponentialSelection,
}


class PrivateGridSearchCV(GridSearchCV):
    """Grid search with a guarantee for the choice and the model together.

    Plain `GridSearchCV` fits each candidate to each fold, whose levels add up, and then
    chooses by private scores without noise, which voids any guarantee. This search
    never looks at a private score without noise.

    Parameters
    ----------
    estimator : estimator
        A private estimator, a pipeline with one, or anything that charges its releases
        to an open ledger. Parts that are not of skparisk, such as a scaler, must be
        fitted to public records before, in a `FrozenEstimator`, or be inside of a
        :class:`~skparisk.PrivateEstimator`; else they are a leak on the certificate.

    param_grid : dict or list of dict
        As in `GridSearchCV`. Public: it must not depend on the private data.

    selection : str or selection object, default="reference"
        How the candidate is chosen. A name is short for the object with its defaults.

        * "reference", or :class:`ReferenceSelection`: by simulation on public records.
          The choice is free, and the best candidate is fitted once.
        * "exponential", or :class:`ExponentialSelection`: all candidates are fitted to
          one part of the private records, and the exponential mechanism chooses by
          scores on the other part.

    scoring : str, callable or None, default=None
        One score for public records, and for `score`, as in `GridSearchCV`.

    n_jobs : int, default=None
        Workers of the simulation by "reference". Private records are worked on in this
        process alone, where ledgers are open.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the simulation, and the choice of the records that are held out.

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

    cv_results_ : dict
        For "reference", if it was public: as in `GridSearchCV`, without times.

    best_score_ : float
        For "reference", if it was public: mean score of the best candidate.

    scorer_ : callable
        Scorer of `score`.

    multimetric_ : bool
        False.

    classes_, n_features_in_, feature_names_in_ : ndarray, int, ndarray
        Of the best estimator, where it has them.

    Notes
    -----
    **Guarantee** (:ref:`thm-private-search`). That of the selection object, with its
    assumptions. Objects of other classes, also of subclasses, are refused.

    An open :class:`~skparisk.ledger.PrivacyLedger` is charged as the search goes on. If
    a fit fails, so does the search, and charges stay. Searches in several threads at
    once count each other's releases as well.

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
        selection: str | Selection = "reference",
        scoring: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = 0,
    ) -> None:
        super().__init__(
            estimator, param_grid, scoring=scoring, n_jobs=n_jobs, verbose=verbose
        )
        self.selection = selection
        self.random_state = random_state
        self.noise_random_state = noise_random_state

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a selection also where it is a name.

        Parameters
        ----------
        **params : dict
            As in scikit-learn. ``selection__epsilon`` and the like make an object of a
            name.
        """
        selection = params.get("selection", self.selection)
        if any(name.startswith("selection__") for name in params):
            params = {**params, "selection": _as_selection(selection)}
        return super().set_params(**params)

    @whole_fit
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

        X_reference : array-like or TableReference, default=None
            Public records of shape (n_rows, n_features), in the units that `X` has
            here; a pipeline transforms them as it does `X`. Candidates are scored on
            them (but for "exponential"), and those that sample pairs, and have no
            reference of their own, sample from them. A TableReference has its targets
            with it. For "reference" None stands for the reference of the sampler.

        y_reference : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
            Their targets or labels.

        Raises
        ------
        ValueError
            If a parameter is out of range, a candidate refuses its parameters, or its
            fit fails.

        IncompatibleError
            If a candidate is not private, or has another relation than "replace-one"
            and records are held out; if one of several has pairs that were drawn before
            a choice by "reference"; or if a fit works in other processes.

        BudgetExceededError
            If an open ledger has not enough left.

        Warns
        -----
        PrivacyLeakWarning
            If "reference" has no reference but the training data, parts that are not of
            skparisk are fitted to them, or the noise is seeded; and what the candidates
            warn of.
        """
        selection = self._check_parameters()
        check_consistent_length(X, y)
        if isinstance(X_reference, TableReference):
            X_reference, y_reference = _unpack(X_reference, y_reference, y)
        elif is_reference(X_reference):
            raise ValueError(
                "X_reference must be records or a TableReference in a search, got a "
                f"{type(X_reference).__name__}: give it to the SensitivitySampler of "
                "the estimator, as its reference. Candidates are then scored on "
                "records that are drawn from it."
            )
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
        refuse_private_records([each.estimator for each in candidates], records)
        entropy = check_random_state(self.random_state, "random_state").bytes(16)
        scorer = check_scoring(self.estimator, self.scoring, allow_none=True)
        task = Task(
            candidates,
            records,
            np.random.SeedSequence(int.from_bytes(entropy, "little")),
            estimator=self.estimator,
            scoring=self.scoring,
            n_jobs=self.n_jobs,
            verbose=check_verbose(self.verbose),
            noise_random_state=self.noise_random_state,
        )
        # Their fits are silent, and say it on their certificates.
        leaks_around()
        choice = selection._choose(task)
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
        """Return what `fit` asks for, and what the estimator does."""
        return super().get_metadata_routing().add_self_request(self)

    def _check_parameters(self) -> Selection:
        """Return the selection, with all parameters checked."""
        selection = _as_selection(self.selection)
        selection._check_parameters()
        check_single_scoring(self.scoring)
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        check_random_state(self.random_state, "random_state")
        noise_source(self.noise_random_state)
        return selection

    def _check_records(self, records: Records) -> None:
        """Refuse what no fit would take before anything is released."""
        if records.y is not None:
            hide_values(assert_all_finite, records.y, input_name="y")
        elif get_tags(self.estimator).target_tags.required:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        private = isinstance(self.estimator, PrivateMixin)
        if private and not self.estimator._takes_any_table:
            hide_values(check_array, records.X, dtype=np.float64, input_name="X")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        chosen = self.selection
        free = chosen == "reference" or isinstance(chosen, ReferenceSelection)
        theirs = get_tags(self.estimator)
        noisy = not free and self.noise_random_state is None
        tags.non_deterministic = noisy or theirs.non_deterministic
        tags.target_tags = theirs.target_tags
        return tags


def _unpack(table: TableReference, y_reference: Any, y: Any) -> tuple[Any, Any]:
    """Return the records of a reference, and their targets if there are any of `X`."""
    if y_reference is not None:
        raise ValueError(
            "y_reference must be None if X_reference is a TableReference, which has "
            "its targets with it."
        )
    if table.rows_per_person is not None:
        raise ValueError(
            "X_reference must have no groups in a search, which is about people of one "
            "row each: search on public records alone, and fit what was found."
        )
    if table.sampling != "leave-out":
        raise ValueError(
            "X_reference must have sampling='leave-out' in a search, got "
            f"{table.sampling!r}: give such a table to the SensitivitySampler."
        )
    return table.pool.X, None if y is None else table.pool.y


def _as_selection(selection: Any) -> Selection:
    """Return the selection of a name, or the one that is given.

    Not of another type: it could claim more than it was charged for.
    """
    if isinstance(selection, str) and selection in SELECTIONS:
        return SELECTIONS[selection]()
    if type(selection) not in SELECTIONS.values():
        allowed = ", ".join(
            f"{name!r} or {kind.__name__}(...)" for name, kind in SELECTIONS.items()
        )
        raise ValueError(f"selection must be one of {allowed}; got {selection!r}.")
    return selection
