"""How large the noise is, what would help, and when a reference is far away."""

import copy
import math
import re
import warnings

import numpy as np
import pytest

from skparisk import (
    PrivateLogisticRegression,
    PrivateRidge,
    ReferenceWarning,
    SecretSample,
    SensitivitySampler,
    UtilityWarning,
)
from skparisk._hints import distance, noise_to_spread
from skparisk.core import Doubt
from skparisk.core.exact import noise_source
from skparisk.core.release import answered
from skparisk.reference import ReferenceComparison, SchemaReference

RNG = np.random.default_rng(0)


def make_data(n_records, units=1.0):
    X = RNG.normal(size=(n_records, 3))
    y = X @ [3.0, -1.0, 0.5] + RNG.normal(size=n_records)
    return X * units, y


X, Y = make_data(200)
X_PUBLIC, Y_PUBLIC = make_data(300)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
# Of several outputs, Gaussian noise is less than half of Laplace noise.
MORE = np.random.default_rng(1).normal(size=(500, 5))
WIDE, WIDE_PUBLIC = np.hstack([X, MORE[:200]]), np.hstack([X_PUBLIC, MORE[200:]])
FEWER = {"X_reference": WIDE_PUBLIC[:150], "y_reference": Y_PUBLIC[:150]}
SHAPES = ["isotropic", "diagonal", "whitened"]


def ridge(shape="isotropic", n_pairs=200, **parameters):
    how = {
        key: parameters.pop(key) for key in ("randomness", "law") if key in parameters
    }
    sampler = SensitivitySampler(n_pairs=n_pairs, noise_shape=shape, **how)
    return PrivateRidge(sensitivity=sampler, random_state=0, **parameters)


@pytest.mark.parametrize("shape", SHAPES)
def test_noise_is_as_large_as_its_covariance_says(shape):
    sampler = ridge(shape).fit(X, Y, **PUBLIC).sampler_
    expected = np.sqrt(np.diag(sampler.mechanism_.covariance()))
    np.testing.assert_allclose(sampler.mechanism_.deviations(), expected)


def test_spread_is_that_of_fits_to_other_people():
    """Checked against fits to fresh samples of a large population."""
    model = ridge().fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
    query = model.sampler_.query_
    answers = np.array([query(*make_data(200)) for _ in range(200)])
    noise = model.sampler_.mechanism_.deviations()
    expected = np.sqrt(np.mean((noise / answers.std(axis=0)) ** 2))
    assert model.noise_to_spread_ == pytest.approx(expected, rel=0.2)


def test_hint_says_what_would_help():
    hint = ridge("isotropic", epsilon=0.5, alpha=1.0).fit(WIDE, Y, **FEWER).hint_
    assert "times the spread" in hint
    assert "of 200 people" in hint
    for remedy in ("more records", 'alpha="auto"', "both", "gaussian"):
        assert remedy in hint
    better = ridge("whitened", randomness="both", epsilon=0.5)
    better = better.fit(WIDE, Y, **FEWER).hint_
    assert 'law="gaussian"' in better
    assert "both" not in better
    assert "whitened" not in better
    best = {"randomness": "both", "law": "gaussian", "epsilon": 0.02}
    best = ridge("whitened", **best).fit(WIDE, Y, **FEWER).hint_
    assert "SensitivitySampler" not in best


def test_beside_as_many_public_records_less_noise_is_no_advice():
    """A correction of their fit adds little, with any noise."""
    public = {"X_reference": WIDE_PUBLIC, "y_reference": Y_PUBLIC}
    model = ridge("isotropic", epsilon=0.7, alpha=1.0).fit(WIDE, Y, **public)
    assert "times the spread" in model.hint_
    assert "SensitivitySampler" not in model.hint_
    model.set_params(combine=None)
    with pytest.warns(UtilityWarning, match="alone score better"):
        assert "SensitivitySampler" in model.fit(WIDE, Y, **public).hint_


def test_a_weaker_promise_that_leaves_most_of_the_noise_is_no_hint():
    """Of few outputs; of the same promise, as much less noise is advice."""
    model = ridge("whitened", epsilon=0.25, alpha=1.0, combine=None)
    model.fit(X[:, :1], Y, X_reference=X_PUBLIC[:, :1], y_reference=Y_PUBLIC)
    assert "times the spread" in model.hint_
    assert "SensitivitySampler" not in model.hint_
    same = ridge("whitened", randomness="both", epsilon=0.5).fit(WIDE, Y, **FEWER)
    told = re.search(r"SensitivitySampler.* \(then ([\d.]+) times", same.hint_)
    assert 0.5 * same.noise_to_spread_ < float(told[1]) < 0.9 * same.noise_to_spread_


def test_what_is_not_to_be_had_is_no_hint():
    """As many pairs without an answer as may be leave no risk over the noise."""
    model = ridge("isotropic", n_pairs=199, epsilon=0.5, alpha=1.0, combine=None)
    model.fit(X, Y, **PUBLIC)
    assert 'randomness="both"' in model.hint_
    pairs = model.sampler_.pairs_
    pairs.differences = np.where(np.arange(199)[:, None] < 9, np.inf, pairs.differences)
    assert 'randomness="both"' not in model.hint_


def test_public_records_that_do_better_are_a_warning():
    """Wherever a model is fitted, with what is to be done."""
    model = ridge(epsilon=0.02, combine=None)
    with pytest.warns(UtilityWarning, match="alone score better .* serve a fit to"):
        model.fit(X, Y, **PUBLIC)
    assert model.reference_comparison_.advice in model.hint_
    assert ReferenceComparison(0.5, 0.2, 300, 200).advice == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ridge(epsilon=20.0).fit(X, Y, **PUBLIC)


def test_what_is_said_to_help_does():
    """By as much: a fit that follows the first of the advice has that ratio."""
    model = ridge("isotropic", epsilon=3.0, alpha=1.0, combine=None)
    units = np.array([1, 9, *[1] * 6])
    model.fit(WIDE * units, Y, X_reference=WIDE_PUBLIC * units, y_reference=Y_PUBLIC)
    advice = model.hint_.partition("What helps: ")[2].split("; ")
    tried = [each for each in advice if each.startswith("SensitivitySampler")]
    told = [float(each.partition("(then ")[2].split()[0]) for each in tried]
    assert len(told) == 2
    assert told == sorted(told)
    assert told[-1] < 0.9 * model.noise_to_spread_
    for text, ratio in zip(tried, told, strict=True):
        given = dict(re.findall(r'(\w+)="(\w+)"', text))
        fitted = copy.copy(model.sampler_).set_params(**given).calibrate()
        assert noise_to_spread(fitted) == pytest.approx(ratio, rel=0.05)


def test_a_model_that_is_no_better_than_a_constant_is_said():
    rng = np.random.default_rng(0)
    model = ridge(epsilon=100.0)
    model.fit(
        X, rng.normal(size=200), X_reference=X_PUBLIC[:60], y_reference=X_PUBLIC[:60, 0]
    )
    model.reference_comparison_ = ReferenceComparison(-0.1, -0.2, 60, 200)
    assert model.hint_.startswith("On the public records, the model predicts no better")


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_nothing_is_said_where_nothing_is_known():
    known = PrivateRidge(sensitivity=0.01).fit(X, Y)
    own = ridge(epsilon=100.0).fit(X, Y)  # pairs of private records are not told of
    for model in (known, own):
        assert math.isnan(model.noise_to_spread_)
        assert model.hint_ == ""
    with pytest.raises(AttributeError, match="not fitted"):
        _ = PrivateRidge().hint_


@pytest.mark.parametrize("sensitivity", ["bound", "secret"])
def test_noise_that_drowns_what_was_released_is_said(sensitivity):
    """Also where no pairs are known: the release and its noise are."""
    bounds, name = {}, sensitivity
    if sensitivity == "bound":
        bounds = {"x_norm": 5.0, "y_bounds": (-10.0, 10.0)}
    else:
        sensitivity = SensitivitySampler(n_pairs=100, reference=SecretSample(0.5))

    def hint(epsilon):
        model = PrivateRidge(1.0, epsilon=epsilon, sensitivity=sensitivity, **bounds)
        return model.set_params(random_state=0).fit(*make_data(30)).hint_

    remedy = {"bound": "pairs sampled"}.get(name, "SensitivitySampler(")
    said = [hint(0.01).partition("What helps: ")[2] for _ in range(3)]
    assert any(each.startswith(remedy) for each in said)
    assert any(each.endswith("more records.") for each in said)
    assert hint(1e4) == ""


@pytest.mark.slow
def test_every_hint_says_what_helps():
    """Also where there is nothing to set but the level."""
    best = SensitivitySampler(n_pairs=200, randomness="both", law="gaussian")
    model = PrivateRidge(sensitivity=best, epsilon=1.0, random_state=0)
    for epsilon in (0.05, 0.3, 0.6, 1.0, 2.0, 4.0):
        hint = model.set_params(epsilon=epsilon).fit(X, Y, **PUBLIC).hint_
        assert "helps: ." not in hint


@pytest.mark.slow
def test_a_penalty_that_makes_the_model_constant_is_said():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 12))
    labels = rng.random(900) < 0.05
    model = PrivateLogisticRegression(combine=None, random_state=0)
    model.fit(
        rows[:400], labels[:400], X_reference=rows[400:], y_reference=labels[400:]
    )
    assert "The chosen C makes the model nearly constant" in model.hint_
    told = PrivateLogisticRegression(1.0, random_state=0)
    told.fit(rows[:400], labels[:400], X_reference=rows[400:], y_reference=labels[400:])
    assert "constant" not in told.hint_


def test_outputs_that_never_differ_have_no_spread():
    zeros = np.zeros((300, 1))
    sampler = SensitivitySampler(n_pairs=40, epsilon=np.inf)
    model = PrivateRidge(
        epsilon=np.inf, fit_intercept=False, sensitivity=sampler, random_state=0
    )
    model.fit(zeros[:200], Y, X_reference=zeros, y_reference=Y_PUBLIC)
    assert math.isnan(model.noise_to_spread_)


# References that are far


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_honest_references_hardly_ever_warn(shape, epsilon):
    """One in a hundred, over samples of people and the noise; more are a failure."""
    sampler = ridge(shape, epsilon=epsilon).fit(X, Y, **PUBLIC).sampler_
    n_draws = 100
    answers = (answered(sampler.query_, *make_data(200)) for _ in range(n_draws))
    draws = (sampler.mechanism_.prepare(answer) for answer in answers)
    far = [distance(sampler, draw(noise_source(None))) > 1 for draw in draws]
    assert sum(far) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", ["other units", "other targets", "other people"])
def test_references_that_are_far_warn(shape, what):
    # A correction in other units of the features is penalized away, and so is noise.
    combine = None if what == "other units" else "auto"
    public = {
        "other units": {**PUBLIC, "X_reference": 10 * X_PUBLIC},
        "other targets": {**PUBLIC, "y_reference": Y_PUBLIC / 10},
        "other people": {**PUBLIC, "y_reference": Y_PUBLIC - 6 * X_PUBLIC[:, 0]},
    }[what]
    for seed in range(5):  # whichever pairs are drawn
        seeded = ridge(shape, epsilon=10.0, combine=combine)
        seeded.set_params(random_state=seed)
        with pytest.warns(ReferenceWarning, match="other units .* audit_reference"):
            model = seeded.fit(X, Y, **public)
        assert Doubt.OUTLIER in model.certificate_.doubts
        assert model.sampler_.certificate_ is model.certificate_
        # It is about what was released, and not about the pairs.
        assert Doubt.OUTLIER not in model.sampler_.calibrate().certificate_.doubts
        assert distance(model.sampler_, model.released_) > 2


def test_the_warning_is_about_the_release_alone():
    """What is far without noise, and near with it, does not warn."""
    public = {**PUBLIC, "y_reference": Y_PUBLIC - 6 * X_PUBLIC[:, 0]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ridge(epsilon=1e-3).fit(X, Y, **public)
    sampler = model.sampler_
    answer = sampler.pairs_.answer
    assert distance(sampler, answer) == 0
    noise = sampler.mechanism_.deviations()
    assert distance(sampler, answer + 99 * noise) > 1
    assert 2 * distance(sampler, answer + noise) == pytest.approx(
        distance(sampler, answer + 2 * noise)
    )


@pytest.mark.parametrize("how", ["few pairs", "schema", "add-remove"])
def test_what_cannot_be_compared_does_not_warn(how):
    far = Y_PUBLIC - 60 * X_PUBLIC[:, 0]
    if how == "few pairs":
        model, public = ridge(n_pairs=40), {**PUBLIC, "y_reference": far}
    elif how == "schema":
        box = SchemaReference([(-5.0, 5.0)] * 3, target=(-90.0, 90.0))
        model, public = ridge(epsilon=10.0), {"X_reference": box}
    else:  # compared, and honest
        model, public = ridge(epsilon=10.0), PUBLIC
        model.set_params(sensitivity__relation="add-remove")
        model.set_params(sensitivity__n_records=200)
    model.fit(X, Y, **public)
    assert Doubt.OUTLIER not in model.certificate_.doubts


def test_a_release_near_the_largest_numbers_is_far_without_a_word_of_numpy():
    """Its distance is no number, and a RuntimeWarning would be an error here."""
    features, targets = RNG.normal(size=(2, 100, 3)), RNG.normal(size=(2, 100))
    targets[0, 5] = 7e306
    model = PrivateRidge(random_state=0)
    with pytest.warns(ReferenceWarning, match="further from what the reference"):
        model.fit(
            features[0], targets[0], X_reference=features[1], y_reference=targets[1]
        )
    assert Doubt.OUTLIER in model.certificate_.doubts
