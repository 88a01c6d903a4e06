"""Every estimator of scikit-learn is made private, or refused for a reason.

The page `docs/estimators.rst` is what is found here. To write it:
``python tests/test_every_estimator.py``.
"""

import math
import pickle
import re
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.utils import all_estimators
from suited import make, suitable
from threadpoolctl import threadpool_limits
from wrapped import SECOND, fractions, numbers_in, numbers_reached, private

from skparisk import CalibrationError, IncompatibleError
from skparisk.queries._state import read
from skparisk.wrappers._finding import METHODS, main_methods

PAGE = Path(__file__).parent.parent / "docs" / "estimators.rst"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    KINDS = [kind for _, kind in all_estimators()]
N_RECORDS, N_PUBLIC, N_POINTS = 60, 150, 40
FEWEST_FITTED = 80
_SAME = 1e-9


# Why an estimator is refused: what the message says, and what the page says.
REASONS = {
    "predictions": r"release its (predictions|probabilities) at public points, with",
    "public": r"cannot be served from a release: fit it on public records, and use it",
    "structure": r"learns is no array of numbers, .* Fit it on public records, or let",
    "columns": r"chooses columns, .* Let it be a step of a Pipeline before a model",
    "nothing": r"finds nothing that .* If it learns nothing, it can be used as it is",
    "constant": r"sampled sensitivity .* is 0, .* Use a smaller gamma, or",
    "inductive": r"does not know what .* is for, .* take an estimator that has one",
    "labels": r"fitted to labels, .* fit it to the public ones, and use it",
    "several": r"several labels of each record, .* Fit a PrivateEstimator to each",
    "pairs": r"fitted to numbers of pairs of records, .* compute them from records",
    "records": r"takes (mappings|images) as records, .* Make one of them beforehand",
    "tags": r"does not say so in its tags\. Set target_tags\.required",
    "frozen": r"FrozenEstimator learns nothing, .* Wrap the estimator inside it",
    "unfit": r"cannot be fitted to the reference: ",
}


@dataclass(frozen=True)
class Outcome:
    """What came of making an estimator private: a model, or a reason against it."""

    name: str
    package: str
    model: Any = None
    error: Exception | None = None

    @property
    def reason(self):
        """The reason of a refusal; None if there is none, or none that is known."""
        if not isinstance(
            self.error, ValueError | CalibrationError | IncompatibleError
        ):
            return None
        fits = (
            key for key, said in REASONS.items() if re.search(said, f"{self.error}")
        )
        return next(fits, None)

    @property
    def released(self):
        """What is released, with * for each number of a list."""
        places = self.model.template_.places
        short = [re.sub(r"(?<=\.)\d+(?=\.|$)", "*", place) for place in places]
        return tuple(dict.fromkeys(short))


def fit_privately(kind, release="auto", seed=1, **parameters):
    """Fit to suitable records; for each seed others, with the same reference."""
    estimator = make(kind)
    X, y = suitable(estimator, N_RECORDS, seed)
    reference = dict(zip(SECOND, suitable(estimator, N_PUBLIC, 0), strict=True))
    model = private(estimator, release, **parameters)
    with threadpool_limits(1):
        return model.fit(X, y, **reference)


@cache
def outcome(kind):
    names = kind.__name__, kind.__module__.split(".")[1]
    try:
        return Outcome(*names, model=fit_privately(kind))
    except Exception as error:  # judged by the test
        return Outcome(*names, error=error)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore")
def test_estimator_is_served_or_refused_for_a_reason(kind):
    found = outcome(kind)
    if found.error is None:
        assert_served(kind, found.model)
        return
    if found.reason is None:
        raise found.error
    if found.reason == "predictions":
        assert_predictions_are_served(kind)


def assert_served(kind, model):
    """Assert that answers are finite, exact without noise, and tell no more."""
    points, targets = suitable(make(kind), N_POINTS, 0)
    methods = main_methods(model.estimator_)
    assert methods
    for name in methods:
        answer = ask(model, name, points, targets)
        assert answer.dtype.kind not in "fc" or np.isfinite(answer).all(), name

    exact = fit_privately(kind, epsilon=math.inf)
    X, y = suitable(make(kind), N_RECORDS, 1)
    with threadpool_limits(1):
        plain = clone(exact.sampler_.query_.estimator)
        plain.fit(X) if y is None else plain.fit(X, y)
    for name in METHODS:
        if hasattr(exact, name):
            served = ask(exact, name, points, targets)
            assert_close(served, ask(plain, name, points, targets), name)

    # What a model of other private records has as well is public.
    other = fit_privately(kind, seed=2)
    public = numbers_reached(other) | numbers_in(pickle.dumps(other))
    kept = numbers_reached(model) | numbers_in(pickle.dumps(model))
    secrets = {name: numbers_reached(value) for name, value in vars(plain).items()}
    secrets |= {"records": numbers_reached(X), "targets": numbers_reached(y)}
    for name, values in secrets.items():
        assert not (kept - public) & values, name
    released = set()
    for place in model.template_.places:
        released |= fractions(read(model.estimator_, place))
    assert released <= kept  # the search does find numbers


def assert_predictions_are_served(kind):
    points, _ = suitable(make(kind), N_POINTS, 0)
    release = "predict" if is_regressor(make(kind)) else "predict_proba"
    if hasattr(make(kind), release):
        model = fit_privately(kind, release, X_public=points)
        assert np.isfinite(ask(model, release, points, None)).all()


def ask(fitted, method, X, y):
    if method == "sample":
        answer = fitted.sample(5)
    elif method == "score":
        answer = fitted.score(X) if y is None else fitted.score(X, y)
    else:
        X = fitted.transform(X) if method == "inverse_transform" else X
        answer = getattr(fitted, method)(X)
    if isinstance(answer, tuple):
        answer = answer[0]
    return np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)


def assert_close(answer, expected, name):
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(answer, expected, err_msg=name)
        return
    size = np.abs(expected).max(initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(
        answer, expected, rtol=0.0, atol=_SAME * size, err_msg=name
    )
