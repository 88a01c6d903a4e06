"""Selections are parameters of a search: they store, and names are short for them."""

import math
import pickle
import warnings

import numpy as np
import pytest
from searches import (
    ALPHAS,
    BOUNDS,
    PUBLIC,
    SELECTIONS,
    Constant,
    X,
    Y,
    known,
    private_search,
)
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from skparisk import PrivateLogisticRegression
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import (
    ExponentialSelection,
    PrivateGridSearchCV,
    ReferenceSelection,
)

OWN = {
    "reference": {"cv": 3},
    "exponential": {"epsilon": 0.3, "holdout": 0.1, "y_bounds": BOUNDS},
}
LABELS = (Y > 0).astype(int)


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


def repeatable(estimator, grid, selection, **parameters):
    return PrivateGridSearchCV(
        estimator,
        grid,
        selection=selection,
        random_state=3,
        noise_random_state=5,
        **parameters,
    )


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections_store_what_they_are_given(name):
    selection = SELECTIONS[name](**OWN[name])
    copies = clone(selection), pickle.loads(pickle.dumps(selection))
    for copied in copies:
        assert type(copied) is SELECTIONS[name]
        assert copied.get_params() == selection.get_params() == vars(selection)
    for parameter, value in OWN[name].items():
        assert getattr(selection, parameter) is value
        assert f"{parameter}={value!r}" in repr(selection)
    assert repr(SELECTIONS[name]()) == f"{SELECTIONS[name].__name__}()"
    with pytest.raises(TypeError, match="positional"):
        SELECTIONS[name](3)


@pytest.mark.parametrize("name", SELECTIONS)
def test_parameters_of_a_selection_are_those_of_the_search(name):
    search = PrivateGridSearchCV(known(), ALPHAS, selection=SELECTIONS[name]())
    search.set_params(**{f"selection__{key}": OWN[name][key] for key in OWN[name]})
    copied = clone(search)
    assert copied.selection is not search.selection
    for key, value in OWN[name].items():
        assert search.get_params()[f"selection__{key}"] == value
        assert copied.get_params()[f"selection__{key}"] == value
    shown, whole = ("".join(repr(each).split()) for each in (search.selection, search))
    assert f"selection={shown}" in whole
    foreign = {key for other in OWN.values() for key in other} - OWN[name].keys()
    for key in foreign - search.selection.get_params().keys():
        with pytest.raises(ValueError, match=f"Invalid parameter '{key}'"):
            search.set_params(**{f"selection__{key}": 1})
    for key in ("cv", "epsilon", "holdout", "y_bounds"):
        with pytest.raises(ValueError, match=f"Invalid parameter '{key}'"):
            search.set_params(**{key: 1})


def test_parameters_make_an_object_of_a_name():
    search = PrivateGridSearchCV(known(), ALPHAS)
    assert search.set_params(random_state=1).selection == "reference"
    search.set_params(selection__cv=3)
    assert repr(search.selection) == "ReferenceSelection(cv=3)"
    search.set_params(selection="exponential", selection__epsilon=0.3)
    assert repr(search.selection) == "ExponentialSelection(epsilon=0.3)"
    with pytest.raises(ValueError, match=r"selection must be one of .* got 'best'"):
        search.set_params(selection="best", selection__epsilon=0.3)


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("name", SELECTIONS)
def test_names_are_short_for_objects_with_their_defaults(name):
    model = PrivateLogisticRegression(
        sensitivity=1.0, classes=[0, 1], noise_random_state=1
    )
    by_name, by_object = (
        repeatable(model, {"C": [0.1, 1.0]}, selection).fit(X, LABELS)
        for selection in (name, SELECTIONS[name]())
    )
    assert by_name.best_index_ == by_object.best_index_
    assert by_name.certificate_ == by_object.certificate_
    np.testing.assert_array_equal(by_name.predict_proba(X), by_object.predict_proba(X))
    assert by_name.selection == name  # `fit` leaves parameters as they are


COMMON = [
    ("scoring", ["r2"]),
    ("n_jobs", 0),
    ("verbose", "much"),
    ("random_state", "seed"),
    ("noise_random_state", "seed"),
    ("param_grid", {"alphas": [1.0]}),
    ("param_grid", {"value": []}),
    ("selection", "best"),
    ("selection", None),
    ("selection", ReferenceSelection),
]
BAD = {
    "reference": [("cv", value) for value in (0, 1, True, 2.5, "folds")],
    "exponential": [
        ("epsilon", 0),
        ("epsilon", math.nan),
        ("holdout", 1.0),
        ("record_score", "accuracy"),
        ("y_bounds", (1, 0)),
    ],
}


def test_bad_parameters_are_refused_before_a_fit():
    """With the name, the value and what is allowed; nothing warns, nor is charged."""
    for selection, name, value in [
        (kind, *case) for kind in SELECTIONS for case in COMMON
    ] + [
        (kind, f"selection__{name}", value) for kind in BAD for name, value in BAD[kind]
    ]:
        for reference in [PUBLIC, {}]:
            search = private_search(Constant(), {"value": [0.0]}, selection)
            search.set_params(**{name: value})
            named = name.removeprefix("selection__").replace(
                "param_grid", "value|alphas"
            )
            with (
                PrivacyLedger(9.0) as ledger,
                pytest.raises(ValueError, match=named) as caught,
            ):
                search.fit(X, Y, **reference)
            if name != "param_grid":
                assert f"got {value!r}" in str(caught.value)
                assert "must be" in str(caught.value)
            assert ledger.releases == ()
            assert Constant.seen == []


def test_any_splits_of_scikit_learn_are_accepted():
    for cv in [None, 2, np.int64(3), KFold(4), [([0], [1, 2])]]:
        search = private_search(Constant(), VALUES, "reference", cv=cv).fit(
            X, Y, **PUBLIC
        )
        assert "split0_test_score" in search.cv_results_


def test_splits_that_can_be_read_only_once_are_used():
    search = private_search(Constant(), VALUES, "reference")
    search.set_params(selection__cv=KFold(3).split(PUBLIC["X_reference"]))
    assert "split2_test_score" in search.fit(X, Y, **PUBLIC).cv_results_


VALUES = {"value": [0.0, 1.0]}


class Cheaper(ExponentialSelection):
    """Claims less than it spends."""

    def _choose(self, task):
        raise AssertionError


class Stranger:
    """Has the methods of a selection."""

    def _check_parameters(self):
        raise AssertionError

    _choose = _check_parameters


@pytest.mark.parametrize("kind", [Cheaper, Stranger])
def test_a_selection_of_ones_own_could_claim_anything_and_is_refused(kind):
    search = PrivateGridSearchCV(Constant(), VALUES, selection=kind())
    with pytest.raises(
        ValueError, match=r"'exponential' or ExponentialSelection\(\.\.\."
    ):
        search.fit(X, Y, **PUBLIC)
    assert Constant.seen == []


def test_scikit_learn_searches_over_parameters_of_a_selection():
    """Which counts for nothing, as that choice has no noise."""
    inner = private_search(Constant(), VALUES, "exponential")
    grid = {
        "selection": [
            inner.selection,
            ExponentialSelection(holdout=0.4, y_bounds=BOUNDS),
        ],
        "selection__epsilon": [0.25, 2.0],
    }
    outer = GridSearchCV(inner, grid, cv=2, refit=False).fit(X, Y)
    assert len(outer.cv_results_["params"]) == 4
    assert np.isfinite(outer.cv_results_["mean_test_score"]).all()
    assert inner.selection.epsilon == grid["selection"][1].epsilon == 1.0


@pytest.mark.parametrize("selection", ["reference", "exponential"])
def test_private_searches_search_over_parameters_of_a_selection(selection):
    """The level of the inner search is that of its selection."""
    inner = private_search(Constant(), VALUES, "exponential")
    outer = private_search(inner, {"selection__epsilon": [0.25, 2.0]}, selection)
    with PrivacyLedger(math.inf) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        outer.fit(X, Y, **PUBLIC)
    chosen = outer.best_params_["selection__epsilon"]
    assert outer.best_estimator_.selection.epsilon == chosen
    assert outer.best_estimator_.certificate_.epsilon == max(0.5, chosen)
    # Two fits at 0.25 each and a choice, once or for each candidate.
    spent = 0.5 + chosen if selection == "reference" else 2 * 0.5 + 2.25
    assert outer.certificate_.epsilon == spent
    assert outer.certificate_.private
    outside = 0.0 if selection == "reference" else 1.0
    assert ledger.spent.epsilon == spent + outside
