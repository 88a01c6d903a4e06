"""Fits that serve released numbers: which numbers, found by comparing, and where.

Fits to several public databases tell what was learned. What answers depend on is found
by changing it, and that it is enough is shown by putting it into another fit, which
then has to answer as the one that it was taken from.

Tables hold the rest, of scikit-learn's own classes: numbers that say the same with less
noise, numbers that have a range, and fits that are defined up to sign or order.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, pinvh, solve_triangular
from scipy.optimize import linear_sum_assignment
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced
from skparisk.queries import PredictionReader, Reader
from skparisk.queries._base import same_but_for
from skparisk.queries._estimator import Align, has_parts
from skparisk.queries._state import (
    Numbers,
    fill,
    find_numbers,
    find_places,
    parent_of,
    read,
)

_NAMES = ("classes_", "feature_names_in_", "n_features_in_")

Answer: TypeAlias = NDArray[Any] | Exception

# What answers about records, and so can be compared.
METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
    "score",
    "inverse_transform",
    "sample",
)
_SAMPLED = 5
# Of the largest number: what sums in another order, and a mended number, may differ.
_SAME = 1e-9
_TRIES = 5
_SUPERVISED = ("classifier", "regressor")
# What a linear model learns, also where it is zero for all databases that were seen.
_ALWAYS = ("coef_", "intercept_")


def main_methods(fitted: Any) -> tuple[str, ...]:
    """Return the methods of a fitted estimator that a release has to serve."""
    kind = get_tags(fitted).estimator_type
    wanted: tuple[str, ...] = ("predict", "predict_proba", "score_samples")
    if kind in _SUPERVISED:
        wanted = ("predict", "predict_proba", "decision_function")
    elif kind == "outlier_detector":
        wanted = ("predict", "decision_function", "score_samples")
    elif kind == "clusterer" and hasattr(fitted, "predict"):
        wanted = ("predict",)
    elif hasattr(fitted, "transform"):
        wanted = ("transform",)
    found = tuple(name for name in wanted if hasattr(fitted, name))
    return found or (("score",) if hasattr(fitted, "score") else ())


def find_released(
    fits: Sequence[Any], points: Any, methods: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the places of numbers that methods may need of a fit to other records."""
    first, *others = [find_numbers(fitted) for fitted in fits]
    learned = [
        place
        for place, values in first.items()
        if all(place in of and of[place].shape == values.shape for of in others)
        and _is_learned(fits[0], place, [values, *(of[place] for of in others)])
    ]
    changed = copy.deepcopy(fits[-1])
    expected = _answers(changed, points, methods)
    rng = np.random.default_rng(0)

    def needed(places: list[str]) -> list[str]:
        """Return those of some places that change an answer, by halves."""
        for attempt in range(_TRIES):
            far = 4.0**attempt  # labels change only at some distance
            moved = {name: _moved(others[-1][name], far, rng) for name in places}
            fill(changed, moved)
            same = _agree(_answers(changed, points, methods), expected)
            fill(changed, {name: others[-1][name] for name in places})
            if not same:
                break
        else:
            return []
        if len(places) == 1:
            return places
        half = len(places) // 2
        return needed(places[:half]) + needed(places[half:])

    places: dict[str, None] = {}
    for place in needed(learned) if learned else ():
        parent = parent_of(place)
        instead = _INSTEAD.get(known_class(_at(fits[0], parent)))
        wanted = [place]
        if instead is not None:
            wanted = [f"{parent}.{name}".removeprefix(".") for name in instead]
        places |= dict.fromkeys(wanted)
    return tuple(places)


def proven(
    fits: Sequence[Any],
    points: Any,
    places: Sequence[str],
    methods: Iterable[str] = METHODS,
) -> tuple[str, ...]:
    """Return the methods that need nothing but the numbers at these places.

    The first fit, with the numbers of each other one, answers as that other one.
    """
    found = [name for name in methods if hasattr(fits[0], name)]
    known = find_numbers(fits[0])
    for fitted in fits[1:]:
        numbers = find_numbers(fitted)
        moved = copy.deepcopy(fits[0])
        if not all(place in numbers and place in known for place in places):
            return ()
        put(moved, {place: numbers[place] for place in places})
        found = [
            name
            for name in found
            if _agree(
                _answers(moved, points, (name,)), _answers(fitted, points, (name,))
            )
        ]
    return tuple(found)


def answer_alike(one: Any, other: Any, points: Any, methods: tuple[str, ...]) -> bool:
    """Tell if two fits answer alike about the same records."""
    return _agree(_answers(one, points, methods), _answers(other, points, methods))


def put(fitted: Any, numbers: Numbers) -> None:
    """Put numbers into a fitted estimator, with what follows from them."""
    fill(fitted, numbers)
    for parent in dict.fromkeys(map(parent_of, numbers)):
        holder = _at(fitted, parent)
        own = {
            place.rpartition(".")[2]: values
            for place, values in numbers.items()
            if parent_of(place) == parent
        }
        for name, value in complete(holder, own).items():
            setattr(holder, name, value)


def _at(fitted: Any, place: str) -> Any:
    return read(fitted, place) if place else fitted


def _is_learned(fitted: Any, place: str, values: Sequence[NDArray[np.float64]]) -> bool:
    if any(not np.array_equal(values[0], v, equal_nan=True) for v in values[1:]):
        return True
    name = place.rpartition(".")[2]
    if name not in _ALWAYS or not values[0].ndim:
        return False
    holder = _at(fitted, parent_of(place))
    return name == "coef_" or bool(getattr(holder, "fit_intercept", True))


def _moved(
    values: NDArray[np.float64], far: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return other numbers, of about the same size unless they are moved far."""
    size = np.abs(values).max(initial=0.0, where=np.isfinite(values)) or 1.0
    factors = 1 + 0.5 * rng.uniform(-1, 1, values.shape)
    further = 0.5 * far * size * rng.uniform(-1, 1, values.shape)
    return np.asarray(values * factors + further)


def _answers(fitted: Any, points: Any, methods: Iterable[str]) -> list[Answer]:
    found: list[Answer] = []
    for name in methods:
        try:
            with np.errstate(all="ignore"), silenced():
                found.append(_as_array(_ask(fitted, name, copy.deepcopy(points))))
        except Exception as error:  # numbers that were moved may make no sense to it
            found.append(error)
    return found


def _ask(fitted: Any, method: str, points: Any) -> Any:
    if method == "sample":
        return fitted.sample(_SAMPLED)
    if method == "score" and get_tags(fitted).estimator_type in _SUPERVISED:
        return fitted.predict(points)  # is all that it depends on
    if method == "inverse_transform":
        points = fitted.transform(points)
    return getattr(fitted, method)(points)


def _as_array(answer: Any) -> NDArray[Any]:
    if hasattr(answer, "tocsr"):  # of as many columns as there are hashes, maybe
        rows = answer.tocsr()
        rows.sort_indices()
        return np.concatenate([rows.shape, rows.indptr, rows.indices, rows.data])
    if isinstance(answer, list | tuple):  # an array for each target
        return np.concatenate([np.ravel(_as_array(part)) for part in answer])
    return np.asarray(answer)


def _agree(answers: Sequence[Answer], expected: Sequence[Answer]) -> bool:
    return all(_are_same(*pair) for pair in zip(answers, expected, strict=True))


def _are_same(one: Answer, other: Answer) -> bool:
    if isinstance(one, Exception) or isinstance(other, Exception):
        return False
    if one.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    return same_but_for(_SAME, one, other)


# What is known of scikit-learn's own classes

Attributes: TypeAlias = dict[str, Any]

# Of the largest: what a number that has to be above 0 becomes at least.
_SMALL = 1e-9
_ALIGNED = ("IncrementalPCA", "PCA", "TruncatedSVD")
# Rows of these belong to a component each.
_COMPONENTS = "components_"
_BY_COMPONENT = ("explained_variance_", "explained_variance_ratio_", "singular_values_")


def match_components(numbers: Numbers, anchor: Numbers) -> Numbers:
    """Return components in the order and with the signs that fit an anchor best.

    For any anchor they are a function of `numbers` alone, the same for a fit and for
    the same fit with other signs or in another order (but for ties).
    """
    last = [place for place in numbers if place.rpartition(".")[2] == _COMPONENTS]
    if not last:
        return numbers
    place = last[-1]  # of the last step of a Pipeline
    own, wanted = numbers[place], anchor[place]
    likeness = wanted @ own.T
    _, order = linear_sum_assignment(-np.abs(likeness))
    others = [place.removesuffix(_COMPONENTS) + name for name in _BY_COMPONENT]
    aligned = {name: numbers[name][order] for name in others if name in numbers}
    signs = np.where(likeness[np.arange(len(order)), order] < 0, -1.0, 1.0)
    return {**numbers, **aligned, place: own[order] * signs[:, None]}


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


_MENDS: dict[str, Callable[[Any], Any]] = {
    "class_prior_": _as_shares,
    "exp_dirichlet_component_": _positive,
    "explained_variance_": _positive,
    "precision_": _as_covariance,
    "priors_": _as_shares,
    "quantiles_": _in_order,
    "scale_": _positive,
    "var_": _positive,
    "weights_": _as_shares,
    # Inside SplineTransformer; _t in scipy of 2024 and before.
    "BSpline.t": _in_order,
    "BSpline._t": _in_order,
    # Logarithms of probabilities of which the complement is taken.
    "BernoulliNB.feature_log_prob_": lambda x: np.minimum(x, np.log1p(-_SMALL)),
    "MiniBatchNMF.components_": _nonnegative,
    "NMF.components_": _nonnegative,
}
_COVARIANCES = (
    "EllipticEnvelope",
    "EmpiricalCovariance",
    "LedoitWolf",
    "MinCovDet",
    "OAS",
    "ShrunkCovariance",
)
# The attributes to release in place of those that are found. None of them: noise would
# leave the estimator without an answer.
_INSTEAD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_COVARIANCES, ("location_", "covariance_")),
    "EllipticEnvelope": ("location_", "covariance_", "offset_"),
    "GaussianMixture": ("weights_", "means_", "covariances_"),
    "BayesianGaussianMixture": (),
}
# Further attributes, by which of them were released.
_FURTHER: dict[str, Callable[[Any, Numbers], Attributes]] = {
    **dict.fromkeys(_COVARIANCES, _complete_covariance),
    "GaussianMixture": _complete_mixture,
    "QuadraticDiscriminantAnalysis": lambda fitted, _: {
        "scalings_": [_positive(part) for part in fitted.scalings_]
    },
}


def known_class(estimator: Any) -> str:
    """Return the name of a class of scikit-learn or scipy, without an import; or ""."""
    kind = type(estimator)
    package = ".".join(kind.__module__.split(".")[:2])
    theirs = package.startswith(("sklearn.", "scipy."))
    known = getattr(sys.modules.get(package), kind.__qualname__, None)
    return kind.__qualname__ if theirs and known is kind else ""


def find_align(estimator: Any) -> Align | None:
    """Return the function that aligns fits, if they are defined up to sign or order."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return match_components if known_class(estimator) in _ALIGNED else None


def complete(estimator: Any, released: Numbers) -> Attributes:
    """Return the attributes that follow from released numbers of an estimator.

    Those in their range stay as they are.
    """
    if not (kind := known_class(estimator)):
        return {}
    mends = {name: _MENDS.get(f"{kind}.{name}", _MENDS.get(name)) for name in released}
    mended = {name: mend(released[name]) for name, mend in mends.items() if mend}
    if kind in _FURTHER:
        mended |= _FURTHER[kind](estimator, {**released, **mended})
    return mended


# Structure, which is no array of numbers


def structured_parts(fitted: Any) -> list[Any]:
    """Return the parts inside of an estimator that learned structure."""
    inside = [part for _, part in find_places(fitted) if hasattr(part, "get_params")]
    return [part for part in inside if learns_structure(part)]


def learns_structure(fitted: Any) -> bool:
    """Tell if the estimator itself learned words, ragged arrays, or chosen columns."""
    if isinstance(fitted, FrozenEstimator):
        return False
    if hasattr(fitted, "get_support") or hasattr(fitted, "component_indices_"):
        return True
    if getattr(fitted, "indicator_", None) is not None:
        return True
    if has_parts(fitted):
        return False
    return any(map(_is_structure, _state(fitted).values()))


def _state(fitted: Any) -> dict[str, Any]:
    """Return what a fit has besides parameters and the names of its columns."""
    others = {*_NAMES, *fitted.get_params(deep=False)}
    return {
        name: value
        for name, value in vars(fitted).items()
        if name.endswith("_") and name not in others
    }


def _is_structure(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "OUS"
    if isinstance(value, dict):
        return any(isinstance(key, str) for key in value)
    ragged = isinstance(value, list | tuple)
    return ragged and any(isinstance(part, np.ndarray | list) for part in value)


def learned_numbers(step: Any) -> bool:
    """Tell if a fit has more than counts, such as that of columns."""
    return has_parts(step) or any(
        name[0] != "_" and not isinstance(value, int | str | None)
        for name, value in _state(step).items()
    )


# The fit that serves

_AT_POINTS = "release its {} at public points, with release={!r} and X_public=..."


@dataclass(frozen=True, eq=False)
class Template:
    """A fit to public or made-up records, into which released numbers are put."""

    # Without what has an entry for each record; made-up numbers are NaN.
    fitted: Any
    # Where the released numbers go.
    places: tuple[str, ...]
    # For methods that cannot be served: places of numbers that they would take.
    needs: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        fits: Sequence[Any],
        base: Any,
        points: Any,
        places: tuple[str, ...] | None,
        known: bool,
    ) -> Self:
        """Return one more fit, `base`, as a template for numbers at these places.

        If they are None, for the fewest that serve what an estimator is for. `known`
        tells if its other numbers may be used, as public ones.
        """
        wanted: tuple[str, ...] = ()
        if places is None:
            wanted = main_methods(fits[0])
            places = _find_fewest(fits, points, wanted)
        fitted = _without_records(base, fits)
        _check_parts(fitted)
        if not known:
            _blank(fitted, fits[1:], places)
        served = proven([fitted, *fits[1:]], points, places)
        main = main_methods(fitted)
        needs = {
            # A method that returns labels hardly shows what they are from.
            name: find_released(fits, points, main if name in main else (name,))
            for name in METHODS
            if hasattr(fitted, name) and name not in served
        }
        if missing := [name for name in wanted if name in needs]:
            raise IncompatibleError(_say_why_not(fits[0], missing))
        return cls(fitted, places, needs)

    def serve(self, numbers: Numbers) -> Any:
        """Return a copy that answers from numbers in the place of its own."""
        served = copy.deepcopy(self.fitted)
        try:
            put(served, numbers)
        except AttributeError as error:
            raise ValueError(
                f"{' or '.join(numbers)} of {type(served).__name__} cannot be set, so "
                "it cannot serve the released numbers."
            ) from error
        return served

    def say_needs(self, method: str) -> str:
        """Say why a method is not served."""
        what = f"{method} of {type(self.fitted).__name__} needs"
        missing = [name for name in self.needs[method] if name not in self.places]
        if not missing:
            return f"{what} more than released numbers."
        release = (*self.places, *missing)
        return f"{what} {' and '.join(missing)} as well: give release={release!r}."


def _find_fewest(
    fits: Sequence[Any], points: Any, methods: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the places of the fewest numbers that methods need, or say why not."""
    kind = type(fits[0]).__name__
    if not methods:
        raise ValueError(
            f"release='auto' does not know what {kind} is for, as it has none of "
            f"{', '.join(METHODS)}, and answers about no records but those that it is "
            "fitted to: take an estimator that has one, or name the fitted attributes "
            "to release."
        )
    for name, answer in zip(methods, _answers(fits[0], points, methods), strict=True):
        if isinstance(answer, Exception):
            raise ValueError(
                f"{name} of {kind} fails on public records: {answer}"
            ) from answer
    if methods == ("transform",) and learns_structure(fits[0]):
        raise IncompatibleError(
            f"What {kind} learns is no array of numbers, such as categories or chosen "
            "columns, and noise cannot be added to that. Fit it on public records, or "
            "let it be a step of a Pipeline, where that is done."
        )
    places = find_released(fits, points, methods)
    if not places and proven(fits, points, (), methods) == methods:
        raise IncompatibleError(
            f"release='auto' finds nothing that {kind} has learned: fits to several "
            "databases answer alike. If it learns nothing, it can be used as it is, or "
            "be a step of a Pipeline. Else fit it on public records, or name what to "
            "release."
        )
    return places


def _check_parts(fitted: Any) -> None:
    """Refuse a given part that learned structure: private fits would learn another."""
    hidden = [
        type(part).__name__
        for part in structured_parts(fitted)
        if hasattr(part, "transform")
        and not hasattr(part, "predict")
        and not type(part).__name__.startswith("_")
    ]
    if hidden and has_parts(fitted):
        raise IncompatibleError(
            f"{' and '.join(dict.fromkeys(hidden))} inside of {type(fitted).__name__} "
            "learned what is no array of numbers, such as categories, and noise cannot "
            "be added to that: let it be a step of a Pipeline in front, or fit it on "
            "public records, and put it there in a FrozenEstimator."
        )


def _without_records(base: Any, fits: Sequence[Any]) -> Any:
    """Return a fit without attributes that have an entry for each record."""
    fitted = copy.deepcopy(base)
    for name in list(vars(fitted)):
        sizes = [_length(vars(fit).get(name)) for fit in fits]
        if name.endswith("_") and None not in sizes and sizes[0] != sizes[1]:
            delattr(fitted, name)
    return fitted


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, np.ndarray) and value.ndim else None


def _blank(fitted: Any, others: Sequence[Any], places: tuple[str, ...]) -> None:
    """Make numbers that were learned from made-up records NaN."""
    found = [find_numbers(other) for other in others]
    for place, values in find_numbers(fitted).items():
        learned = any(
            place in of and not np.array_equal(of[place], values, equal_nan=True)
            for of in found
        )
        if learned and place not in places:
            fill(fitted, {place: np.full_like(values, np.nan)})


def _say_why_not(fitted: Any, missing: Sequence[str]) -> str:
    remedy = "fit it on public records, and use it in a FrozenEstimator"
    if is_regressor(fitted):
        remedy = _AT_POINTS.format("predictions", "predict")
    elif is_classifier(fitted):
        remedy = _AT_POINTS.format("probabilities", "predict_proba")
        if not hasattr(fitted, "predict_proba"):
            remedy = f"wrap it in a CalibratedClassifierCV, and {remedy}"
    return (
        f"What {type(fitted).__name__} learned is no array of numbers of one shape, as "
        "in trees, or grows with the records, so that numbers cannot tell it, and "
        f"{' and '.join(missing)} cannot be served from a release: {remedy}."
    )


class ReleasedClassifier(ClassifierMixin, BaseEstimator):
    """Predicts with a surrogate that was fitted to released probabilities."""

    def __init__(self, surrogate: Any, classes: NDArray[Any]) -> None:
        self.surrogate = surrogate
        self.classes = classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        return as_probabilities(self.surrogate.predict(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]


def as_probabilities(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers in [0, 1] that sum to 1 in each row; probabilities as they are."""
    clipped = np.clip(numbers, 0.0, 1.0)
    total = clipped.sum(axis=1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[1])
    shares = np.divide(clipped, total, out=uniform, where=total > 0)
    exact = np.abs(total - 1) < 2.0**-40
    return np.where(exact & (clipped == numbers), numbers, shares)


def serve(
    model: Any,
    reader: Reader,
    released: Numbers,
    template: Template | None,
    labels: PublicClasses | None,
) -> Any:
    """Return an estimator that knows the released numbers, and public ones.

    Predictions at public points are served by a surrogate that is fitted to them.
    """
    if template is not None:
        return template.serve(released)
    assert isinstance(reader, PredictionReader)
    (values,) = released.values()
    surrogate = make_pipeline(StandardScaler(), KNeighborsRegressor(n_neighbors=1))
    if model.surrogate is not None:
        surrogate = clone(model.surrogate)
    if labels is None:
        return surrogate.fit(reader.points, values)
    surrogate.fit(reader.points, as_probabilities(values))
    return ReleasedClassifier(surrogate, labels.labels)
