"""What is known of scikit-learn's own estimators, and cannot be found by comparing.

Which numbers say the same with less noise, what keeps them in their range, and how to
align fits that are defined up to sign or order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, pinvh, solve_triangular
from scipy.optimize import linear_sum_assignment

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

    # The attributes to release in place of those that are found. None of them: noise
    # would leave it without an answer.
    names: tuple[str, ...] | None = None
    # What brings numbers back into their range that noise took out of it, by name: it
    # changes nothing where there is no noise.
    mend: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    # Further attributes, of a fit with mended numbers, by which of them were released.
    complete: Callable[[Any, Numbers], Attributes] | None = None
    # Where fits are defined up to sign or order.
    align: Align | None = None


def find_recipe(estimator: Any) -> Recipe | None:
    """Return the recipe for an estimator of exactly a known class."""
    kind = type(estimator)
    package = ".".join(kind.__module__.split(".")[:2])
    theirs = package.startswith(("sklearn.", "scipy."))
    known = getattr(sys.modules.get(package), kind.__qualname__, None)
    return _RECIPES.get(kind.__qualname__) if theirs and known is kind else None


def complete(estimator: Any, released: Numbers) -> Attributes:
    """Return what follows from released numbers of an estimator, and mended ones."""
    recipe = find_recipe(estimator)
    if recipe is None:
        return {}
    mended: Attributes = {
        name: f(released[name]) for name, f in recipe.mend.items() if name in released
    }
    if recipe.complete is not None:
        mended |= recipe.complete(estimator, {**released, **mended})
    return mended


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
    """Return covariances that are some, and their precisions."""
    if "covariances_" not in released:
        return {}
    covariances, kind = released["covariances_"], estimator.covariance_type
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


def _complete_covariance(estimator: Any, released: Numbers) -> Attributes:
    if "covariance_" not in released:
        return {}
    mended = _as_covariance(released["covariance_"])
    return {"covariance_": mended, "precision_": pinvh(mended)}


def _complete_quadratic_discriminants(estimator: Any, released: Numbers) -> Attributes:
    return {"scalings_": [_positive(part) for part in estimator.scalings_]}


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


def _nonnegative(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(numbers, 0.0)


def _below_one(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logarithms of probabilities of which the complement is taken."""
    return np.minimum(logarithms, np.log1p(-_SMALL))


def _in_order(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sort(numbers, axis=0)


def _positive(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers above 0: those that are not become small against the others."""
    size = np.abs(numbers).max(initial=0.0)
    return np.where(numbers > 0, numbers, _SMALL * size if size else 1.0)


def _as_shares(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers above 0 that sum to 1; such numbers as they are."""
    shares = _positive(numbers)
    return shares / shares.sum() if (shares != numbers).any() else shares


_PRINCIPAL = Recipe(mend={"explained_variance_": _positive}, align=match_components)
_COVARIANCES = "EmpiricalCovariance", "LedoitWolf", "MinCovDet", "OAS"
_SCALERS = "MaxAbsScaler", "RobustScaler", "StandardScaler"

# By name: importing the classes would import half of scikit-learn.
_RECIPES: dict[str, Recipe] = {
    "GaussianNB": Recipe(mend={"var_": _positive, "class_prior_": _as_shares}),
    "BernoulliNB": Recipe(mend={"feature_log_prob_": _below_one}),
    **dict.fromkeys(("IncrementalPCA", "PCA"), _PRINCIPAL),
    "TruncatedSVD": Recipe(align=match_components),
    "LatentDirichletAllocation": Recipe(mend={"exp_dirichlet_component_": _positive}),
    **dict.fromkeys(
        ("MiniBatchNMF", "NMF"), Recipe(mend={"components_": _nonnegative})
    ),
    **dict.fromkeys(_SCALERS, Recipe(mend={"scale_": _positive})),
    "MinMaxScaler": Recipe(
        ("data_min_", "data_max_"), complete=_complete_min_max_scaler
    ),
    "QuantileTransformer": Recipe(mend={"quantiles_": _in_order}),
    # Those inside SplineTransformer; in scipy of 2024 and before, of other names.
    "BSpline": Recipe(mend={"_t": _in_order, "t": _in_order}),
    **dict.fromkeys(
        (*_COVARIANCES, "ShrunkCovariance"),
        Recipe(("location_", "covariance_"), complete=_complete_covariance),
    ),
    "EllipticEnvelope": Recipe(
        ("location_", "covariance_", "offset_"), complete=_complete_covariance
    ),
    **dict.fromkeys(
        ("GraphicalLasso", "GraphicalLassoCV"),
        Recipe(mend={"precision_": _as_covariance}),
    ),
    "QuadraticDiscriminantAnalysis": Recipe(
        mend={"priors_": _as_shares}, complete=_complete_quadratic_discriminants
    ),
    "GaussianMixture": Recipe(
        ("weights_", "means_", "covariances_"),
        {"weights_": _as_shares},
        _complete_mixture,
    ),
    "BayesianGaussianMixture": Recipe(names=()),
}
