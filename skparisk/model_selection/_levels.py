"""What an estimator will spend when it is fitted, told from its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import model_selection
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skparisk._private import PrivateMixin
from skparisk.core.calibrate import find_known
from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Certificate, Leak, as_certificate
from skparisk.core.compose import compose_basic
from skparisk.core.release import as_seeded
from skparisk.model_selection._candidates import (
    configure,
    has_pairs,
    own_sampler,
)
from skparisk.preprocessing import RandomizedResponseTransformer
from skparisk.reference import LearnedReference
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
from skparisk.sensitivity._sampler import claim_at_most

_PRIVATE = (PrivateMixin, SensitivitySampler, RandomizedResponseTransformer)
_BY_POSITION = (
    model_selection.GroupKFold,
    model_selection.GroupShuffleSplit,
    model_selection.KFold,
    model_selection.LeaveOneGroupOut,
    model_selection.LeaveOneOut,
    model_selection.LeavePGroupsOut,
    model_selection.LeavePOut,
    model_selection.PredefinedSplit,
    model_selection.RepeatedKFold,
    model_selection.ShuffleSplit,
    model_selection.TimeSeriesSplit,
)
_FITS_EACH_ONCE = (
    ColumnTransformer,
    FeatureUnion,
    Pipeline,
    TransformedTargetRegressor,
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of parameters, and an estimator that has it and is not fitted."""

    params: dict[str, Any]
    estimator: Any

    @property
    def level(self) -> Certificate | None:
        """What one fit spends at most; None if parameters do not tell."""
        return declared_certificate(self.estimator)

    @property
    def has_pairs(self) -> bool:
        """Whether a choice by reference might look at pairs of the last fit."""
        samplers = map(own_sampler, private_parts(self.estimator))
        return any(
            has_pairs(sampler)
            or getattr(sampler.reference, "sampling", None) == "split"
            for sampler in samplers
            if sampler is not None
        )

    @property
    def learns_more(self) -> bool:
        """Whether a fit may hold something of the data that has no noise."""
        return any(map(_may_learn, _parts(self.estimator).values()))


def search_certificate(search: Any) -> Certificate:
    """Count the releases of a search of scikit-learn around private estimators.

    Each candidate was fitted once for each split, and the best once more. The scores
    and the choice have no noise, so there is no guarantee, whatever the models spent:
    choose with :class:`PrivateGridSearchCV`.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV or alike
        Fitted, around a private estimator or a pipeline with one.

    Returns
    -------
    guarantee : Certificate
        The sum of all levels, deltas and risks, as they were asked for; always
        ``void``, and with a leak if parts that are not of skparisk were fitted too.

    Raises
    ------
    ValueError
        If it is no search, has a certificate of its own, or its `estimator` asks for
        another level by now than when it was fitted, as `best_estimator_` tells.

    IncompatibleError
        If a candidate has no private estimator, or something around it that may fit it
        more often than once, such as an ensemble or another search.

    Notes
    -----
    **Guarantee**. None. The count is basic composition of ``n_splits_`` fits of each
    candidate and the last fit, at the levels of their parameters. An open
    :class:`~skparisk.ledger.PrivacyLedger` counts the actual releases, with
    ``n_jobs=None``.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> from skparisk.model_selection import search_certificate
    >>> ridge = PrivateRidge(epsilon=0.5, sensitivity=1.0)
    >>> search = GridSearchCV(ridge, {"alpha": [0.1, 1.0]}, cv=5)
    >>> spent = search_certificate(search.fit(*load_census(return_X_y=True)))
    >>> spent.epsilon, spent.private  # 2 candidates, 5 folds each, and the best
    (5.5, False)
    """
    if hasattr(search, "certificate_"):
        raise ValueError(
            f"search must be one of scikit-learn's; {type(search).__name__} has its "
            "own certificate_."
        )
    for name in ("estimator", "refit"):
        if not hasattr(search, name):
            raise ValueError(f"search must be a fitted search, got {search!r}.")
    check_is_fitted(search, ("cv_results_", "n_splits_"))
    candidates = [
        Candidate(params, configure(search.estimator, params))
        for params in search.cv_results_["params"]
    ]
    levels = [level for candidate in candidates if (level := candidate.level)]
    if len(levels) < len(candidates):
        raise IncompatibleError(
            "search must wrap a private estimator, or a pipeline that fits one once, "
            f"got {search.estimator!r}; a PrivacyLedger that is open during the fit "
            "counts any estimator."
        )
    spent = levels * search.n_splits_
    if search.refit:
        best = levels[search.best_index_]
        if declared_certificate(search.best_estimator_) != best:
            raise ValueError(
                "search must have the estimator that it was fitted with: the levels "
                "its parameters ask for are not those of best_estimator_."
            )
        spent.append(best)
    total = compose_basic(spent)
    leaks = [Leak.NOISELESS_CHOICE]
    if may_split_by_values(search.cv, search.estimator):
        leaks.append(Leak.SPLITS_BY_VALUES)
    if any(candidate.learns_more for candidate in candidates):
        leaks.append(Leak.LEARNS_MORE)
    return total.weaken(leaks=leaks)


def may_split_by_values(cv: Any, estimator: Any) -> bool:
    """Tell if `cv` may look at values, as scikit-learn understands it.

    Splits that are given as lists of indices are taken to be fixed; groups to be those
    of the owners of records. A splitter that is not known may do anything.
    """
    if cv is None or isinstance(cv, Integral):
        return is_classifier(estimator)
    return hasattr(cv, "split") and type(cv) not in _BY_POSITION


def private_parts(estimator: Any) -> list[Any]:
    """Return what in an estimator releases something with noise when it is fitted."""
    return [part for part in _parts(estimator).values() if isinstance(part, _PRIVATE)]


def declared_certificate(estimator: Any) -> Certificate | None:
    """Return what one fit spends at most; None if parameters do not tell."""
    parts = _parts(estimator)
    private = [name for name, part in parts.items() if isinstance(part, _PRIVATE)]
    # Anything else around them may fit them more often than once.
    unclear = any(
        _is_below(name, other) and not isinstance(part, _FITS_EACH_ONCE)
        for name in private
        for other, part in parts.items()
    )
    # The number of records to learn from depends on that of all records.
    samplers = [_source(parts[name]) for name in private]
    unclear |= any(
        isinstance(sampler.reference, LearnedReference)
        for sampler in samplers
        if sampler is not None
    )
    if unclear or not private:
        return None
    return compose_basic([_declared(parts[name]) for name in private])


def _parts(estimator: Any) -> dict[str, Any]:
    """Return an estimator and those in it, but not those in private or frozen ones."""
    nested = {
        name: value
        for name, value in estimator.get_params(deep=True).items()
        if hasattr(value, "fit")
    }
    nested[""] = estimator
    closed = [
        name
        for name, value in nested.items()
        if isinstance(value, (*_PRIVATE, FrozenEstimator))
    ]
    return {
        name: value
        for name, value in nested.items()
        if not isinstance(value, FrozenEstimator)
        and not any(_is_below(name, other) for other in closed)
    }


def _is_below(name: str, other: str) -> bool:
    return name.startswith(f"{other}__") if other else bool(name)


def _may_learn(part: Any) -> bool:
    """Tell if a part may keep something of what it is fitted to, without noise.

    Not what has noise of its own, what puts parts together, and transformers that have
    nothing to learn. Functions of one's own may look at all records at once.
    """
    if isinstance(part, _PRIVATE) or type(part).__module__.startswith("skparisk."):
        return False
    if isinstance(part, FunctionTransformer):
        return not _is_elementwise(part.func)
    if type(part) is TransformedTargetRegressor:
        return part.regressor is None or not _is_elementwise(part.func)
    if type(part) is Pipeline:
        return part.memory is not None
    if type(part) is ColumnTransformer:
        return any(
            callable(columns) and not isinstance(columns, make_column_selector)
            for _, _, columns in part.transformers
        )
    if type(part) is FeatureUnion:
        return False
    tags = get_tags(part) if isinstance(part, BaseEstimator) else None
    return tags is None or tags.requires_fit or tags.transformer_tags is None


def _is_elementwise(func: Any) -> bool:
    return func is None or (isinstance(func, np.ufunc) and func.signature is None)


def _source(part: Any) -> SensitivitySampler | None:
    """Return the sampler of a private estimator, if any."""
    return part if isinstance(part, SensitivitySampler) else own_sampler(part)


def _declared(part: Any) -> Certificate:
    """Return what a private estimator will spend at most."""
    source = _source(part)
    known = getattr(part, "sensitivity", None) if source is None else source
    if isinstance(known, Real):
        known = KnownSensitivity(float(known))
    proven = isinstance(known, str) or getattr(part, "_proven_by_default", False)
    if isinstance(part, RandomizedResponseTransformer) or proven:
        claim = as_certificate(part.epsilon).weaken(relation="replace-one")
    elif isinstance(known, KnownSensitivity):
        sensitivity, target, law = known._check(part.epsilon, part.gamma)
        claim = find_known(sensitivity, target, law=law)[1]
    else:
        sampler = SensitivitySampler() if source is None else source
        claim = claim_at_most(sampler, part.epsilon, part.gamma)
    claim = as_seeded(claim, part.noise_random_state)
    return claim if source is None else as_seeded(claim, source.noise_random_state)
