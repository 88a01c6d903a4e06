"""Every estimator of scikit-learn is made private, or refused for a reason.

The page `docs/estimators.rst` is what is found here. To write it:
``python tests/test_every_estimator.py``.
"""

import math
import pickle
import re
import textwrap
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.utils import all_estimators
from suited import make, suitable
from threadpoolctl import threadpool_limits
from unnoised import numbers_in, telling
from wrapped import SECOND, numbers_reached, private

from skparisk import CalibrationError, IncompatibleError
from skparisk.queries import LeafQuery
from skparisk.queries._state import read
from skparisk.wrappers._template import METHODS, main_methods

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
    "several": r"several labels of each record, .* Fit a PrivateEstimator to each",
    "rows": r"fitted to labels, mappings, images or numbers of pairs, .* Make one of",
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


def fit_privately(kind, estimator=None, seed=1, **parameters):
    """Fit to suitable records; for each seed others, with the same reference."""
    X, y = suitable(make(kind), N_RECORDS, seed)
    reference = dict(zip(SECOND, suitable(make(kind), N_PUBLIC, 0), strict=True))
    model = private(make(kind) if estimator is None else estimator, **parameters)
    with threadpool_limits(1):
        return model.fit(X, y, **reference)


@cache
def outcome(kind):
    names = kind.__name__, kind.__module__.split(".")[1]
    try:
        return Outcome(*names, model=fit_privately(kind))
    except Exception as error:  # judged by the test
        return Outcome(*names, error=error)


@pytest.mark.slow
@pytest.mark.sampled(4)
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


def untimed(value):
    """Return what a search keeps without how long it took, in few ticks of a clock."""
    if not isinstance(value, dict):
        return value
    return {k: x for k, x in value.items() if not str(k).endswith("_time")}


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
        plain = fit_plainly(exact.sampler_.query_, X, y)
    for name in METHODS:
        if hasattr(exact, name):
            served = ask(exact, name, points, targets)
            assert_close(served, ask(plain, name, points, targets), name)

    # What a model of other private records has as well is public.
    other = fit_privately(kind, seed=2)
    public = numbers_reached(other) | numbers_in(pickle.dumps(other))
    kept = numbers_reached(model) | numbers_in(pickle.dumps(model))
    secrets = {name: numbers_reached(untimed(x)) for name, x in vars(plain).items()}
    secrets |= {"records": numbers_reached(X), "targets": numbers_reached(y)}
    for name, values in secrets.items():
        leaked = (kept - public) & values
        assert not leaked, f"{name}: {sorted(leaked)[:3]}"
    released = set()
    for place in model.template_.places:
        released |= telling(read(model.estimator_, place))
    assert released <= kept  # the search does find numbers


def fit_plainly(query, X, y):
    """Return what is learned without noise: scikit-learn's own fit, but for leaves."""
    if isinstance(query, LeafQuery):
        if query.labels is not None:
            y = np.asarray(query.classes)[np.searchsorted(query.labels, y)]
        return query.template.serve(query(X, y), np.zeros(1))
    plain = clone(query.estimator)
    return plain.fit(X) if y is None else plain.fit(X, y)


def assert_predictions_are_served(kind):
    points, _ = suitable(make(kind), N_POINTS, 0)
    estimator, release = make(kind), "predict"
    if not is_regressor(estimator):
        release = "predict_proba"
        if not hasattr(estimator, release):
            estimator = CalibratedClassifierCV(estimator, cv=2)
    model = fit_privately(kind, estimator, release=release, X_public=points)
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


# The page


TITLES = {
    "covariance": "Covariances",
    "decomposition": "Components",
    "discriminant_analysis": "Discriminants",
    "dummy": "Dummies",
    "ensemble": "Ensembles",
    "linear_model": "Linear models",
    "mixture": "Mixtures",
    "neural_network": "Neural networks",
    "svm": "Support vectors",
    "tree": "Trees",
}
# Why estimators are refused, and what to do instead.
TOLD = {
    "structure": (
        "They learn categories, words or bins, to which no noise can be added.",
        "Put them in a `Pipeline` before a model, which fits them on the reference. "
        "Or fit them on public records.",
    ),
    "columns": (
        "They choose columns, and noise cannot be added to a choice.",
        "Put them in a `Pipeline` before a model, which fits them on the reference.",
    ),
    "public": (
        "Their fitted state grows with the records, or is no array of numbers.",
        "Fit them on public records, and use them in a `FrozenEstimator`.",
    ),
    "constant": (
        "They keep a few of the records. Most records change nothing, and the sampled "
        "sensitivity may be 0.",
        "Take a smaller `gamma`; or, better, fit them on public records, and use "
        "them in a `FrozenEstimator`.",
    ),
    "inductive": (
        "They have no answer for new records.",
        "Take one that predicts or transforms, or name the fitted attributes to "
        "release.",
    ),
    "several": (
        "They learn several labels of each record.",
        "Fit a `PrivateEstimator` to each label: each is a release of its own.",
    ),
    "rows": (
        "They learn from labels, mappings, images or distances, not from rows of a "
        "table.",
        "Make a table beforehand, by a fixed or public rule. Classes are public.",
    ),
    "tags": (
        "They take targets, but their tags do not say so.",
        "Set `target_tags.required` in a subclass.",
    ),
    "frozen": ("The estimator inside is fitted already.", "Wrap it unfitted."),
    "unfit": ("They cannot be fitted to the example.", "See the message."),
}
HEAD = """\
.. _estimators:

Which estimators can be private
===============================

.. meta::
   :description: Every estimator of scikit-learn, with its private form or the reason
      for a refusal.

:class:`~skparisk.PrivateEstimator` has no list of estimators. It compares fits to
public records, and finds the numbers to release (:doc:`theory/estimators`).
Of the {total} estimators of scikit-learn {version}, with ``release="auto"``,

{counts}

Each has its defaults, or the few arguments of a small example. Other parameters and
records may change the result. Estimators of other packages work alike.

``python tests/test_every_estimator.py`` writes this page. It also tests that answers
are finite, that they equal scikit-learn's without noise, and that the model keeps
nothing but the release. Trees and forests take their splits from the
reference, and release the values of leaves (:doc:`theory/forests`). With a reference,
`KMeans` takes one step from public centers (:ref:`thm-centers`).
"""
SECTIONS = {
    "fitted": (
        "Released as numbers",
        "{} learn numbers, released with noise.",
        "A ``*`` stands for each of several. Methods in the last column need a larger "
        "release; their error names it.",
    ),
    "predictions": (
        "Released as predictions at public points",
        "{} are released as predictions at public points.",
        "Their fitted state grows with the records, or is no array of numbers. Pass "
        '``release="predict"`` or ``release="predict_proba"`` and `X_public`: a '
        "surrogate then serves the released predictions elsewhere. Classifiers without "
        "`predict_proba` are wrapped in a `CalibratedClassifierCV`.",
    ),
    "nothing": (
        "Nothing to release",
        "{} learn nothing from these records, and need no privacy.",
        "Fits to several databases answer alike. Check that this also holds for your "
        "own records.",
    ),
    "refused": ("Refused", "{} are refused, with advice in the error.", ""),
}


def render(outcomes):
    """Return the page for some outcomes."""
    parts = {name: [] for name in SECTIONS}
    for found in outcomes:
        name = "fitted" if found.error is None else found.reason
        parts[name if name in parts else "refused"].append(found)
    counts = "\n".join(
        f"* {SECTIONS[name][1].format(len(members))}" for name, members in parts.items()
    )
    total, version = len(outcomes), sklearn.__version__
    page = [HEAD.format(total=total, version=version, counts=counts)]
    for name, (title, _, text) in SECTIONS.items():
        lines = [f"{title}\n{'-' * len(title)}\n"]
        lines += (
            [textwrap.fill(text, 88, break_long_words=False) + "\n"] if text else []
        )
        page += [*lines, TABLES[name](parts[name])]
    return "\n".join(page)


def table_of_fitted(outcomes):
    rows = {}
    for found in outcomes:
        needs = tuple(found.model.template_.needs)
        rows.setdefault((found.package, found.released, needs), []).append(found.name)
    return as_table(
        {"Kind": 16, "Estimators": 28, "Released": 38, "Not answered": 18},
        [
            [title_of(package), listed(names), listed(released), listed(needs)]
            for (package, released, needs), names in sorted(rows.items())
        ],
    )


def table_of_kinds(outcomes):
    rows = {}
    for found in outcomes:
        rows.setdefault(found.package, []).append(found.name)
    return as_table(
        {"Kind": 20, "Estimators": 80},
        [[title_of(package), listed(rows[package])] for package in sorted(rows)],
    )


def table_of_refused(outcomes):
    rows = {}
    for found in outcomes:
        rows.setdefault(found.reason, []).append(found.name)
    return as_table(
        {"Estimators": 36, "Why": 32, "What to do": 32},
        [[listed(rows[reason]), *TOLD[reason]] for reason in TOLD if reason in rows],
    )


TABLES = {
    "fitted": table_of_fitted,
    "predictions": table_of_kinds,
    "nothing": table_of_kinds,
    "refused": table_of_refused,
}


def as_table(columns, rows):
    widths = " ".join(str(width) for width in columns.values())
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    before = None
    for row in [list(columns), *rows]:
        first = "" if row[0] == before else row[0]
        before = row[0]
        for place, cell in enumerate([first, *row[1:]]):
            start = "   * - " if place == 0 else "     - "
            inside = textwrap.fill(
                cell,
                88,
                initial_indent=start,
                subsequent_indent=" " * len(start),
                break_long_words=False,
                break_on_hyphens=False,
            )
            lines.append(inside or start.rstrip())
    return "\n".join([*lines, ""])


def listed(names):
    return ", ".join(f"`{name}`" for name in names)


def title_of(package):
    return TITLES.get(package, package.replace("_", " ").capitalize())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_page_tells_what_is_found():
    assert set(TOLD) | set(SECTIONS) == {*REASONS, "fitted", "refused"}
    outcomes = [outcome(kind) for kind in KINDS]
    assert sum(found.error is None for found in outcomes) >= FEWEST_FITTED
    page, written = render(outcomes), PAGE.read_text()
    if f"scikit-learn {sklearn.__version__}," in " ".join(written.split()):
        assert page == written


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PAGE.write_text(render([outcome(kind) for kind in KINDS]))
