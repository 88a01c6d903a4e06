"""What a private estimator accepts: estimators, targets, and arguments of `fit`."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from skparisk.core.checks import IncompatibleError
from skparisk.queries._estimator import repeatable, takes_targets

SEVERAL_LABELS = (
    "{} is given several labels of each record, but a private classifier has one. "
    "Fit a PrivateEstimator to each of the labels: each is a release of its own."
)


def refuse_fit_params(fit_params: dict[str, Any]) -> None:
    """Refuse what else a fit of scikit-learn may be given, such as weights."""
    given = [name for name, value in fit_params.items() if value is not None]
    if given:
        raise ValueError(
            f"{' and '.join(given)} must not be given to fit: what else the fit of a "
            "record depends on, such as its weight, would have to be known of sampled "
            "neighbors as well. Parameters of the estimator, such as class_weight, can "
            "be set."
        )


def check_estimator(estimator: Any) -> Any:
    """Return a clone of an estimator whose fits can be repeated."""
    if isinstance(estimator, type) or not hasattr(estimator, "__sklearn_tags__"):
        raise ValueError(
            f"estimator must be an instance of a scikit-learn estimator, got "
            f"{estimator!r}."
        )
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            "estimator must be one that `fit` can fit, but a FrozenEstimator learns "
            "nothing, so there is nothing to release. Wrap the estimator inside it, or "
            "use it as it is if it was fitted on public records."
        )
    if hasattr(estimator, "get_support"):
        raise IncompatibleError(
            f"{type(estimator).__name__} chooses columns, and noise cannot be added to "
            "a choice. Let it be a step of a Pipeline before a model: there it is "
            "fitted on public records."
        )
    try:
        cloned = repeatable(estimator)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"estimator must be one that can be cloned; cloning "
            f"{type(estimator).__name__} failed: {error}"
        ) from error
    _check_records(cloned)
    return cloned


def _check_records(estimator: Any) -> None:
    """Refuse an estimator that is not fitted to the rows of a table."""
    kind, tags = type(estimator).__name__, get_tags(estimator)
    inputs, targets = tags.input_tags, tags.target_tags
    if inputs.pairwise:
        raise IncompatibleError(
            f"{kind} is fitted to numbers of pairs of records, such as a kernel or "
            "distances. A record changes a row and a column of these, so that no "
            "neighboring database can be sampled: let the estimator compute them from "
            "records, where it can."
        )
    labels = targets.one_d_labels or targets.two_d_labels
    if labels and not inputs.two_d_array:  # some say what their targets are like
        raise IncompatibleError(
            f"{kind} is fitted to labels, and not to records. Classes are public: fit "
            "it to the public ones, and use it as it is."
        )
    if tags.estimator_type == "classifier" and not targets.single_output:
        raise IncompatibleError(SEVERAL_LABELS.format(kind))
    if (inputs.dict or inputs.three_d_array) and not inputs.two_d_array:
        raise IncompatibleError(
            f"{kind} takes {'mappings' if inputs.dict else 'images'} as records, but "
            "private records are the rows of a table. Make one of them beforehand, in "
            "a way that is fixed or was learned from public records."
        )
    target = inspect.signature(estimator.fit).parameters.get("y")
    needed = target is not None and target.default is target.empty
    if needed and not takes_targets(estimator):
        raise IncompatibleError(
            f"{kind} is fitted to targets, but does not say so in its tags. Set "
            "target_tags.required in __sklearn_tags__ of a subclass."
        )
