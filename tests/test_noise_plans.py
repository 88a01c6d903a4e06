"""Every randomness, law, shape and calibration, through both estimators."""

import json
import math
import pickle
from functools import cache

import numpy as np
import pytest
from certificates import filed
from laws import FALSE_ALARM, assert_law, rejects_law
from noise_plans import (
    DEFAULT_PLAN,
    DELTA,
    EPSILON,
    GAMMA,
    GRID,
    N_PAIRS,
    N_SHAPE,
    NOISE_SHAPES,
    PLANS,
    PRIVATE,
    PRIVATE_TARGETS,
    PUBLIC,
    REFERENCE,
    SHAPED,
    TARGETS,
    every_plan,
    fitted,
    isotropic,
    learned_shape,
    losses,
    make_sampler,
    many_pairs,
    norms,
    shaped_norms,
    switch,
)
from rows import risk_for_rows
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skparisk import (
    FiledCertificate,
    PrivacyLeakWarning,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core.calibrate import DKW, PAC, Exchangeable
from skparisk.core.laws import Gaussian, Laplace
from skparisk.queries import RidgeQuery
from skparisk.reference import CallableReference

RULES = {"exchangeable": Exchangeable(), "pac": PAC(0.05), "dkw": DKW()}

# Every plan


@pytest.mark.sampled(8)
@every_plan
def test_certificate_says_what_was_done(name):
    s, plan = fitted(name), DEFAULT_PLAN | PLANS[name]
    c, evidence = s.certificate_, s.certificate_.evidence
    both = plan["randomness"] == "both"
    shaped = plan["noise_shape"] != "isotropic"
    exact = plan["law"] == "gaussian" and plan["calibration"] == "exchangeable"
    assert evidence.law == plan["law"]
    assert c.randomness == plan["randomness"]
    assert evidence.noise_shape == plan["noise_shape"]
    assert c.delta == (0.0 if both else plan["delta"])
    assert evidence.gamma == GAMMA
    assert c.epsilon == EPSILON
    assert evidence.n_shape_pairs == (N_SHAPE if shaped else None)
    assert evidence.n_pairs == N_PAIRS - N_SHAPE * shaped
    assert (evidence.order_index is None) == evidence.averages == (both and exact)
    assert evidence.reference is not None
    rule = plan["calibration"]
    assert evidence.calibration == rule
    assert c.failure_prob == (0.05 if rule == "pac" else 0)
    assert c.risk > 0
    assert (c.risk, evidence.noise_scale, evidence.sensitivity) == (
        s.risk_,
        s.noise_scale_,
        s.sensitivity_,
    )
    assert not c.seeded
    assert c.private
    assert s.risk_ <= GAMMA
    assert c.risk_at(EPSILON) <= GAMMA
    assert c.epsilon_at(GAMMA) <= EPSILON
    assert c.risk_at(EPSILON / 3) >= c.risk_at(EPSILON) >= c.risk_at(EPSILON * 3)


@pytest.mark.sampled(8)
@every_plan
def test_releases_and_survives_pickling_json_and_cloning(name):
    s = fitted(name)
    copied = pickle.loads(pickle.dumps(s))
    assert copied.certificate_ == s.certificate_
    document = json.loads(json.dumps(s.certificate_.to_dict()))
    assert FiledCertificate.from_dict(document) == filed(s.certificate_)
    assert s.certificate_.guarantee in str(s.certificate_)
    size = 80 * math.sqrt(np.trace(s.mechanism_.covariance()))
    first, second = (sampler.release(PRIVATE) for sampler in (s, copied))
    for released in (first, second):
        assert released.shape == (3,)
        assert np.abs(released - PRIVATE.mean(axis=0)).max() < size
    assert (first != second).all()
    covariances = (sampler.mechanism_.covariance() for sampler in (s, copied))
    np.testing.assert_array_equal(*covariances)
    twin = clone(s)
    assert not hasattr(twin, "certificate_")
    assert pickle.dumps(twin.get_params()) == pickle.dumps(s.get_params())


@pytest.mark.sampled(8)
@every_plan
def test_same_seed_same_noise_and_no_seed_works(name):
    s = fitted(name)
    again = clone(s).fit(PUBLIC)
    assert again.certificate_ == s.certificate_
    assert again.pairs_.draw_seed == s.pairs_.draw_seed
    assert s.calibrate().certificate_ == s.certificate_
    np.random.seed(1)  # what a random_state of None is; 0 for some checks
    free = clone(s).set_params(random_state=None).fit(PUBLIC)
    assert (free.risk_, free.n_outputs_) == (s.risk_, s.n_outputs_)
    assert (free.differences_ != s.differences_).any()


@pytest.mark.sampled(8)
@every_plan
def test_sensitivity_is_an_order_statistic_in_the_coordinates_of_the_shape(name):
    s = fitted(name)
    n_shape = 0 if s.noise_shape == "isotropic" else N_SHAPE
    shape = learned_shape(s.noise_shape, s.differences_[:n_shape])
    np.testing.assert_array_equal(
        shape.color(np.eye(3)), s.mechanism_.shape.color(np.eye(3))
    )
    expected = shaped_norms(s, shape, n_shape)
    np.testing.assert_allclose(s.sensitivities_, expected, rtol=1e-14)
    rule = RULES[s.calibration]
    stricter = risk_for_rows(GAMMA, len(PUBLIC), len(expected))
    index = rule.order_index(len(expected), stricter)
    assert s.sensitivity_ == pytest.approx(np.sort(expected)[index - 1], rel=1e-14)
    if s.randomness == "implicit":
        assert s.certificate_.evidence.order_index == index


SHIFTS = {
    "laplace": lambda: Laplace().largest_shift(EPSILON, DELTA),
    "gaussian": lambda: Gaussian().largest_shift(EPSILON, DELTA),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", [name for name, plan in PLANS.items() if plan["randomness"] == "implicit"]
)
def test_noise_over_pairs_is_that_of_the_mechanism_for_the_sensitivity(name):
    s = fitted(name)
    shift = SHIFTS[s.law]() if s.delta else EPSILON
    assert s.noise_scale_ == pytest.approx(s.sensitivity_ / shift, rel=GRID)
    assert s.noise_scale_ >= s.sensitivity_ / shift


@pytest.mark.sampled(8)
@every_plan
def test_calibrate_takes_what_is_set_now(name):
    """One fitted sampler goes through all plans; its pairs stay the same object."""
    base = isotropic()
    before = pickle.dumps(base)
    other = switch(base, **PLANS[name])
    calibrated = other.calibrate()
    assert calibrated.certificate_ == fitted(name).certificate_
    np.testing.assert_array_equal(
        calibrated.mechanism_.covariance(), fitted(name).mechanism_.covariance()
    )
    assert calibrated.differences_ is other.differences_
    back = calibrated.set_params(**DEFAULT_PLAN).calibrate()
    assert back.certificate_ == base.certificate_
    assert other.certificate_ == base.certificate_
    assert pickle.dumps(base) == before


@pytest.mark.sampled(8)
@every_plan
def test_infinite_epsilon_releases_the_exact_answer(name):
    s = fitted(name).calibrate(epsilon=math.inf)
    direct = clone(fitted(name)).set_params(epsilon=math.inf).fit(PUBLIC)
    assert s.certificate_ == direct.certificate_
    for sampler in (s, direct):
        np.testing.assert_array_equal(sampler.release(PRIVATE), PRIVATE.mean(axis=0))
        assert sampler.noise_scale_ == 0
        assert sampler.noise_epsilon_ == math.inf
        assert not sampler.mechanism_.covariance().any()
    assert s.certificate_.epsilon == math.inf
    assert not s.certificate_.private
    assert s.certificate_.guarantee.startswith("There is no guarantee.")
    document = json.loads(json.dumps(s.certificate_.to_dict()))
    assert FiledCertificate.from_dict(document) == filed(s.certificate_)


@cache
def ridge_sampler():
    sampler = SensitivitySampler(RidgeQuery(), n_pairs=N_PAIRS, random_state=0)
    return sampler.fit(PUBLIC, TARGETS)


@pytest.mark.sampled(8)
@every_plan
def test_private_ridge_takes_every_plan(name):
    sampler = switch(ridge_sampler(), **PLANS[name])
    model = PrivateRidge(epsilon=EPSILON, gamma=GAMMA, sensitivity=sampler)
    model.fit(PRIVATE, PRIVATE_TARGETS)
    c = model.certificate_
    assert c == model.sampler_.certificate_
    evidence = c.evidence
    assert (c.randomness, evidence.noise_shape) == (
        sampler.randomness,
        sampler.noise_shape,
    )
    assert (model.epsilon_, model.risk_) == (EPSILON, c.risk)
    assert model.gamma_ == evidence.gamma
    assert model.sensitivity_ == evidence.sensitivity
    assert model.noise_scale_ == evidence.noise_scale
    assert model.noise_epsilon_ == model.sensitivity_ / model.noise_scale_
    assert c.private
    ridge = Ridge().fit(PRIVATE, PRIVATE_TARGETS)
    assert (model.coef_ != ridge.coef_).all()
    model.set_params(epsilon=math.inf).fit(PRIVATE, PRIVATE_TARGETS)
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-11)
    assert model.intercept_ == pytest.approx(ridge.intercept_, rel=1e-11)
    assert not model.certificate_.private


@pytest.mark.parametrize("plan", [{}, SHAPED])
def test_private_ridge_samples_by_itself_for_a_plan(plan):
    sampler = SensitivitySampler(n_pairs=N_PAIRS, **plan)
    model = PrivateRidge(1.0, epsilon=EPSILON, gamma=GAMMA, sensitivity=sampler)
    model.set_params(combine=None, random_state=0)
    model.fit(PRIVATE, PRIVATE_TARGETS, **REFERENCE)
    direct = switch(ridge_sampler(), **plan).calibrate(epsilon=EPSILON, gamma=GAMMA)
    assert model.certificate_ == direct.certificate_
    assert model.sampler_.reference is None
    assert pickle.loads(pickle.dumps(model)).certificate_ == model.certificate_
    assert not hasattr(sampler, "certificate_")


# What is claimed, on fresh pairs


def share_above(sampler, fresh, scale):
    """Return how many fresh pairs break the level, at another scale of the noise."""
    differences = sampler.mechanism_.shape.whiten(fresh) / scale
    if sampler.randomness == "implicit":
        shifts = norms(differences, sampler.law)
        if not sampler.delta:
            return np.mean(shifts > EPSILON)
        divergence = {"laplace": Laplace().profile, "gaussian": Gaussian().profile}
        law = sampler.certificate_.evidence.law
        return np.mean(divergence[law](EPSILON, shifts) > sampler.delta)
    rng = np.random.default_rng(5)
    draw = rng.laplace if sampler.law == "laplace" else rng.normal
    loss = losses(differences, draw(size=differences.shape), sampler.law)
    return np.mean(np.abs(loss) > EPSILON)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"delta": 0.1},
        {"law": "gaussian", "delta": DELTA},
        {"randomness": "both"},
        {"randomness": "both", "law": "gaussian"},
    ],
)
def test_fresh_pairs_break_the_level_as_often_as_was_asked_for(plan, shape):
    """Nine tenths of the noise, or eleven, would not do."""
    sampler = switch(many_pairs(0), noise_shape=shape, **plan).calibrate()
    fresh = many_pairs(1).differences_
    assert share_above(sampler, fresh, sampler.noise_scale_) > 0.88 * GAMMA
    assert share_above(sampler, fresh, sampler.noise_scale_) < 1.12 * GAMMA
    assert share_above(sampler, fresh, 0.9 * sampler.noise_scale_) > 1.05 * GAMMA
    assert share_above(sampler, fresh, 1.1 * sampler.noise_scale_) < 0.95 * GAMMA


# What is refused of randomness, law, shape and calibration, before a draw


# What is refused, before anything is drawn


REFUSALS = [
    *(
        ({"delta": delta}, rf"delta must be a number in \[0, 1\), got {text}\.$")
        for delta, text in [(-0.1, r"-0\.1"), (1.0, r"1\.0"), (None, "None")]
    ),
    (
        {"noise_shape": "round"},
        "noise_shape must be one of 'isotropic', .*'whitened', 'auto'; got 'round'",
    ),
    ({"noise_shape": 5}, "noise_shape must be one of 'isotropic', .*; got 5"),
    (
        {"randomness": "explicit"},
        "randomness must be one of 'implicit', 'both'; got 'explicit'",
    ),
    (
        {"law": "normal"},
        "law must be one of 'laplace', 'gaussian', 'exponential'; got 'normal'",
    ),
    (
        {"law": "gaussian"},
        r"delta must be above 0 with law='gaussian' and randomness='implicit', .*; "
        r"got 0\.0",
    ),
]


def never(*_):
    raise AssertionError("drawn")


def test_plans_that_make_no_sense_are_refused_before_anything_is_drawn():
    for plan, message in REFUSALS:
        reference = CallableReference(never)
        with pytest.raises(ValueError, match=message):
            make_sampler(query=never, reference=reference, **plan).fit(PUBLIC)
        sampler = SensitivitySampler(reference=reference, **plan)
        if "epsilon" not in plan:
            with pytest.raises(ValueError, match=message):
                PrivateRidge(sensitivity=sampler).fit(PRIVATE, PRIVATE_TARGETS)


def test_plans_that_make_no_sense_are_refused_by_calibrate():
    for plan, message in REFUSALS:
        sampler = switch(isotropic(), **plan)
        with pytest.raises(ValueError, match=message):
            sampler.calibrate()
        assert sampler.certificate_ == isotropic().certificate_


def test_seed_that_is_none_is_refused_by_calibrate():
    sampler = switch(isotropic()).set_params(noise_random_state="x")
    with pytest.raises(ValueError, match="noise_random_state must be None, a whole"):
        sampler.calibrate()


def test_gaussian_noise_needs_no_delta_where_there_is_no_noise():
    sampler = make_sampler(law="gaussian", epsilon=math.inf).fit(PUBLIC)
    assert sampler.certificate_.delta == 0.0
    np.testing.assert_array_equal(sampler.release(PRIVATE), PRIVATE.mean(axis=0))


# How much noise each plan takes; records by themselves; searches; private pairs


# How much noise


def size_of_noise(**plan):
    """Return the mean square of the noise, added up over outputs."""
    sampler = switch(many_outputs(), **plan).calibrate(epsilon=1.0, gamma=0.05)
    return np.trace(sampler.mechanism_.covariance())


@cache
def many_outputs():
    """Twenty outputs that hardly move but along one direction."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(500, 1))
    X = common * rng.uniform(1, 10, size=20) + 0.3 * rng.normal(size=(500, 20))
    return make_sampler(n_pairs=4000).fit(X)


@pytest.mark.slow
def test_noise_and_pairs_together_need_less_for_many_outputs():
    ratio = size_of_noise(randomness="both") / size_of_noise()
    assert ratio < 0.5
    gaussian = {"law": "gaussian", "randomness": "both"}
    over_pairs = {"law": "gaussian", "delta": 1e-6}
    assert size_of_noise(**gaussian) < 0.5 * size_of_noise(**over_pairs)


def test_whitened_noise_is_less_where_outputs_move_together():
    for plan in [{}, {"randomness": "both", "law": "gaussian"}]:
        sizes = [size_of_noise(noise_shape=shape, **plan) for shape in NOISE_SHAPES]
        assert sizes[2] < 0.8 * sizes[0]
        assert sizes[2] < sizes[1]


def test_delta_is_not_used_for_noise_and_pairs_together():
    for law in ("laplace", "gaussian"):
        plain, other = (
            switch(isotropic(), randomness="both", law=law, delta=delta)
            for delta in (0.0, 0.1)
        )
        assert plain.calibrate().certificate_ == other.calibrate().certificate_


# The local model


def test_records_get_noise_of_the_shape_each_by_itself():
    sampler = make_sampler(query=None, noise_random_state=0, **SHAPED).fit(PUBLIC)
    assert (sampler.n_records_, sampler.n_outputs_) == (1, 3)
    X = np.tile(PRIVATE[:1], (17_000, 1))
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
        noise = sampler.transform(X) - X
    coordinates = sampler.mechanism_.shape.whiten(noise)
    scale = sampler.noise_scale_
    assert_law(coordinates.ravel(), stats.norm(scale=scale).cdf)
    for wrong in (0.9 * scale, 1.1 * scale):
        assert rejects_law(coordinates.ravel(), stats.norm(scale=wrong).cdf)
    covariance = sampler.mechanism_.covariance()
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(noise.T) / size, covariance / size, atol=0.05)
    assert covariance[0, 1] > 0.5 * size[0, 1]
    for column in coordinates.T:
        next_row = stats.pearsonr(column[:-1], column[1:])
        assert next_row.pvalue > FALSE_ALARM
    assert len(np.unique(noise)) == noise.size


# Searches, and a reference that is private
