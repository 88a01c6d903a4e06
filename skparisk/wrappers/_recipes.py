"""What is known of scikit-learn's own estimators, and cannot be found by comparing.

Which numbers say the same with less noise, what keeps them in their range, and how to
align fits that are defined up to sign or order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, pinvh, solve_triangular
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma

from skparisk.queries._estimator import Align
from skparisk.queries._state import Numbers

# Rows of these belong to a component each.
_BY_COMPONENT = ("explained_variance_", "explained_variance_ratio_", "singular_values_")


def match_components(numbers: Numbers, anchor: Numbers) -> Numbers:
    """Return components in the order and with the signs that fit an anchor best.

    For any anchor they are a function of `numbers` alone, the same for a fit and for
    the same fit with other signs or in another order (but for ties).
    """
    if "components_" not in numbers:
        return numbers
    own, wanted = numbers["components_"], anchor["components_"]
    likeness = wanted @ own.T
    _, order = linear_sum_assignment(-np.abs(likeness))
    aligned = {name: numbers[name][order] for name in _BY_COMPONENT if name in numbers}
    signs = np.where(likeness[np.arange(len(order)), order] < 0, -1.0, 1.0)
    return {**numbers, **aligned, "components_": own[order] * signs[:, None]}


Attributes: TypeAlias = dict[str, Any]

# Of the largest: what a number that has to be above 0 becomes at least.
_SMALL = 1e-9


@dataclass(frozen=True)
class Recipe:
    """What is known of a kind of estimator."""

    # The attributes to release in place of those that are found.
    names: Callable[[Any], tuple[str, ...]] | None = None
    # Further attributes, and mended ones where noise took a number out of its range: a
    # function of what was released, which changes nothing where there is no noise.
    complete: Callable[[Any, Numbers], Attributes] | None = None
    # Where fits are defined up to sign or order.
    align: Align | None = None


def find_recipe(estimator: Any) -> Recipe | None:
    """Return the recipe for an estimator of exactly a known class."""
    kind = type(estimator)
    package = ".".join(kind.__module__.split(".")[:2])
    recipe = _RECIPES.get(f"{package}.{kind.__qualname__}")
    known = getattr(sys.modules.get(package), kind.__qualname__, None)
    return recipe if known is kind else None


def complete(estimator: Any, released: Numbers) -> Attributes:
    """Return what follows from released numbers of an estimator, and mended ones."""
    recipe = find_recipe(estimator)
    if recipe is None or recipe.complete is None:
        return {}
    return recipe.complete(estimator, released)


def _complete_gaussian_nb(estimator: Any, released: Numbers) -> Attributes:
    found = _keep_positive("var_")(estimator, released)
    if "class_prior_" in released:
        found["class_prior_"] = _as_shares(released["class_prior_"])
    return found


def _complete_bernoulli_nb(estimator: Any, released: Numbers) -> Attributes:
    if "feature_log_prob_" not in released:
        return {}
    # The logarithm of a probability below 1, of which the complement is taken.
    below = np.minimum(released["feature_log_prob_"], np.log1p(-_SMALL))
    return {"feature_log_prob_": below}


def _complete_min_max_scaler(estimator: Any, released: Numbers) -> Attributes:
    if not {"data_min_", "data_max_"} <= released.keys():
        return {}
    low, high = np.sort([released["data_min_"], released["data_max_"]], axis=0)
    width = high - low
    # As scikit-learn does for a feature that is constant.
    width = np.where(width < 10 * np.finfo(np.float64).eps, 1.0, width)
    least, most = estimator.feature_range
    scale = (most - least) / width
    ends = {"data_min_": low, "data_max_": high}
    return {**ends, "data_range_": width, "scale_": scale, "min_": least - low * scale}


def _complete_mixture(estimator: Any, released: Numbers) -> Attributes:
    found: Attributes = {}
    if "weights_" in released:
        found["weights_"] = _as_shares(released["weights_"])
    if "covariances_" in released:
        kind = estimator.covariance_type
        found |= _mend_covariances(released["covariances_"], kind)
    return found


def _mend_covariances(covariances: NDArray[np.float64], kind: str) -> Attributes:
    """Return covariances that are some, and their precisions, as a mixture has them."""
    if kind in ("diag", "spherical"):
        mended = _positive(covariances)
        root = 1 / np.sqrt(mended)
        return {
            "covariances_": mended,
            "precisions_": root**2,
            "precisions_cholesky_": root,
        }
    matrices = covariances[None] if kind == "tied" else covariances
    eye = np.eye(matrices.shape[1])
    mended = np.array([_as_covariance(matrix) for matrix in matrices])
    factors = [cholesky(matrix, lower=True) for matrix in mended]
    roots = np.array([solve_triangular(f, eye, lower=True).T for f in factors])
    precisions = roots @ roots.transpose(0, 2, 1)
    one = 0 if kind == "tied" else slice(None)
    return {
        "covariances_": mended[one],
        "precisions_": precisions[one],
        "precisions_cholesky_": roots[one],
    }


def _name_bayesian_mixture(estimator: Any) -> tuple[str, ...]:
    names = ("mean_precision_", "means_", "degrees_of_freedom_", "covariances_")
    if isinstance(estimator.weight_concentration_, tuple):  # places of their own
        return names
    return ("weight_concentration_", *names)


def _complete_bayesian_mixture(estimator: Any, released: Numbers) -> Attributes:
    found = _keep_positive("mean_precision_")(estimator, released)
    if "degrees_of_freedom_" in released:
        least = estimator.means_.shape[1] - 1 + _SMALL
        found["degrees_of_freedom_"] = np.maximum(
            released["degrees_of_freedom_"], least
        )
    counts = estimator.weight_concentration_
    if isinstance(counts, tuple):
        ones, others = (_positive(part) for part in counts)
        found["weight_concentration_"] = (ones, others)
        total = ones + others
        left = np.cumprod(np.append(1.0, (others / total)[:-1]))
        weights = ones / total * left
    else:
        weights = found["weight_concentration_"] = _positive(counts)
    found["weights_"] = weights / weights.sum()
    if "covariances_" in released:
        kind = estimator.covariance_type
        found |= _mend_covariances(released["covariances_"], kind)
    return found


def _complete_covariance(estimator: Any, released: Numbers) -> Attributes:
    found = {
        name: _as_covariance(released[name])
        for name in ("covariance_", "precision_")
        if name in released
    }
    if "covariance_" in found and "precision_" not in found:
        found["precision_"] = pinvh(found["covariance_"])
    return found


def _complete_quadratic_discriminants(estimator: Any, released: Numbers) -> Attributes:
    found: Attributes = {"scalings_": [_positive(part) for part in estimator.scalings_]}
    if "priors_" in released:
        found["priors_"] = _as_shares(released["priors_"])
    return found


def _complete_topics(estimator: Any, released: Numbers) -> Attributes:
    if "components_" not in released:
        return {}
    counts = _positive(released["components_"])
    logarithms = digamma(counts) - digamma(counts.sum(axis=1, keepdims=True))
    return {"components_": counts, "exp_dirichlet_component_": np.exp(logarithms)}


def _complete_nonnegative(estimator: Any, released: Numbers) -> Attributes:
    return {name: np.maximum(values, 0.0) for name, values in released.items()}


def _as_covariance(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a positive definite matrix near a matrix: itself, if it is one."""
    symmetric = (matrix + matrix.T) / 2
    size = np.abs(matrix).max(initial=0.0)
    if np.abs(matrix - symmetric).max(initial=0.0) <= _SMALL * size:
        with suppress(LinAlgError):
            cholesky(matrix, lower=True)
            return matrix
    values, vectors = eigh(symmetric)
    floor = _SMALL * np.abs(values).max(initial=0.0) or 1.0
    mended = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray((mended + mended.T) / 2)


def _complete_quantiles(estimator: Any, released: Numbers) -> Attributes:
    if "quantiles_" not in released:
        return {}
    return {"quantiles_": np.sort(released["quantiles_"], axis=0)}


def _complete_spline(estimator: Any, released: Numbers) -> Attributes:
    # In scipy of 2024 and before, the knots have no underscore.
    return {name: np.sort(released[name]) for name in ("_t", "t") if name in released}


def _keep_positive(*names: str) -> Callable[[Any, Numbers], Attributes]:
    def mend(estimator: Any, released: Numbers) -> Attributes:
        return {name: _positive(released[name]) for name in names if name in released}

    return mend


def _positive(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers above 0: those that are not become small against the others."""
    size = np.abs(numbers).max(initial=0.0)
    return np.where(numbers > 0, numbers, _SMALL * size if size else 1.0)


def _as_shares(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers above 0 that sum to 1; such numbers as they are."""
    shares = _positive(numbers)
    return shares / shares.sum() if (shares != numbers).any() else shares


def _names(*names: str) -> Callable[[Any], tuple[str, ...]]:
    return lambda estimator: names


def _of(package: str, recipe: Recipe, names: str) -> dict[str, Recipe]:
    return {f"sklearn.{package}.{name}": recipe for name in names.split()}


# By name: importing the classes would import half of scikit-learn.
_RECIPES: dict[str, Recipe] = {
    **_of("naive_bayes", Recipe(complete=_complete_gaussian_nb), "GaussianNB"),
    **_of("naive_bayes", Recipe(complete=_complete_bernoulli_nb), "BernoulliNB"),
    **_of(
        "decomposition",
        Recipe(complete=_keep_positive("explained_variance_"), align=match_components),
        "IncrementalPCA PCA",
    ),
    **_of("decomposition", Recipe(align=match_components), "TruncatedSVD"),
    **_of(
        "preprocessing",
        Recipe(complete=_keep_positive("scale_")),
        "MaxAbsScaler RobustScaler StandardScaler",
    ),
    **_of(
        "preprocessing",
        Recipe(_names("data_min_", "data_max_"), _complete_min_max_scaler),
        "MinMaxScaler",
    ),
    **_of("preprocessing", Recipe(complete=_complete_quantiles), "QuantileTransformer"),
    # Those inside SplineTransformer.
    "scipy.interpolate.BSpline": Recipe(complete=_complete_spline),
    **_of(
        "decomposition",
        Recipe(_names("components_"), _complete_topics),
        "LatentDirichletAllocation",
    ),
    **_of("decomposition", Recipe(complete=_complete_nonnegative), "MiniBatchNMF NMF"),
    **_of(
        "covariance",
        Recipe(_names("location_", "covariance_"), _complete_covariance),
        "EmpiricalCovariance LedoitWolf MinCovDet OAS ShrunkCovariance",
    ),
    **_of(
        "covariance",
        Recipe(_names("location_", "covariance_", "precision_"), _complete_covariance),
        "GraphicalLasso GraphicalLassoCV",
    ),
    **_of(
        "covariance",
        Recipe(_names("location_", "covariance_", "offset_"), _complete_covariance),
        "EllipticEnvelope",
    ),
    **_of(
        "discriminant_analysis",
        Recipe(complete=_complete_quadratic_discriminants),
        "QuadraticDiscriminantAnalysis",
    ),
    **_of(
        "mixture",
        Recipe(_names("weights_", "means_", "covariances_"), _complete_mixture),
        "GaussianMixture",
    ),
    **_of(
        "mixture",
        Recipe(_name_bayesian_mixture, _complete_bayesian_mixture),
        "BayesianGaussianMixture",
    ),
}
