"""Naive Bayes classifiers from sums over the records of each class."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Binarizer, OneHotEncoder

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.core.sealed import Records, is_frame
from skparisk.queries._base import Floats
from skparisk.queries._leaves import (
    ClassCells,
    ClassSumsQuery,
    FeatureAddend,
    as_numbers,
    transform_each,
)
from skparisk.queries._state import Numbers
from skparisk.reference._records import frame_like
from skparisk.wrappers._from_sums import (
    SumsTemplate,
    find_kind,
    step_names,
    steps_before,
)
from skparisk.wrappers._public_records import PublicRecords
from skparisk.wrappers._public_steps import PublicSteps

_KINDS = {
    "sklearn.naive_bayes": (
        "BernoulliNB",
        "CategoricalNB",
        "ComplementNB",
        "GaussianNB",
        "MultinomialNB",
    )
}
# Variance of what is uniform in [-1, 1]: how far means may be from what is typical,
# squared. Those of classes are a quarter of it from that of all.
_OF_ALL, _BETWEEN_CLASSES = 1 / 3, 1 / 12


def find_naive_bayes(estimator: Any) -> Any:
    """Return a naive Bayes classifier, as `find_kind` does."""
    return find_kind(estimator, _KINDS)


def make_bayes_query(
    estimator: Any, public: PublicRecords, labels: PublicClasses
) -> ClassSumsQuery:
    """Return the sums that a classifier follows from; bounds are of public records."""
    model = find_naive_bayes(estimator)
    if public.reference is None:
        raise IncompatibleError(
            f"Features of {type(model).__name__} must have bounds for "
            "sensitivity='bound': give X_reference, public records or a "
            "SchemaReference, to take them from."
        )
    fitted = public.fit(clone(estimator), public.whole)
    before = steps_before(fitted)
    X = public.whole[0]
    seen = transform_each(before, X)
    domain = public.reference.domain
    ends = domain.box if before is None and domain is not None else None
    if ends is None:
        numbers = as_numbers(seen)
        ends = np.array([np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)])
    addend = _addend_of(model, before, ends, public.most_rows)
    if not addend.keeps_apart(X):
        raise IncompatibleError(
            f"The steps before {type(model).__name__} must transform each record by "
            "itself, because a record would else move others, but on the reference "
            "they do not: take others, such as a StandardScaler."
        )
    template = BayesTemplate(
        fitted,
        addend,
        public.n_rows,
        frame=seen if is_frame(seen) else None,
        labels=labels.labels,
    )
    query = ClassSumsQuery(ClassCells(labels.numbers), addend, estimator, labels.labels)
    public_steps = PublicSteps(step_names(before))
    return replace(query, template=template, public_steps=public_steps)


@dataclass(frozen=True, eq=False)
class BayesTemplate(SumsTemplate):
    """What is public of a naive Bayes classifier; steps before it are served."""

    addend: FeatureAddend
    # Public records as the classifier sees them, if these are frames.
    frame: Records | None
    # Those of the classes, of shape (n_classes,).
    labels: NDArray[Any]

    @property
    def places(self) -> tuple[str, ...]:
        """Where the classifier keeps what follows from the sums."""
        names = ["feature_log_prob_", "class_log_prior_"]
        if self.addend.squared:
            names = ["theta_", "var_", "class_prior_"]
        return tuple(map(self._inside, names))

    def serve(self, released: Numbers, deviations: Numbers) -> Any:
        """Return scikit-learn's own fit to weighted records that have these sums."""
        counts, means, errors = shrunk_means(
            self.addend.in_records(released["sums"]),
            self.addend.in_records(deviations["sums"]),
            self.n_records,
            self.addend.typical,
        )
        model = clone(find_naive_bayes(self.fitted))
        if self.addend.squared:
            served = self._fit_moments(model, counts, means, errors)
        else:
            served = self._fit_counts(model, counts, means)
        if not isinstance(self.fitted, Pipeline):
            return served
        pipeline = copy.deepcopy(self.fitted)
        pipeline.steps[-1] = (pipeline.steps[-1][0], served)
        return pipeline

    def _fit(self, model: Any, X: Floats, y: NDArray[np.intp], weights: Floats) -> Any:
        records = X if self.frame is None else frame_like(self.frame, X)
        return model.fit(records, self.labels[y], sample_weight=weights)

    def _fit_moments(
        self, model: Any, counts: Floats, means: Floats, errors: Floats
    ) -> Any:
        """Return a Gaussian model: each class has two records, far enough apart."""
        centers, squares = np.split(means, 2, axis=1)
        squares = (squares + 1) / 2
        # What noise leaves unknown of a mean is variance of the records around it.
        unknown = errors[:, : centers.shape[1]] ** 2
        inside = np.maximum(squares - centers**2, 0.0) + unknown
        shares = (counts / counts.sum())[:, None]
        center = (shares * centers).sum(axis=0)
        overall = (shares * squares).sum(axis=0) - center**2
        theta = self.addend.as_features(centers)
        var = self.addend.as_squares(inside)
        codes = np.repeat(np.arange(len(counts)), 2)
        apart = np.tile([[-1.0], [1.0]], (len(counts), 1)) * np.sqrt(var)[codes]
        fitted = self._fit(model, theta[codes] + apart, codes, counts[codes] / 2)
        # scikit-learn smooths by what it takes for the variance of all records.
        largest = self.addend.as_squares(np.maximum(overall, 0.0)).max()
        fitted.epsilon_ = fitted.var_smoothing * float(largest)
        fitted.theta_, fitted.var_ = theta, var + fitted.epsilon_
        return fitted

    def _fit_counts(self, model: Any, counts: Floats, means: Floats) -> Any:
        """Return a model of counts: what a class has of each feature, on average."""
        parameters = model.get_params()
        if "min_categories" in parameters:
            sizes = [len(kinds) for kinds in self.addend.recode.categories_]
            return self._fit(model, *_coupled(counts, np.maximum(means, 0.0), sizes))
        features = self.addend.as_features(means)
        codes = np.arange(len(counts))
        if "binarize" not in parameters:
            return self._fit(model, features, codes, counts)
        served = self._fit(model.set_params(binarize=None), features, codes, counts)
        return served.set_params(binarize=parameters["binarize"])


def shrunk_means(
    sums: Floats, deviations: Floats, n_records: float, typical: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return counts of classes, means of what features add, and their errors.

    Means of a class are moved to those of all records, by what noise left of them; and
    these to what is `typical`, where nothing is known. Of sums, and the standard
    deviations of their noise, of shape (n_classes, 1 + n_numbers), counts come first.
    Those that are returned are at least 1, and about `n_records` together, which is
    public; nearly equal if noise is large. Means are in [-1, 1], and errors the
    standard deviations that noise leaves in them, both of shape (n_classes, n_numbers).
    """
    even = n_records / len(sums)
    known = _OF_ALL * even**2 / (_OF_ALL * even**2 + deviations[:, 0] ** 2)
    counts = np.maximum(even + known * (sums[:, 0] - even), 1.0)
    counts = np.maximum(counts * (n_records / counts.sum()), 1.0)
    all_noise = np.sqrt((deviations[:, 1:] ** 2).sum(axis=0)) / n_records
    known = _OF_ALL / (_OF_ALL + all_noise**2)
    of_all = typical + known * (sums[:, 1:].sum(axis=0) / n_records - typical)
    own, noise = sums[:, 1:] / counts[:, None], deviations[:, 1:] / counts[:, None]
    weight = _BETWEEN_CLASSES / (_BETWEEN_CLASSES + noise**2)
    means = (of_all + weight * (own - of_all)).clip(-1.0, 1.0)
    return counts, means, np.hypot(weight * noise, (1 - weight) * known * all_noise)


def _addend_of(
    model: Any, before: Pipeline | None, ends: Floats, n_records: int
) -> FeatureAddend:
    """Return what features add: as they are, as 0 or 1, or for each category."""
    kind, (low, high) = type(model).__name__, ends
    squared, most, recode = kind == "GaussianNB", None, None
    if kind == "CategoricalNB":
        sizes = [np.arange(int(largest) + 1) for largest in high]
        recode = OneHotEncoder(
            categories=sizes, handle_unknown="ignore", sparse_output=False
        ).fit(np.zeros((1, len(sizes))))
        n_kinds, most = sum(map(len, sizes)), float(len(sizes))
        low, high = -np.ones(n_kinds), np.ones(n_kinds)
    elif kind == "BernoulliNB":
        low, high = np.zeros_like(low), np.ones_like(high)
        if model.binarize is not None:
            recode = Binarizer(threshold=model.binarize).fit(np.zeros((1, len(low))))
    elif not squared:
        low = np.maximum(low, 0.0)  # no other numbers are counts
    return FeatureAddend(low, high, n_records, squared, most, before, recode)


def _coupled(
    counts: Floats, means: Floats, sizes: list[int]
) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Return records of categories, their classes and weights, that have these shares.

    Shares of each feature are put end to end, in one line for each class: a record for
    each part of it between two ends of any feature. The last ones weigh nothing, and
    show how many categories there are.
    """
    edges = np.cumsum(sizes)[:-1]
    records, codes, weights = [np.array([sizes]) - 1.0], [np.array([0])], [np.zeros(1)]
    for code, (count, own) in enumerate(zip(counts, means, strict=True)):
        lines = [np.cumsum(_shares(each)) for each in np.split(own, edges)]
        points = np.unique(np.concatenate([[0.0, 1.0], *lines]).clip(0.0, 1.0))
        middles = (points[1:] + points[:-1]) / 2
        # Rounded, a line may end before 1.
        found = [np.searchsorted(line[:-1], middles) for line in lines]
        records.append(np.column_stack(found).astype(np.float64))
        codes.append(np.full(len(middles), code))
        weights.append(count * np.diff(points))
    return np.concatenate(records), np.concatenate(codes), np.concatenate(weights)


def _shares(numbers: Floats) -> Floats:
    """Return shares in proportion to some numbers, which are equal if all are 0."""
    whole = numbers if numbers.any() else np.ones_like(numbers)
    return np.asarray(whole / whole.sum())
