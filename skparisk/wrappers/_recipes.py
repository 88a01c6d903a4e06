"""What is released of scikit-learn's own estimators, and what follows from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._estimator import Align
from skparisk.wrappers._alignment import match_centers, match_components

__all__ = ["Recipe", "find_recipe"]

Attributes: TypeAlias = dict[str, Any]


def _complete_nothing(estimator: Any, released: Attributes) -> Attributes:
    return {}


@dataclass(frozen=True)
class Recipe:
    """How a kind of estimator is released."""

    # The attributes to release.
    names: Callable[[Any], tuple[str, ...]]
    # Further attributes, and mended ones where noise took a number out of its range: a
    # function of what was released, which changes nothing where there is no noise.
    complete: Callable[[Any, Attributes], Attributes] = _complete_nothing
    # Where fits are defined up to sign or order.
    align: Align | None = None
    # What methods need that is not released by default, as only they need it.
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def find_recipe(estimator: Any) -> Recipe | None:
    """Return the recipe for an estimator of exactly a known class."""
    kind = type(estimator)
    package = ".".join(kind.__module__.split(".")[:2])
    recipe = _RECIPES.get(f"{package}.{kind.__qualname__}")
    known = getattr(sys.modules.get(package), kind.__qualname__, None)
    return recipe if known is kind else None


def _linear_names(estimator: Any) -> tuple[str, ...]:
    return ("coef_", "intercept_") if estimator.fit_intercept else ("coef_",)


def _complete_linear(estimator: Any, released: Attributes) -> Attributes:
    return {} if estimator.fit_intercept else {"intercept_": 0.0}


def _complete_linear_classifier(estimator: Any, released: Attributes) -> Attributes:
    if estimator.fit_intercept or "coef_" not in released:
        return {}
    return {"intercept_": np.zeros(len(released["coef_"]))}


def _complete_discriminant(estimator: Any, released: Attributes) -> Attributes:
    if "coef_" not in released:
        return {}
    n_rows, n_features = released["coef_"].shape  # one row for two classes
    most = min(max(n_rows - 1, 1), n_features)
    width = most if estimator.n_components is None else estimator.n_components
    return {"_max_components": width, "_n_features_out": width}


def _gaussian_nb_names(estimator: Any) -> tuple[str, ...]:
    names = ("theta_", "var_")
    return names if estimator.priors is not None else (*names, "class_prior_")


def _complete_gaussian_nb(estimator: Any, released: Attributes) -> Attributes:
    found: Attributes = {}
    if "var_" in released:
        found["var_"] = _positive(released["var_"])
    if estimator.priors is not None:
        found["class_prior_"] = np.asarray(estimator.priors, dtype=np.float64)
    elif "class_prior_" in released:
        prior = _positive(released["class_prior_"])
        mended = (prior != released["class_prior_"]).any()
        found["class_prior_"] = prior / prior.sum() if mended else prior
    return found


def _counting_nb_names(estimator: Any) -> tuple[str, ...]:
    return ("feature_log_prob_", "class_log_prior_")


def _complete_bernoulli_nb(estimator: Any, released: Attributes) -> Attributes:
    if "feature_log_prob_" not in released:
        return {}
    # The logarithm of a probability below 1, of which the complement is taken.
    below = np.minimum(released["feature_log_prob_"], np.log1p(-1e-9))
    return {"feature_log_prob_": below}


def _pca_names(estimator: Any) -> tuple[str, ...]:
    names = ("mean_", "components_")
    return (*names, "explained_variance_") if estimator.whiten else names


def _complete_pca(estimator: Any, released: Attributes) -> Attributes:
    found = _complete_components(estimator, released)
    if "explained_variance_" in released:
        found["explained_variance_"] = _positive(released["explained_variance_"])
    elif found and not estimator.whiten:
        # scikit-learn 1.6 asks for it in `transform`, and does nothing with it.
        found["explained_variance_"] = np.full(found["n_components_"], np.nan)
    return found


def _complete_components(estimator: Any, released: Attributes) -> Attributes:
    if "components_" not in released:
        return {}
    return {"n_components_": len(released["components_"])}


def _standard_scaler_names(estimator: Any) -> tuple[str, ...]:
    names = (("mean_", estimator.with_mean), ("scale_", estimator.with_std))
    return tuple(name for name, wanted in names if wanted)


def _complete_standard_scaler(estimator: Any, released: Attributes) -> Attributes:
    found: Attributes = {} if estimator.with_std else {"scale_": None}
    if "scale_" in released:
        found["scale_"] = _positive(released["scale_"])
    return found


def _complete_min_max_scaler(estimator: Any, released: Attributes) -> Attributes:
    if not {"data_min_", "data_max_"} <= released.keys():
        return {}
    low, high = released["data_min_"], released["data_max_"]
    width = high - low
    # As scikit-learn does for a feature that is constant.
    width = np.where(width < 10 * np.finfo(np.float64).eps, 1.0, width)
    least, most = estimator.feature_range
    scale = (most - least) / width
    return {"data_range_": width, "scale_": scale, "min_": least - low * scale}


def _complete_k_means(estimator: Any, released: Attributes) -> Attributes:
    found: Attributes = {"_n_threads": 1}  # what `predict` asks for; no result of a fit
    if "cluster_centers_" in released:
        found["_n_features_out"] = len(released["cluster_centers_"])
    return found


def _positive(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers above 0: those that are not become small against the others."""
    size = np.abs(numbers).max(initial=0.0)
    return np.where(numbers > 0, numbers, 1e-9 * size if size else 1.0)


def _names(*names: str) -> Callable[[Any], tuple[str, ...]]:
    return lambda estimator: names


_REGRESSOR = Recipe(_linear_names, _complete_linear)
_CLASSIFIER = Recipe(_linear_names, _complete_linear_classifier)


def _of(package: str, recipe: Recipe, names: str) -> dict[str, Recipe]:
    return {f"sklearn.{package}.{name}": recipe for name in names.split()}


# By name: importing the classes would import half of scikit-learn.
_RECIPES: dict[str, Recipe] = {
    **_of(
        "linear_model",
        _REGRESSOR,
        "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars "
        "LarsCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression "
        "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV Ridge RidgeCV "
        "SGDRegressor TheilSenRegressor",
    ),
    **_of("svm", _REGRESSOR, "LinearSVR"),
    **_of(
        "linear_model",
        _CLASSIFIER,
        "LogisticRegression LogisticRegressionCV Perceptron SGDClassifier",
    ),
    **_of("svm", _CLASSIFIER, "LinearSVC"),
    **_of(
        "discriminant_analysis",
        Recipe(
            _names("coef_", "intercept_"),
            _complete_discriminant,
            needs=dict.fromkeys(("transform", "fit_transform"), ("scalings_",)),
        ),
        "LinearDiscriminantAnalysis",
    ),
    **_of(
        "naive_bayes", Recipe(_gaussian_nb_names, _complete_gaussian_nb), "GaussianNB"
    ),
    **_of(
        "naive_bayes", Recipe(_counting_nb_names, _complete_bernoulli_nb), "BernoulliNB"
    ),
    **_of("naive_bayes", Recipe(_counting_nb_names), "ComplementNB MultinomialNB"),
    **_of(
        "decomposition",
        Recipe(
            _pca_names,
            _complete_pca,
            match_components,
            dict.fromkeys(
                ("score", "score_samples"), ("explained_variance_", "noise_variance_")
            ),
        ),
        "PCA",
    ),
    **_of(
        "decomposition",
        Recipe(_names("components_"), _complete_components, match_components),
        "TruncatedSVD",
    ),
    **_of(
        "preprocessing",
        Recipe(_standard_scaler_names, _complete_standard_scaler),
        "StandardScaler",
    ),
    **_of(
        "preprocessing",
        Recipe(_names("data_min_", "data_max_"), _complete_min_max_scaler),
        "MinMaxScaler",
    ),
    **_of(
        "cluster",
        Recipe(_names("cluster_centers_"), _complete_k_means, match_centers),
        "KMeans MiniBatchKMeans",
    ),
}
