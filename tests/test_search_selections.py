"""Selections are parameters of a search: they store, and names are short for them."""

import math

import pytest
from searches import PUBLIC, SELECTIONS, Constant, X, Y, private_search

from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import ExponentialSelection, PrivateGridSearchCV


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


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
    ("selection", ExponentialSelection),
]
BAD = [
    *(("reference", "cv", value) for value in (0, 1, True, 2.5, "folds")),
    ("exponential", "selection__epsilon", 0),
    ("exponential", "selection__epsilon", math.nan),
    ("exponential", "selection__holdout", 1.0),
    ("exponential", "selection__y_bounds", (1, 0)),
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("selection", "name", "value"),
    [(kind, *case) for kind in SELECTIONS for case in COMMON] + BAD,
)
@pytest.mark.parametrize("reference", [PUBLIC, {}])
def test_bad_parameters_are_refused_before_a_fit(selection, name, value, reference):
    """With the name, the value and what is allowed; nothing warns, nor is charged."""
    search = private_search(Constant(), {"value": [0.0]}, selection)
    search.set_params(**{name: value})
    named = name.removeprefix("selection__").replace("param_grid", "value|alphas")
    with PrivacyLedger(9.0) as ledger, pytest.raises(ValueError, match=named) as caught:
        search.fit(X, Y, **reference)
    if name != "param_grid":
        assert f"got {value!r}" in str(caught.value)
        assert "must be" in str(caught.value)
    assert ledger.releases == ()
    assert Constant.seen == []


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
