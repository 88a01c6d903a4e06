"""Scores from public records alone: no ledger learns of them, no seed is looked at."""

import math

import numpy as np
import pytest
import sklearn
from searches import CHEAP, X_PUBLIC, Y_PUBLIC, Constant, known
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import PrivateRidge
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import simulate_scores


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


def test_without_noise_the_simulation_is_cross_validation():
    """All of the training part is drawn, in another order: what Ridge is fitted to."""
    ridges = [PrivateRidge(alpha, epsilon=math.inf) for alpha in (0.1, 100.0)]
    cv = KFold(4, shuffle=True, random_state=1)
    scores = simulate_scores(ridges, X_PUBLIC, Y_PUBLIC, n_records=90, cv=cv)
    expected = [
        cross_val_score(Ridge(alpha), X_PUBLIC, Y_PUBLIC, cv=cv)
        for alpha in (0.1, 100.0)
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-9)


@pytest.mark.parametrize("n_records", [50, 80, 500])
def test_databases_come_from_the_training_part_alone(n_records):
    cv = KFold(3)
    simulate_scores(
        [Constant(), Constant(1.0)],
        X_PUBLIC,
        Y_PUBLIC,
        n_records=n_records,
        cv=cv,
        random_state=0,
    )
    assert len(Constant.seen) == 6
    splits = list(cv.split(X_PUBLIC))
    for (_, rows, targets, X_ref, y_ref), (train, _) in zip(
        Constant.seen, splits * 2, strict=True
    ):
        np.testing.assert_array_equal(X_ref, X_PUBLIC[train])
        np.testing.assert_array_equal(y_ref, Y_PUBLIC[train])
        places = [int(np.flatnonzero(target == Y_PUBLIC)[0]) for target in targets]
        assert len(places) == n_records
        assert set(places) <= set(train)
        np.testing.assert_array_equal(rows, X_PUBLIC[places])
        if n_records <= len(train):
            assert len(set(places)) == n_records
    first, second = Constant.seen[:3], Constant.seen[3:]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.slow
def test_scores_do_not_depend_on_the_workers():
    plain = PrivateRidge(sensitivity=CHEAP, combine=None)
    ridges = [clone(plain).set_params(epsilon=epsilon) for epsilon in (0.1, 10)]
    parameters = {"n_records": 60, "cv": 3, "random_state": 0}
    with PrivacyLedger(1e-6) as ledger:
        scores = simulate_scores(ridges, X_PUBLIC, Y_PUBLIC, n_jobs=2, **parameters)
    assert ledger.releases == ()
    again = simulate_scores(ridges, X_PUBLIC, Y_PUBLIC, **parameters)
    np.testing.assert_array_equal(scores, again)
    assert (scores[0] < scores[1]).all()
    other = simulate_scores(
        ridges[:1], X_PUBLIC, Y_PUBLIC, **parameters | {"random_state": 1}
    )
    assert (other != scores[:1]).all()


def test_simulation_neither_charges_a_ledger_nor_warns():
    with PrivacyLedger(1e-6) as ledger:
        simulate_scores([known()], X_PUBLIC, Y_PUBLIC, n_records=60, cv=2)
    assert ledger.releases == ()


def test_reference_in_a_pipeline_is_transformed_as_the_records_are():
    pipeline = make_pipeline(StandardScaler(), Constant())
    simulate_scores([pipeline], X_PUBLIC, Y_PUBLIC, n_records=60, cv=2, random_state=0)
    for (_, rows, targets, X_ref, y_ref), (train, _) in zip(
        Constant.seen, KFold(2).split(X_PUBLIC), strict=True
    ):
        drawn = X_PUBLIC[[int(np.flatnonzero(t == Y_PUBLIC)[0]) for t in targets]]
        scaler = StandardScaler().fit(drawn)
        np.testing.assert_allclose(rows, scaler.transform(drawn))
        np.testing.assert_allclose(X_ref, scaler.transform(X_PUBLIC[train]))
        np.testing.assert_array_equal(y_ref, Y_PUBLIC[train])
    assert pipeline.transform_input is None


@pytest.mark.parametrize("routed", [True, False])
def test_reference_is_routed_where_that_is_asked_for(routed):
    with sklearn.config_context(enable_metadata_routing=routed):
        inner = Constant()
        if routed:
            inner.set_fit_request(X_reference=True, y_reference=True)
        model = TransformedTargetRegressor(inner)
        if not routed:
            model = make_pipeline(model)
        simulate_scores([model], X_PUBLIC, Y_PUBLIC, n_records=60, cv=2)
    assert [seen[3] is not None for seen in Constant.seen] == [routed] * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_records", 0),
        ("scoring", ["r2", "max_error"]),
        ("scoring", {"r2": "r2"}),
        ("n_jobs", 0),
        ("verbose", -1),
        ("random_state", "seed"),
    ],
)
def test_bad_parameters_of_a_simulation_are_refused(name, value):
    parameters = {"n_records": 60} | {name: value}
    with pytest.raises(ValueError, match=name):
        simulate_scores([Constant()], X_PUBLIC, Y_PUBLIC, **parameters)
    assert Constant.seen == []
