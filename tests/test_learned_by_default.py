"""The shape of the noise and the number of pairs, where neither is asked for."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skparisk import (
    CalibrationError,
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SecretSample,
    SensitivitySampler,
)
from skparisk.core.calibrate import PAC, Target
from skparisk.queries import LinearSVCQuery, LogisticRegressionQuery, Query, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import calibrate
from skparisk.sensitivity._terms import agree, settle

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 3.0]
Y = X @ [1.0, -0.2, 5.0] + RNG.normal(size=400)


def make_terms(
    n_pairs="auto", *, law="laplace", shape="auto", rule="exchangeable", **asked
):
    if "advantage" in asked:
        target = Target.of_advantage(asked["advantage"], 0.05)
    else:
        target = Target(**({"epsilon": 1.0, "gamma": 0.05} | asked))
    return agree(n_pairs, target, law=law, shape=shape, rule=rule)


def test_what_is_sampled_and_what_for():
    for arguments, n_outputs, expected in [
        ({}, 3, ("auto", 1000, 500)),
        ({}, 1, ("isotropic", 1000, 0)),
        ({"law": "exponential"}, 3, ("isotropic", 1000, 0)),
        ({"epsilon": np.inf}, 3, ("isotropic", 1000, 0)),
        ({"n_pairs": 10_000}, 3, ("auto", 10_000, 2048)),
        ({"n_pairs": 40}, 3, ("auto", 40, 20)),
        ({"n_pairs": 36}, 3, ("isotropic", 36, 0)),  # for which 19 are to be left
        ({"n_pairs": 31, "gamma": 0.1}, 3, ("isotropic", 31, 0)),
        ({"n_pairs": 70, "gamma": 0.025}, 3, ("auto", 70, 17)),  # 39 left, or more
        ({"gamma": 0.001}, 3, ("auto", 7043, 2048)),
        ({"gamma": 0.001}, 1, ("isotropic", 7043, 0)),
        ({"gamma": 0.001, "epsilon": np.inf}, 1, ("isotropic", 4995, 0)),
        ({"gamma": 0.01, "rule": PAC(0.01)}, 3, ("auto", 4343, 2048)),
        ({"advantage": 0.002}, 3, ("auto", 4548, 2048)),
        ({"gamma": 0.002, "randomness": "both", "law": "gaussian"}, 3, None),
    ]:
        terms = settle(make_terms(**arguments), n_outputs)
        found = terms.shape, terms.n_pairs, terms.n_shape_pairs
        if expected is None:  # exact risks take one pair more or less
            expected = ("auto", pytest.approx(5 * 500 + 2048, abs=5), 2048)
        assert found == expected
        assert terms.n_calibrating == terms.n_pairs - terms.n_shape_pairs
        assert settle(terms, n_outputs) == terms
        assert terms.order_index <= terms.n_calibrating


def test_too_few_pairs_are_told_how_many_it_takes():
    with pytest.raises(CalibrationError, match=r"needs n_pairs >= 999\.$"):
        make_terms(500, gamma=0.001)
    with pytest.raises(CalibrationError, match=r"needs n_pairs >= 1998 in all\.$"):
        make_terms(1000, gamma=0.001, shape="whitened")
    assert make_terms(1998, gamma=0.001, shape="whitened").n_shape_pairs == 999
    with pytest.raises(ValueError, match="n_pairs must be one of 'auto'; got 'many'"):
        make_terms("many")


@pytest.fixture(scope="module")
def sampler():
    return SensitivitySampler(RidgeQuery(), random_state=0).fit(X, Y)


def test_default_is_the_shape_for_predictions(sampler):
    """The noise of predictions is less than without weights, and than of no shape."""
    assert sampler.pairs_.weights.shape == (4, 4)
    assert sampler.pairs_.n_independent == 200
    records = np.column_stack([X, np.ones(len(X))])
    noises = [sampler.mechanism_]
    bare = np.array(sampler.differences_)
    for shape in ("auto", "diagonal", "isotropic"):
        noise, _ = calibrate(bare, Target(1.0), shape=shape, n_records=400)
        noises.append(noise)
    costs = [np.trace(records @ n.covariance() @ records.T) for n in noises]
    assert costs[0] < 0.9 * min(costs[1:])


LABELS = np.arange(400) % 3.0
QUERIES = {
    "ridge": (RidgeQuery(), 1),
    "ridge, without intercept": (RidgeQuery(fit_intercept=False), 2),
    "ridge, two targets": (RidgeQuery(), 2),
    "logistic": (LogisticRegressionQuery((0, 1)), 1),
    "logistic, three classes": (LogisticRegressionQuery((0, 1, 2)), 3),
    "svc": (LinearSVCQuery((0, 1), intercept_scaling=5.0), 1),
    "svc, three classes": (LinearSVCQuery((0, 1, 2), fit_intercept=False), 3),
}


def test_weights_are_what_errors_do_to_predictions():
    """In the order of the answer: coefficients by class, and then intercepts."""
    for name in QUERIES:
        query, k = QUERIES[name]
        targets = (
            LABELS % len(getattr(query, "classes", ()))
            if "ridge" not in name
            else np.column_stack([Y] * k)
            if k > 1
            else Y
        )
        many = np.random.default_rng(1).normal(size=(20_000, 3)) * [1.0, 9.0, 0.1] + 2.0
        answer = query(X, targets)
        weights = query.output_weights(many, answer.size)
        error = np.random.default_rng(2).normal(size=answer.size)
        scores = many @ error[: 3 * k].reshape(k, 3).T
        if query.fit_intercept:
            scores += error[3 * k :]
        cost = np.mean(np.sum(scores**2, axis=1))
        assert error @ weights @ error == pytest.approx(cost, rel=3e-3)
        np.testing.assert_allclose(weights, weights.T)


def test_directions_in_which_no_record_differs_weigh_something():
    few = np.random.default_rng(0).normal(size=(5, 20))
    weights = RidgeQuery(fit_intercept=False).output_weights(few, 20)
    assert np.linalg.eigvalsh(weights)[0] > 0.01
    constant = RidgeQuery().output_weights(np.ones((5, 2)), 3)
    np.testing.assert_allclose(constant, 1.0)
    assert RidgeQuery().output_weights(np.full((5, 2), 1e200), 3) is None


def test_weights_are_those_of_all_rows_of_a_table(monkeypatch):
    """Not of a database, which has some of them again; of many, of rows all over it.

    Of a law they are those of a database.
    """
    query, records = RidgeQuery(), X[:60]
    for n_records in (20, 60):
        table = TableReference(records, Y[:60])
        sampler = SensitivitySampler(
            query, reference=table, n_records=n_records, n_pairs=40, random_state=0
        ).fit(X, Y)
        given = query.output_weights(records, 4)
        np.testing.assert_allclose(sampler.pairs_.weights, given)
    monkeypatch.setattr("skparisk.sensitivity._drawing._MOST_WEIGHED", 30)
    some = query.output_weights(records[np.linspace(0, 59, 30).astype(int)], 4)
    np.testing.assert_allclose(sampler.fit(X, Y).pairs_.weights, some)

    def law(n_records, rng):
        rows = rng.integers(len(X), size=n_records)
        return X[rows], Y[rows]

    sampler.set_params(reference=law).fit(X, Y)
    assert sampler.pairs_.weights.shape == (4, 4)
    assert np.abs(sampler.pairs_.weights - given).max() > 0.01


class Weighed(Query):
    """Two means, of which only the second is of use, it says."""

    weights: ClassVar = [[0.0, 0.0], [0.0, 1.0]]

    def __call__(self, X, y=None):
        return X[:, :2].mean(axis=0)

    def output_weights(self, X, n_outputs):
        X[:] = 0.0  # its own
        return self.weights


def test_query_of_ones_own_says_what_its_outputs_are_for(monkeypatch):
    records = np.random.default_rng(0).normal(size=(300, 2))
    make = SensitivitySampler(Weighed(), n_pairs=400, random_state=0).fit
    sizes = np.sqrt(np.diag(make(records).mechanism_.covariance()))
    assert sizes[0] > 5 * sizes[1]
    monkeypatch.setattr(Weighed, "weights", None)
    sizes = np.sqrt(np.diag(make(records).mechanism_.covariance()))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.3)
    for wrong in ([1.0, 2.0], [[np.nan, 0.0], [0.0, 1.0]]):
        monkeypatch.setattr(Weighed, "weights", wrong)
        with pytest.raises(
            ValueError, match=r"output_weights of the query .* \(2, 2\)"
        ):
            make(records)


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_rows_and_records_that_must_not_serve_for_weights_do_not():
    """Those that are used once, and those that are private."""
    split = TableReference(X, Y, sampling="split")
    once = SensitivitySampler(
        RidgeQuery(), reference=split, n_records=50, n_pairs=100, random_state=0
    ).fit(X, Y)
    assert once.pairs_.weights is None
    assert once.certificate_.require_evidence().noise_shape == "whitened"
    own = PrivateRidge(sensitivity=SensitivitySampler(n_pairs=40)).fit(X, Y)
    assert own.sampler_.pairs_.weights is None
    secret = SensitivitySampler(n_pairs=40, reference=SecretSample(0.5))
    assert PrivateRidge(sensitivity=secret).fit(X, Y).sampler_.pairs_.weights is None


# What was refused once


@pytest.mark.slow
def test_constant_and_rare_columns_fit():
    """One-hot, of which one category is rare and another one is not there."""
    words = np.array(["a"] * 250 + ["b"] * 146 + ["c"] * 4, dtype=object)
    frame = np.column_stack([words, np.round(X[:, 0], 3).astype(object)])
    encoder = OneHotEncoder(categories=[["a", "b", "c", "d"]], sparse_output=False)
    columns = make_column_transformer((encoder, [0]), remainder="passthrough")
    for shape in ("auto", "diagonal", "whitened"):
        sampler = SensitivitySampler(noise_shape=shape, n_pairs=60, random_state=0)
        model = PrivateEstimator(
            make_pipeline(columns, Ridge()), sensitivity=sampler, combine=None
        )
        model.fit(frame[::2], Y[::2], X_reference=frame[1::2], y_reference=Y[1::2])
        assert np.isfinite(model.predict(frame)).all()
        evidence = model.certificate_.require_evidence()
        assert shape in ("auto", evidence.noise_shape)
        assert evidence.n_shape_pairs == 30


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["auto", "diagonal", "whitened"])
def test_empty_pixels_fit(shape):
    """More outputs than pairs to learn from are diagonal; some pixels are empty."""
    digits, labels = load_digits(n_class=2, return_X_y=True)
    sampler = SensitivitySampler(noise_shape=shape, n_pairs=60, random_state=0)
    model = PrivateLogisticRegression(C=1e-3, sensitivity=sampler)
    public = {"X_reference": digits[::2], "y_reference": labels[::2]}
    model.fit(digits[1::2], labels[1::2], **public)
    assert model.certificate_.require_evidence().noise_shape == "diagonal"
    assert (np.ptp(digits[::2], axis=0) == 0).any()
    sizes = np.sqrt(np.diag(model.sampler_.mechanism_.covariance()))
    assert sizes.max() < 1e3 * np.median(sizes)


@pytest.mark.parametrize("moved", ["none", "unanswered"])
def test_pairs_that_tell_of_no_shape_leave_the_others_to_calibrate(moved):
    differences = np.random.default_rng(0).normal(size=(40, 2))
    differences[:20] = 0.0 if moved == "none" else np.inf
    noise, certificate = calibrate(
        differences, Target(1.0, 0.1), shape="whitened", n_records=9
    )
    plain, _ = calibrate(differences[20:], Target(1.0, 0.1), n_records=9)
    assert noise.noise_scale == plain.noise_scale
    evidence = certificate.require_evidence()
    assert (evidence.noise_shape, evidence.n_shape_pairs) == ("diagonal", 20)


def histogram(X):
    return np.histogram(X, bins=np.linspace(-3, 3, 12))[0].astype(float)


@pytest.mark.slow
def test_shape_that_costs_more_than_it_brings_is_not_taken():
    """Counts move two at a time; what is correlated, all together."""
    records = np.random.default_rng(0).uniform(-3, 3, size=(500, 1))
    counts, whitened = (
        SensitivitySampler(histogram, noise_shape=shape, random_state=0).fit(records)
        for shape in ("auto", "whitened")
    )
    assert counts.certificate_.require_evidence().noise_shape == "diagonal"
    noises = [np.trace(s.mechanism_.covariance()) for s in (counts, whitened)]
    assert noises[0] < 0.5 * noises[1]
    together = np.random.default_rng(0).normal(size=(1000, 1)) * np.ones(4)
    together += 0.1 * np.random.default_rng(1).normal(size=(1000, 4))
    _, certificate = calibrate(together, Target(1.0), shape="auto", n_records=9)
    assert certificate.require_evidence().noise_shape == "whitened"


def test_choice_is_by_pairs_that_do_not_calibrate():
    """Nor does the choice depend on the units, however far they are."""
    differences = np.random.default_rng(0).laplace(size=(1000, 3)) @ np.array(
        [[1.0, 1.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 1.0]]
    )
    others = differences.copy()
    others[500:] = np.random.default_rng(1).normal(size=(500, 3))
    for units in (np.ones(3), np.array([1e-9, 1.0, 1e3]), np.full(3, 1e307)):
        noise, other = (
            calibrate(d * units, Target(1.0), shape="auto", n_records=9)[0]
            for d in (differences / 100, others / 100)
        )
        assert noise.shape.name == other.shape.name == "whitened"
        np.testing.assert_array_equal(noise.shape.factor, other.shape.factor)
