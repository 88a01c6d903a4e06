"""Every randomness, mechanism, shape and calibration, through both estimators."""

import json
import math
import pickle
import struct
from functools import cache

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws import FALSE_ALARM, assert_law, rejects_law
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from skparisk import (
    CalibrationError,
    Certificate,
    HeuristicGuaranteeWarning,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.calibration._rules import as_rule
from skparisk.mechanisms import GaussianMechanism, LaplaceMechanism, fit_noise_shape
from skparisk.mechanisms._shapes import NOISE_SHAPES
from skparisk.papers import (
    DandekarTheorem4,
    DandekarTheorem5,
    dandekar_noise_epsilon,
)
from skparisk.privacy_loss import (
    gaussian_classical_shift,
    gaussian_delta,
    gaussian_explicit_shift,
    gaussian_shift,
    laplace_delta,
    laplace_delta_noise_epsilon,
)
from skparisk.queries import MeanQuery, RidgeQuery
from skparisk.reference import CallableReference, TableReference
from skparisk.sensitivity._certify import certify_sampled, norms_of_pairs
from skparisk.sensitivity._pairs import SampledPairs

pytestmark = pytest.mark.filterwarnings(
    "ignore::skparisk.exceptions.HeuristicGuaranteeWarning"
)

RNG = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [5.0, 4.0, 2.0]])
PUBLIC = RNG.normal(size=(300, 3)) @ MIXING.T
PRIVATE = RNG.normal(size=(300, 3)) @ MIXING.T
TARGETS = PUBLIC @ [1.0, -2.0, 0.5] + RNG.normal(size=300)
PRIVATE_TARGETS = PRIVATE @ [1.0, -2.0, 0.5] + RNG.normal(size=300)
REFERENCE = {"X_reference": PUBLIC, "y_reference": TARGETS}

EPSILON, GAMMA, DELTA = 0.8, 0.2, 1e-3
N_PAIRS, N_SHAPE = 251, 125
GRID = 1e-5  # what the grid and rounding may cost

SHAPED = {"randomness": "both", "mechanism": "gaussian", "noise_shape": "whitened"}


def valid_plans():
    """All that can be combined, but for numbers."""
    rules = [{"calibration": name} for name in ("exchangeable", "pac", "dkw")]
    for shape in NOISE_SHAPES:
        noise = [
            {"mechanism": "laplace"},
            {"mechanism": "laplace", "delta": DELTA},
            {"mechanism": "gaussian", "delta": DELTA},
            {"mechanism": "gaussian-classical", "delta": DELTA},
        ]
        implicit = [a | b for a in noise for b in rules]
        implicit.append({"mechanism": "laplace", "calibration": DandekarTheorem5()})
        for plan in implicit:
            yield {"randomness": "implicit", "noise_shape": shape} | plan
        draws = [{"n_draws": n} for n in (None, 1, 5)]
        for mechanism in ("laplace", "gaussian"):
            both = [rules[0] | n for n in draws] + rules[1:]
            if mechanism == "gaussian":
                both.append({"n_draws": 0})
            for plan in both:
                yield {
                    "randomness": "both",
                    "mechanism": mechanism,
                    "noise_shape": shape,
                } | plan
    for plan in (
        {"mechanism": "laplace"},
        {"mechanism": "laplace", "delta": DELTA},
        {"mechanism": "laplace", "calibration": DandekarTheorem4()},
        {"mechanism": "gaussian"},
        {"mechanism": "gaussian", "delta": DELTA},
        {"mechanism": "gaussian-classical", "delta": DELTA},
    ):
        yield {"randomness": "explicit", "sensitivity": 0.5} | plan


# As printed in the papers, by what the risk is over.
THEOREMS = {
    "implicit": DandekarTheorem5(),
    "both": DandekarTheorem5(),
    "explicit": DandekarTheorem4(),
}
PLANS = {" ".join(str(v) for v in plan.values()): plan for plan in valid_plans()}
every_plan = pytest.mark.parametrize("name", PLANS)
sampled_plans = pytest.mark.parametrize(
    "name", [name for name, plan in PLANS.items() if plan["randomness"] != "explicit"]
)

PARAMETERS = set(SensitivitySampler().get_params(deep=False))
FITTED = {"calibrated_", "query_", "n_features_in_"}
DEFAULTS = SensitivitySampler().get_params(deep=False)
OF_THE_PLAN = (
    "randomness",
    "mechanism",
    "noise_shape",
    "calibration",
    "delta",
    "n_draws",
    "sensitivity",
)
DEFAULT_PLAN = {name: DEFAULTS[name] for name in OF_THE_PLAN}


def make_sampler(**parameters):
    usual = {"epsilon": EPSILON, "gamma": GAMMA, "n_pairs": N_PAIRS, "random_state": 0}
    return SensitivitySampler(**({"query": MeanQuery()} | usual | parameters))


@cache
def fitted(name):
    """Return a sampler for a plan, which tests share and leave as it is."""
    return make_sampler(**PLANS[name]).fit(PUBLIC)


@cache
def isotropic():
    return make_sampler().fit(PUBLIC)


def switch(sampler, **plan):
    """Return a copy with another plan and the same pairs, not yet calibrated."""
    other = pickle.loads(pickle.dumps(sampler))
    return other.set_params(**(DEFAULT_PLAN | plan))


def norms(differences, mechanism):
    return np.linalg.norm(differences, 1 if mechanism == "laplace" else 2, axis=1)


def shaped_norms(sampler, shape, n_shape):
    """Return norms in the coordinates of a shape, with what they may be off."""
    differences = shape.whiten(sampler.differences_[n_shape:])
    errors = shape.whiten_errors(sampler.difference_errors_[n_shape:])
    sizes = norms(differences, sampler.mechanism)
    if shape.name == "isotropic":  # has been added to the differences themselves
        return sizes
    return sizes + norms(errors, sampler.mechanism)


# Every plan


@pytest.mark.sampled(16)
@every_plan
def test_fitted_attributes_are_the_documented_ones(name):
    s = fitted(name)
    known = s.randomness == "explicit"
    assert set(vars(s)) == PARAMETERS | FITTED
    for name in ("differences_", "difference_errors_", "sensitivities_"):
        assert hasattr(s, name) != known
    assert (s.noise_scale_ > 0) & math.isfinite(s.noise_scale_)
    assert s.noise_scale_ == s.mechanism_.noise_scale
    assert s.noise_epsilon_ == s.sensitivity_ / s.noise_scale_
    assert (s.mechanism_.n_outputs, s.n_outputs_, s.n_records_) == (3, 3, 300)
    assert s.mechanism_.shape.name == s.noise_shape
    if not known:
        n_shape = 0 if s.noise_shape == "isotropic" else N_SHAPE
        assert s.differences_.shape == s.difference_errors_.shape == (N_PAIRS, 3)
        assert s.sensitivities_.shape == (N_PAIRS - n_shape,)
        for pairs in (s.differences_, s.difference_errors_):
            assert not pairs.flags.writeable


@every_plan
def test_certificate_says_what_was_done(name):
    s, plan = fitted(name), DEFAULT_PLAN | PLANS[name]
    c, evidence = s.certificate_, s.certificate_.evidence
    known, both = (plan["randomness"] == word for word in ("explicit", "both"))
    heuristic = not isinstance(plan["calibration"], str)
    shaped = plan["noise_shape"] != "isotropic"
    exact = plan["mechanism"] == "gaussian" and plan["calibration"] == "exchangeable"
    draws = plan["n_draws"]
    if both and draws is None:
        draws = 0 if exact else 1
    assert evidence.mechanism == plan["mechanism"].removesuffix("-classical")
    assert c.randomness == plan["randomness"]
    assert evidence.noise_shape == plan["noise_shape"]
    assert c.delta == (0.0 if both else plan["delta"])
    assert evidence.gamma == (0.0 if known and plan["delta"] else GAMMA)
    assert c.epsilon == EPSILON
    assert evidence.n_draws == (draws if both else None)
    assert evidence.n_shape_pairs == (N_SHAPE if shaped else None)
    assert evidence.n_pairs == (None if known else N_PAIRS - N_SHAPE * shaped)
    assert (evidence.order_index is None) == (known or draws == 0)
    assert (evidence.reference is None) == known
    if known:
        name = plan["calibration"].name if heuristic else "declared"
        assert evidence.calibration == name
        assert c.failure_prob == 0
        assert c.risk == (
            0.0 if evidence.mechanism == "laplace" or c.delta else GAMMA
        ) or (heuristic and c.risk == GAMMA)
    else:
        rule = plan["calibration"]
        assert evidence.calibration == (rule.name if heuristic else rule)
        assert c.failure_prob == (0.05 if rule == "pac" else 0)
        assert c.risk > 0
    assert (c.risk, evidence.noise_scale, evidence.sensitivity) == (
        s.risk_,
        s.noise_scale_,
        s.sensitivity_,
    )
    assert not c.seeded
    assert c.private == (not heuristic)
    if not heuristic:
        assert s.risk_ <= GAMMA
        assert c.risk_at(EPSILON) <= GAMMA
        assert c.epsilon_at(GAMMA) <= EPSILON
        assert c.risk_at(EPSILON / 3) >= c.risk_at(EPSILON) >= c.risk_at(EPSILON * 3)


@every_plan
def test_releases_and_survives_pickling_json_and_cloning(name):
    s = fitted(name)
    copied = pickle.loads(pickle.dumps(s))
    assert copied.certificate_ == s.certificate_
    document = json.loads(json.dumps(s.certificate_.to_dict()))
    assert Certificate.from_dict(document) == s.certificate_
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


@pytest.mark.sampled(16)
@every_plan
def test_same_seed_same_noise_and_no_seed_works(name):
    s = fitted(name)
    again = clone(s).fit(PUBLIC)
    assert again.certificate_ == s.certificate_
    if s.pairs_ is not None:
        assert again.pairs_.draw_seed == s.pairs_.draw_seed
    assert s.calibrate().certificate_ == s.certificate_
    np.random.seed(1)  # what a random_state of None is; 0 for some checks
    free = clone(s).set_params(random_state=None).fit(PUBLIC)
    if s.randomness == "explicit":
        assert free.certificate_ == s.certificate_
    else:
        assert (free.risk_, free.n_outputs_) == (s.risk_, s.n_outputs_)
        assert (free.differences_ != s.differences_).any()


@pytest.mark.parametrize(
    ("backend", "plan"),
    [
        ("threading", {}),
        ("threading", {"randomness": "both"}),
        ("threading", {"randomness": "both", "mechanism": "gaussian", "n_draws": 3}),
        ("loky", SHAPED),
    ],
)
def test_noise_does_not_depend_on_the_number_of_workers(backend, plan):
    one = make_sampler(**plan).fit(PUBLIC)
    with joblib.parallel_config(backend=backend):
        two = make_sampler(n_jobs=2, **plan).fit(PUBLIC)
    assert two.certificate_ == one.certificate_
    np.testing.assert_array_equal(
        two.mechanism_.covariance(), one.mechanism_.covariance()
    )


@pytest.mark.sampled(16)
@sampled_plans
def test_sensitivity_is_an_order_statistic_in_the_coordinates_of_the_shape(name):
    s = fitted(name)
    n_shape = 0 if s.noise_shape == "isotropic" else N_SHAPE
    shape = fit_noise_shape(s.noise_shape, s.differences_[:n_shape])
    np.testing.assert_array_equal(
        shape.color(np.eye(3)), s.mechanism_.shape.color(np.eye(3))
    )
    expected = shaped_norms(s, shape, n_shape)
    np.testing.assert_allclose(s.sensitivities_, expected, rtol=1e-14)
    rule = as_rule(s.calibration, s.failure_prob)
    index = rule.order_index(len(expected), GAMMA)
    assert s.sensitivity_ == s.sensitivity_at(GAMMA)
    assert s.sensitivity_ == pytest.approx(np.sort(expected)[index - 1], rel=1e-14)
    if s.randomness == "implicit":
        assert s.certificate_.evidence.order_index == index


SHIFTS = {
    "laplace": lambda: laplace_delta_noise_epsilon(EPSILON, DELTA),
    "gaussian": lambda: gaussian_shift(EPSILON, DELTA),
    "gaussian-classical": lambda: gaussian_classical_shift(EPSILON, DELTA),
}


@pytest.mark.parametrize(
    "name", [name for name, plan in PLANS.items() if plan["randomness"] == "implicit"]
)
def test_noise_over_pairs_is_that_of_the_mechanism_for_the_sensitivity(name):
    s = fitted(name)
    shift = SHIFTS[s.mechanism]() if s.delta else EPSILON
    assert s.noise_scale_ == pytest.approx(s.sensitivity_ / shift, rel=GRID)
    assert s.noise_scale_ >= s.sensitivity_ / shift


@pytest.mark.sampled(16)
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
    if other.randomness == "explicit":
        assert not hasattr(calibrated, "sensitivities_")
        with pytest.raises(IncompatibleError, match="There are no sampled pairs"):
            calibrated.sensitivity_at(0.1)
    else:
        assert calibrated.differences_ is other.differences_
        back = calibrated.set_params(**DEFAULT_PLAN).calibrate()
        assert back.certificate_ == base.certificate_
    assert other.certificate_ == base.certificate_
    assert pickle.dumps(base) == before


@pytest.mark.sampled(16)
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
    assert Certificate.from_dict(document) == s.certificate_


@cache
def ridge_sampler():
    sampler = SensitivitySampler(RidgeQuery(), n_pairs=N_PAIRS, random_state=0)
    return sampler.fit(PUBLIC, TARGETS)


@pytest.mark.sampled(16)
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
    assert c.private == isinstance(sampler.calibration, str)
    ridge = Ridge().fit(PRIVATE, PRIVATE_TARGETS)
    assert (model.coef_ != ridge.coef_).all()
    model.set_params(epsilon=math.inf).fit(PRIVATE, PRIVATE_TARGETS)
    np.testing.assert_array_equal(model.coef_, ridge.coef_)
    assert model.intercept_ == ridge.intercept_
    assert not model.certificate_.private


@pytest.mark.parametrize(
    "plan", [{}, SHAPED, {"randomness": "explicit", "sensitivity": 1.0}]
)
def test_private_ridge_samples_by_itself_for_a_plan(plan):
    sampler = SensitivitySampler(n_pairs=N_PAIRS, **plan)
    model = PrivateRidge(epsilon=EPSILON, gamma=GAMMA, sensitivity=sampler)
    model.set_params(random_state=0).fit(PRIVATE, PRIVATE_TARGETS, **REFERENCE)
    direct = switch(ridge_sampler(), **plan).calibrate(epsilon=EPSILON, gamma=GAMMA)
    assert model.certificate_ == direct.certificate_
    assert model.sampler_.reference is None
    assert pickle.loads(pickle.dumps(model)).certificate_ == model.certificate_
    assert not hasattr(sampler, "certificate_")


def test_numbers_of_numpy_make_plain_certificates():
    s = make_sampler(
        randomness="both",
        epsilon=np.float32(0.5),
        gamma=np.float64(0.25),
        delta=np.float64(0.0),
        n_draws=np.int64(3),
        n_pairs=np.int32(60),
    ).fit(PUBLIC)
    document = json.loads(json.dumps(s.certificate_.to_dict()))
    assert Certificate.from_dict(document) == s.certificate_
    s = make_sampler(randomness="explicit", sensitivity=np.float64(2)).fit(PUBLIC)
    json.dumps(s.certificate_.to_dict())


# What is claimed, on fresh pairs


def losses(differences, noise, law):
    """Return the privacy loss of each difference with its draw of standard noise."""
    if law == "laplace":
        return (np.abs(noise + differences) - np.abs(noise)).sum(axis=1)
    return (differences * noise).sum(axis=1) + (differences**2).sum(axis=1) / 2


def share_above(sampler, fresh, scale):
    """Return how many fresh pairs break the level, at another scale of the noise."""
    differences = sampler.mechanism_.shape.whiten(fresh) / scale
    if sampler.randomness == "implicit":
        shifts = norms(differences, sampler.mechanism)
        if not sampler.delta:
            return np.mean(shifts > EPSILON)
        divergence = {"laplace": laplace_delta, "gaussian": gaussian_delta}
        law = sampler.certificate_.evidence.mechanism
        return np.mean(divergence[law](EPSILON, shifts) > sampler.delta)
    rng = np.random.default_rng(5)
    draw = rng.laplace if sampler.mechanism == "laplace" else rng.normal
    loss = losses(differences, draw(size=differences.shape), sampler.mechanism)
    return np.mean(np.abs(loss) > EPSILON)


@cache
def many_pairs(seed):
    return make_sampler(n_pairs=16_000, random_state=seed).fit(PUBLIC)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"delta": 0.1},
        {"mechanism": "gaussian", "delta": DELTA},
        {"randomness": "both"},
        {"randomness": "both", "n_draws": 4},
        {"randomness": "both", "mechanism": "gaussian"},
        {"randomness": "both", "mechanism": "gaussian", "n_draws": 1},
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


# Differences that are off by rounding


def certify(sampler, differences, errors, draw_seed=0):
    """Return noise for other pairs; what else a certificate says does not matter."""
    rounding = np.zeros(differences.shape[1])
    return certify_sampled(
        sampler._plan(),
        SampledPairs(differences, errors, rounding, draw_seed=draw_seed),
        n_records=300,
        relation="replace-one",
        reference="pairs",
    )


@cache
def nearly_collinear():
    """Ridge, as it is and as a plain function, on the same pairs of little noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    X[:, 1] += X[:, 0]
    y = X[:, 0] + 1e-4 * rng.normal(size=3000)
    ridge = RidgeQuery(0.0)
    return tuple(
        make_sampler(query=query, n_pairs=400).fit(X, y)
        for query in (ridge, lambda X, y: ridge(X, y))
    )


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", ["mean", "ridge"])
def test_queries_that_answer_pairs_together_say_how_far_they_may_be_off(name, relation):
    """The pairs are those of the plain function, whose differences are exact."""
    query = {"mean": MeanQuery(), "ridge": RidgeQuery()}[name]
    functions = {"mean": lambda X: query(X), "ridge": lambda X, y: query(X, y)}
    known, plain = (
        make_sampler(query=q, relation=relation, n_pairs=100).fit(PUBLIC, TARGETS)
        for q in (query, functions[name])
    )
    assert plain.difference_errors_ is None
    errors = known.difference_errors_
    assert errors.shape == known.differences_.shape
    assert not errors.flags.writeable
    assert (errors > 0).all()
    off = np.abs(known.differences_ - plain.differences_)
    assert (off <= errors).all()
    assert (np.abs(known.differences_) >= np.abs(plain.differences_)).all()
    assert (errors <= 1e-6 * np.abs(plain.differences_).max()).all()
    copied = pickle.loads(pickle.dumps(known))
    np.testing.assert_array_equal(copied.difference_errors_, errors)
    assert known.calibrate().difference_errors_ is errors


@pytest.mark.sampled(16)
@sampled_plans
def test_plain_function_gets_hardly_less_noise(name):
    """As it pays for no errors; only drawn noise costs a share of the level."""
    known = fitted(name)
    plain = make_sampler(query=lambda X: MeanQuery()(X), **PLANS[name]).fit(PUBLIC)
    assert plain.difference_errors_ is None
    assert plain.sensitivity_ <= known.sensitivity_ * (1 + 1e-12)
    assert plain.sensitivity_ == pytest.approx(known.sensitivity_, rel=1e-9)
    ratio = known.noise_scale_ / plain.noise_scale_
    if known.certificate_.evidence.n_draws:
        assert 1 + 1e-6 < ratio < 1.001
    else:
        assert ratio == pytest.approx(1, rel=1e-6)


DRAWN_ONCE = {"randomness": "both", "n_draws": 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"mechanism": "gaussian", "delta": DELTA},
        {"randomness": "both", "mechanism": "gaussian"},
        DRAWN_ONCE,
        DRAWN_ONCE | {"mechanism": "gaussian"},
    ],
)
def test_rounding_of_ridge_is_on_the_safe_side_in_every_shape(plan, shape):
    """Sums of outputs that move together are small; what they are off by is not.

    Both calibrate with the same second half of the pairs, in the coordinates of the
    same first half. Differences are about a hundred times what they may be off: so
    much more noise at the most. Drawn noise pays a share of 2**-8 of the level, which
    is less than that: three to eight times the noise for these.
    """
    known, plain = nearly_collinear()
    assert plain.difference_errors_ is None
    assert known.pairs_.draw_seed == plain.pairs_.draw_seed
    half = 0 if shape == "isotropic" else 200
    mixed = np.concatenate([known.differences_[:half], plain.differences_[half:]])
    sampler = switch(known, noise_shape=shape, **plan)
    safe = certify(sampler, known.differences_, known.difference_errors_)
    exact = certify(sampler, mixed, None)
    unpaid = certify(sampler, known.differences_, None)
    for other in (exact, unpaid):
        np.testing.assert_array_equal(
            safe.noise.shape.color(np.eye(3)), other.noise.shape.color(np.eye(3))
        )
    pairs = (
        (known.differences_, known.difference_errors_),
        (mixed, None),
        (known.differences_, None),
    )
    law = safe.certificate.evidence.mechanism
    sizes, exactly, unpaid_sizes = (
        norms_of_pairs(
            SampledPairs(d, e, np.zeros(3)).take(slice(half, None)), safe.shape, law
        )
        for d, e in pairs
    )
    assert (sizes >= exactly).all()
    if shape == "whitened" and sampler.mechanism == "laplace":
        # Moved away from zero as outputs, and nearer to it as sums of outputs.
        assert (unpaid_sizes < exactly).any()
    ratio = safe.certificate.evidence.sensitivity
    ratio /= exact.certificate.evidence.sensitivity
    assert 1 <= ratio < 1.02
    ratio = safe.noise.noise_scale / exact.noise.noise_scale
    assert 1 <= ratio < (1.25 if "n_draws" in plan else 1.02)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["diagonal", "whitened"])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1])
def test_feature_that_is_constant_has_no_shape_through_private_ridge(constant, shape):
    """Its coefficient is 0, or what rounding makes of it."""
    X, X_reference = PRIVATE.copy(), PUBLIC.copy()
    X[:, 1] = X_reference[:, 1] = constant
    sampler = SensitivitySampler(n_pairs=N_PAIRS, noise_shape=shape)
    model = PrivateRidge(sensitivity=sampler, random_state=0)
    message = f"noise_shape='{shape}' needs .* output 1 is the same, or nearly so, on"
    with pytest.raises(ValueError, match=message):
        model.fit(X, PRIVATE_TARGETS, X_reference=X_reference, y_reference=TARGETS)
    sampler.set_params(noise_shape="isotropic")
    model.fit(X, PRIVATE_TARGETS, X_reference=X_reference, y_reference=TARGETS)
    assert model.certificate_.private


@pytest.mark.sampled(12)
@pytest.mark.parametrize("units", [1e-12, 1e-6, 1e12])
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"randomness": "both"},
        {"randomness": "both", "mechanism": "gaussian"},
        {"randomness": "both", "mechanism": "gaussian", "n_draws": 1},
    ],
)
def test_noise_follows_the_units_of_the_data(plan, shape, units):
    one, other = (
        make_sampler(noise_shape=shape, **plan).fit(X) for X in (PUBLIC, units * PUBLIC)
    )
    np.testing.assert_allclose(
        other.mechanism_.covariance(),
        units**2 * one.mechanism_.covariance(),
        rtol=2e-6,
    )
    if shape == "isotropic":
        assert other.noise_scale_ == pytest.approx(units * one.noise_scale_, rel=1e-6)
    np.testing.assert_allclose(
        other.certificate_.evidence.curve, one.certificate_.evidence.curve, rtol=1e-4
    )


# The shape of the noise


def with_pairs(sampler, differences, errors, failure=None):
    """Return a copy of a fitted sampler that has sampled something else."""
    other = pickle.loads(pickle.dumps(sampler))
    seed = sampler.pairs_.draw_seed
    rounding = np.zeros(differences.shape[1])
    pairs = SampledPairs(differences, errors, rounding, failure, draw_seed=seed)
    other.calibrated_.pairs = pairs
    return other.calibrate()


SHAPED_PLANS = [
    name
    for name, plan in PLANS.items()
    if plan.get("noise_shape", "isotropic") != "isotropic"
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SHAPED_PLANS)
def test_first_half_of_the_pairs_makes_the_shape_and_only_that(name):
    """Its sign and its size do not matter, and no pair of it calibrates."""
    s = fitted(name)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=N_SHAPE)
    turned, smaller = s.differences_.copy(), s.differences_.copy()
    errors = s.difference_errors_.copy()
    turned[:N_SHAPE] *= signs[:, None]
    assert with_pairs(s, turned, errors).certificate_ == s.certificate_
    smaller[:N_SHAPE] /= 2.0**10
    errors[:N_SHAPE] = 0.0
    other = with_pairs(s, smaller, errors)
    assert other.sensitivity_ == 2**10 * s.sensitivity_
    assert other.noise_scale_ == pytest.approx(2**10 * s.noise_scale_, rel=1e-9)
    np.testing.assert_allclose(
        other.mechanism_.covariance(), s.mechanism_.covariance(), rtol=1e-8
    )


@pytest.mark.parametrize("name", SHAPED_PLANS)
def test_second_half_of_the_pairs_calibrates_and_does_not_shape(name):
    s = fitted(name)
    larger, errors = s.differences_.copy(), s.difference_errors_.copy()
    larger[N_SHAPE:] *= 2.0
    errors[N_SHAPE:] *= 2.0
    other = with_pairs(s, larger, errors)
    factors = (sampler.mechanism_.shape.color(np.eye(3)) for sampler in (s, other))
    np.testing.assert_array_equal(*factors)
    assert other.sensitivity_ == 2 * s.sensitivity_
    assert other.noise_scale_ == pytest.approx(2 * s.noise_scale_, rel=1e-9)


@pytest.mark.parametrize("name", SHAPED_PLANS[::7])
def test_without_an_answer_there_is_no_shape(name):
    """However many of the other pairs have one."""
    s = fitted(name)
    broken = s.differences_.copy()
    broken[:N_SHAPE] = np.inf
    with pytest.raises(
        CalibrationError, match=r"the shape .* could be answered: it failed\.$"
    ) as caught:
        with_pairs(s, broken, s.difference_errors_, "it failed")
    assert (caught.value.target, caught.value.best) == (s.gamma, 1.0)


@pytest.mark.parametrize("name", SHAPED_PLANS[::7])
def test_so_many_pairs_are_enough_for_a_shape(name, monkeypatch):
    """Further pairs calibrate."""
    shared = fitted(name)  # before the patch: others use it as well
    monkeypatch.setattr("skparisk.sensitivity._plan._MOST_SHAPE_PAIRS", 20)
    s = shared.calibrate()
    assert (s.certificate_.evidence.n_shape_pairs, s.certificate_.evidence.n_pairs) == (
        20,
        N_PAIRS - 20,
    )
    shape = fit_noise_shape(s.noise_shape, s.differences_[:20])
    np.testing.assert_allclose(s.sensitivities_, shaped_norms(s, shape, 20), rtol=1e-14)


@pytest.mark.parametrize("name", SHAPED_PLANS[::7])
def test_pairs_are_whitened_block_by_block(name, monkeypatch):
    s = fitted(name)
    for module in ("sensitivity._certify", "calibration._criteria"):
        monkeypatch.setattr(f"skparisk.{module}.CHUNK", 64)
    other = s.calibrate()
    np.testing.assert_allclose(other.sensitivities_, s.sensitivities_, rtol=1e-12)
    assert other.noise_scale_ == pytest.approx(s.noise_scale_, rel=1e-9)


@pytest.mark.parametrize("shape", ["diagonal", "whitened"])
def test_shape_pairs_are_said_where_pairs_are_too_few(shape):
    def never(X):
        raise AssertionError("sampled")

    sampler = make_sampler(query=never, noise_shape=shape, gamma=0.05, n_pairs=36)
    message = (
        r"needs n_pairs >= 19\. Of the n_pairs=36 pairs, "
        rf"noise_shape='{shape}' uses 18\.$"
    )
    with pytest.raises(CalibrationError, match=message) as caught:
        sampler.fit(PUBLIC)
    assert (caught.value.target, caught.value.best) == (
        0.05,
        pytest.approx(1 / 19),
    )
    sampler.set_params(query=MeanQuery(), n_pairs=37).fit(PUBLIC)
    assert (
        sampler.certificate_.evidence.n_shape_pairs,
        sampler.certificate_.evidence.n_pairs,
    ) == (
        18,
        19,
    )
    sampler.set_params(randomness="both", mechanism="gaussian")
    with pytest.raises(
        CalibrationError, match=r">= 20\. Of the n_pairs=37 pairs, .* uses 18\."
    ):
        sampler.calibrate()
    with pytest.raises(ValueError, match="n_pairs must be a whole number >= 4, got 3"):
        make_sampler(query=never, noise_shape=shape, n_pairs=3).fit(PUBLIC)


def test_too_few_pairs_for_a_shape_are_refused_by_calibrate_too():
    sampler = make_sampler(gamma=0.05, n_pairs=30).fit(PUBLIC)
    before = sampler.certificate_
    sampler.set_params(noise_shape="whitened")
    with pytest.raises(CalibrationError, match=r"noise_shape='whitened' uses 15\."):
        sampler.calibrate()
    assert sampler.certificate_ == before
    sampler.calibrate(gamma=0.1)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"mechanism": "gaussian", "delta": DELTA},
        {"randomness": "both"},
        {"randomness": "both", "mechanism": "gaussian"},
    ],
)
def test_four_pairs_do(plan, shape, n_outputs):
    sampler = make_sampler(n_pairs=4, gamma=0.9, noise_shape=shape, **plan)
    sampler.fit(PUBLIC[:, :n_outputs])
    assert sampler.release(PRIVATE[:, :n_outputs]).shape == (n_outputs,)
    assert sampler.certificate_.evidence.n_shape_pairs == (
        None if shape == "isotropic" else 2
    )


@pytest.mark.parametrize("shape", ["diagonal", "whitened"])
@pytest.mark.parametrize("randomness", ["implicit", "both"])
def test_output_that_never_moves_has_no_shape(shape, randomness):
    def query(X):
        return [X.mean(), 7.0, X[:, 0].mean()]

    sampler = make_sampler(query=query, randomness=randomness, noise_shape=shape)
    message = (
        f"noise_shape='{shape}' needs outputs that differ .* output 1 is the same, "
        "or nearly so, on all 125 pairs .* Use noise_shape='isotropic'"
    )
    with pytest.raises(ValueError, match=message):
        sampler.fit(PUBLIC)
    assert not hasattr(sampler, "certificate_")
    sampler.set_params(noise_shape="isotropic").fit(PUBLIC)


@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize("randomness", ["implicit", "both"])
def test_infinite_epsilon_needs_no_shape(shape, randomness):
    """Constant outputs, and such as determine each other, are released as they are."""

    def query(X):
        return [X.mean(), 7.0, 2 * X.mean()]

    sampler = make_sampler(
        query=query, randomness=randomness, noise_shape=shape, epsilon=math.inf
    ).fit(PUBLIC)
    np.testing.assert_array_equal(sampler.release(PRIVATE), query(PRIVATE))
    assert sampler.mechanism_.shape.name == "isotropic"
    evidence = sampler.certificate_.evidence
    assert (evidence.noise_shape, evidence.noise_scale) == ("isotropic", 0)
    if shape != "isotropic":
        with pytest.raises(ValueError, match=f"noise_shape='{shape}' needs outputs"):
            sampler.calibrate(epsilon=1.0)


# A sensitivity that is known


class Counting:
    """A query of two outputs that counts how often it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self, X):
        self.calls += 1
        return X.mean(axis=0)[:2]


EXPLICIT = {"randomness": "explicit", "sensitivity": 0.5}


@pytest.mark.parametrize("n_pairs", [1, 1000])
def test_one_answer_or_pair_tells_the_outputs_and_no_more_is_sampled(n_pairs):
    query, rows = Counting(), []

    def records(n_records, rng):
        rows.append(n_records)
        return rng.normal(size=(n_records, 3))

    sampler = make_sampler(query=query, n_pairs=n_pairs, gamma=1e-9, **EXPLICIT)
    sampler.fit(PRIVATE)
    assert query.calls == 1
    assert (sampler.n_outputs_, sampler.n_records_) == (2, 300)
    sampler.set_params(reference=CallableReference(records)).fit(PRIVATE)
    assert (sum(rows), query.calls) == (301, 3)
    assert (sampler.n_outputs_, sampler.n_records_) == (2, 300)


@pytest.mark.parametrize("plan", [{}, {"delta": DELTA}, {"mechanism": "gaussian"}])
def test_one_record_is_enough_for_a_known_sensitivity(plan):
    sampler = make_sampler(n_records=300, **EXPLICIT, **plan).fit(PRIVATE[:1])
    assert (sampler.n_outputs_, sampler.n_records_) == (3, 300)
    assert sampler.release(PRIVATE).shape == (3,)
    whole = make_sampler(**EXPLICIT, **plan).fit(PRIVATE)
    assert sampler.certificate_ == whole.certificate_
    sampler.set_params(n_records=None).fit(PRIVATE[:1])
    assert sampler.n_records_ == 1


def test_known_sensitivity_does_not_warn_of_what_the_query_does():
    """Warnings are errors here, and would tell something of private data."""

    def query(X):
        return np.mean(1 / (X - X[0]) > 0)

    X = np.linspace(0, 1, 10)[:, None]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        query(X)
    sampler = make_sampler(query=query, **EXPLICIT).fit(X)
    assert sampler.n_outputs_ == 1
    sampler.release(X)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_answer_that_is_not_finite_is_refused_without_a_reference_too(wrong):
    sampler = make_sampler(query=lambda X: [1.0, wrong], **EXPLICIT)
    with pytest.raises(ValueError, match="has no answer on the private data"):
        sampler.fit(PRIVATE)
    assert not hasattr(sampler, "certificate_")


@pytest.mark.parametrize("reference", [None, PUBLIC])
@pytest.mark.parametrize("plan", [{}, EXPLICIT])
def test_number_of_records_must_be_given_where_it_is_private(plan, reference):
    if reference is None and not plan:
        make_sampler(relation="add-remove").fit(PUBLIC)
        return
    sampler = make_sampler(relation="add-remove", **plan)
    if reference is not None:
        sampler.set_params(reference=TableReference(reference))
    message = "n_records must be given with relation='add-remove', got None: the num"
    with pytest.raises(ValueError, match=message):
        sampler.fit(PRIVATE)
    assert not hasattr(sampler, "certificate_")
    sampler.set_params(n_records=300).fit(PRIVATE[:200])
    assert sampler.release(PRIVATE[:299]).shape == (3,)


def test_known_sensitivity_lets_go_of_the_pairs_and_of_their_reference():
    """Warnings are errors here: what was the reference may be released then."""
    sampler = make_sampler().fit(PUBLIC)
    assert sampler.pairs_.sketch is not None
    other = switch(sampler, **EXPLICIT).calibrate()
    for name in ("differences_", "difference_errors_", "sensitivities_"):
        assert hasattr(sampler, name)
        assert not hasattr(other, name)
    assert other.pairs_ is None
    assert other.release(PUBLIC).shape == (3,)
    assert not other.certificate_.reference_is_private
    assert pickle.dumps(sampler.differences_.tobytes()) not in pickle.dumps(other)
    direct = make_sampler(**EXPLICIT).fit(PUBLIC)
    assert set(vars(other)) == set(vars(direct))
    assert other.certificate_ == direct.certificate_
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        sampler.release(PUBLIC)
    for name in ("differences_", "difference_errors_", "sensitivities_"):
        assert not hasattr(sampler, name)


def test_known_sensitivity_with_a_reference_keeps_nothing_of_it():
    sampler = make_sampler(reference=TableReference(PUBLIC), **EXPLICIT).fit(PRIVATE)
    assert set(vars(sampler)) == set(vars(make_sampler(**EXPLICIT).fit(PRIVATE)))
    assert sampler.pairs_ is None
    assert sampler.certificate_.evidence.reference is None
    sampler.release(PUBLIC)


@pytest.mark.parametrize("query", [np.mean, MeanQuery()])
def test_theorem_4_names_the_risk_that_is_too_large(query):
    sampler = make_sampler(
        query=query, gamma=0.99, calibration=DandekarTheorem4(), **EXPLICIT
    )
    with pytest.raises(CalibrationError, match=r"gamma=0\.99 is above 0\.") as caught:
        sampler.fit(PUBLIC)
    assert caught.value.target == 0.99
    assert 0.1 < caught.value.best < 0.99
    assert not hasattr(sampler, "certificate_")
    sampler.set_params(gamma=caught.value.best - 1e-6).fit(PUBLIC)
    with pytest.raises(CalibrationError, match=r"gamma=0\.98 is above") as caught:
        sampler.calibrate(gamma=0.98)
    assert caught.value.target == 0.98


def test_known_sensitivity_needs_no_reference_and_does_not_warn():
    """Warnings are errors here; the data of `fit` may be those that are released."""
    sampler = make_sampler(**EXPLICIT).fit(PRIVATE)
    sampler.release(PRIVATE)
    assert sampler.certificate_.private
    assert not sampler.certificate_.reference_is_private
    assert sampler.pairs_ is None
    local = make_sampler(query=None, **EXPLICIT)
    assert local.fit_transform(PRIVATE).shape == PRIVATE.shape
    assert local.certificate_.private
    model = PrivateRidge(sensitivity=SensitivitySampler(**EXPLICIT))
    model.fit(PRIVATE, PRIVATE_TARGETS)
    assert model.certificate_.private


def test_known_sensitivity_does_not_depend_on_the_records():
    one, two = (make_sampler(**EXPLICIT).fit(X) for X in (PUBLIC, 1e6 * PRIVATE))
    assert pickle.dumps(one) == pickle.dumps(two)


@pytest.mark.parametrize("gamma", [0.01, 0.49])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_known_sensitivity_is_the_same_by_sampler_and_by_number(gamma, fit_intercept):
    model = PrivateRidge(epsilon=0.7, gamma=gamma, fit_intercept=fit_intercept)
    scales = [
        model.set_params(sensitivity=given).fit(PRIVATE, PRIVATE_TARGETS).noise_scale_
        for given in (0.5, SensitivitySampler(**EXPLICIT))
    ]
    assert scales[0] == pytest.approx(scales[1], rel=GRID)
    assert scales[0] == pytest.approx(0.5 / 0.7, rel=GRID)
    assert (model.risk_, model.certificate_.evidence.calibration) == (0.0, "declared")
    assert model.sampler_.sensitivity_ == 0.5


def test_large_risk_over_the_noise_spares_noise_for_one_output_only():
    one, two = (
        make_sampler(query=query, gamma=0.8, **EXPLICIT).fit(PUBLIC)
        for query in (np.mean, Counting())
    )
    shift = EPSILON - 2 * math.log(2 * (1 - 0.8))
    assert one.noise_scale_ == pytest.approx(0.5 / shift, rel=GRID)
    assert two.noise_scale_ == pytest.approx(0.5 / EPSILON, rel=GRID)
    assert (one.risk_, two.risk_) == (0.8, 0.0)
    assert one.certificate_.risk_at(shift * 1.001) == 0.0
    assert "over the noise" in one.certificate_.guarantee


def test_known_sensitivity_with_delta_is_that_of_the_mechanism():
    scales = {
        mechanism: make_sampler(mechanism=mechanism, delta=DELTA, **EXPLICIT)
        .fit(PUBLIC)
        .noise_scale_
        for mechanism in SHIFTS
    }
    for mechanism, shift in SHIFTS.items():
        assert scales[mechanism] == pytest.approx(0.5 / shift(), rel=GRID)
    for mechanism, calibration in [
        ("gaussian", "analytic"),
        ("gaussian-classical", "classical"),
    ]:
        plain = GaussianMechanism(0.5, EPSILON, DELTA, 3, calibration=calibration)
        assert scales[mechanism] == plain.noise_scale
    assert scales["laplace"] < LaplaceMechanism(0.5, EPSILON, 3).noise_scale
    certificate = make_sampler(delta=DELTA, **EXPLICIT).fit(PUBLIC).certificate_
    assert "(0.8, 0.001)-differentially private" in certificate.guarantee


def test_known_sensitivity_with_gaussian_noise_has_the_risk_over_the_noise():
    sampler = make_sampler(mechanism="gaussian", **EXPLICIT).fit(PUBLIC)
    shift = gaussian_explicit_shift(EPSILON, GAMMA)
    assert sampler.noise_scale_ == pytest.approx(0.5 / shift, rel=GRID)
    assert sampler.risk_ == GAMMA
    noise = np.random.default_rng(0).normal(size=(100_000, 1))
    loss = losses(np.full((100_000, 1), 0.5 / sampler.noise_scale_), noise, "gaussian")
    for level in (EPSILON / 2, EPSILON, 2 * EPSILON):
        claimed = sampler.certificate_.risk_at(level)
        assert np.mean(loss > level) == pytest.approx(claimed, abs=0.01)


@pytest.mark.parametrize("query", [np.mean, MeanQuery()])
def test_theorem_4_of_the_paper_warns_and_certifies_nothing(query):
    sampler = make_sampler(
        query=query, gamma=0.3, calibration=DandekarTheorem4(), **EXPLICIT
    )
    with pytest.warns(HeuristicGuaranteeWarning, match="whose proof does not hold"):
        sampler.fit(PUBLIC)
    assert not sampler.certificate_.private
    assert sampler.certificate_.guarantee.startswith("There is no guarantee.")
    noise_epsilon = dandekar_noise_epsilon(EPSILON, 0.7, sampler.n_outputs_)
    assert sampler.noise_epsilon_ == pytest.approx(noise_epsilon, rel=GRID)
    assert sampler.risk_ == 0.3
    model = PrivateRidge(
        sensitivity=SensitivitySampler(calibration=DandekarTheorem4(), **EXPLICIT)
    )
    with pytest.warns(HeuristicGuaranteeWarning, match="it is not a guarantee"):
        model.fit(PRIVATE, PRIVATE_TARGETS)
    assert not model.certificate_.private


@pytest.mark.parametrize("plan", [{}, {"randomness": "both"}, SHAPED])
def test_sampled_pairs_do_not_come_from_a_known_sensitivity(plan):
    """One answer told the outputs; it is not kept, and nothing is calibrated."""
    sampler = make_sampler(**EXPLICIT).fit(PUBLIC)
    sampler.set_params(sensitivity=None, randomness="implicit").set_params(**plan)
    with pytest.raises(IncompatibleError, match="There are no sampled pairs"):
        sampler.calibrate()
    assert sampler.certificate_.randomness == "explicit"
    sampler.release(PRIVATE)
    with pytest.raises(IncompatibleError, match="because the sensitivity was given"):
        sampler.sensitivity_at(0.1)


def test_known_sensitivity_is_calibrated_again_as_it_is_set():
    sampler = make_sampler(**EXPLICIT).fit(PUBLIC)
    other = sampler.set_params(sensitivity=2.0).calibrate(epsilon=0.1)
    assert other.noise_scale_ == pytest.approx(20.0, rel=GRID)
    assert sampler.sensitivity_ == 0.5


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


def test_noise_and_pairs_together_need_less_for_many_outputs():
    ratio = size_of_noise(randomness="both") / size_of_noise()
    assert ratio < 0.5
    gaussian = {"mechanism": "gaussian", "randomness": "both"}
    over_pairs = {"mechanism": "gaussian", "delta": 1e-6}
    assert size_of_noise(**gaussian) < 0.5 * size_of_noise(**over_pairs)


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"mechanism": "gaussian", "delta": DELTA},
        {"randomness": "both"},
        {"randomness": "both", "mechanism": "gaussian"},
    ],
)
def test_whitened_noise_is_less_where_outputs_move_together(plan):
    sizes = [size_of_noise(noise_shape=shape, **plan) for shape in NOISE_SHAPES]
    assert sizes[2] < 0.8 * sizes[0]
    assert sizes[2] < sizes[1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_number_of_draws_hardly_changes_the_noise(mechanism, shape):
    plan = {"randomness": "both", "mechanism": mechanism, "noise_shape": shape}
    counts = [1, 20] + [0] * (mechanism == "gaussian")
    scales = [
        switch(many_pairs(0), n_draws=n, **plan).calibrate().noise_scale_
        for n in counts
    ]
    np.testing.assert_allclose(scales, scales[0], rtol=0.06)
    assert len(set(scales)) == len(counts)


def test_more_draws_make_the_noise_vary_less():
    def spread(n_draws):
        sampler = switch(isotropic(), randomness="both", n_draws=n_draws)
        scales = []
        for seed in range(40):
            sampler.pairs_.draw_seed = seed
            scales.append(sampler.calibrate().noise_scale_)
        return np.std(scales)

    assert spread(10) < 0.6 * spread(1)


def test_delta_is_not_used_for_noise_and_pairs_together():
    for mechanism in ("laplace", "gaussian"):
        plain, other = (
            switch(isotropic(), randomness="both", mechanism=mechanism, delta=delta)
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


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_of_records(library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    X = frame({name: PUBLIC[:, i] for i, name in enumerate("abc")})
    sampler = make_sampler(query=None, **SHAPED).set_output(transform=library)
    released = sampler.fit(X).transform(2 * X)
    assert isinstance(released, frame)
    assert list(released.columns) == ["a", "b", "c"]
    assert released.shape == (300, 3)
    again = sampler.calibrate(epsilon=math.inf).transform(2 * X)
    np.testing.assert_array_equal(again.to_numpy(), 2 * PUBLIC)


# Searches, and a reference that is private


def test_search_over_plans():
    model = PrivateRidge(
        epsilon=50.0, sensitivity=SensitivitySampler(n_pairs=100), random_state=0
    )
    grid = {
        "sensitivity__randomness": ["implicit", "both"],
        "sensitivity__noise_shape": list(NOISE_SHAPES),
    }
    search = GridSearchCV(model, grid, cv=2)
    search.fit(PRIVATE, PRIVATE_TARGETS, **REFERENCE)
    assert len(search.cv_results_["params"]) == 6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    assert best.certificate_.private
    for name, value in search.best_params_.items():
        part, claim = name.removeprefix("sensitivity__"), best.certificate_
        at = claim if hasattr(claim, part) else claim.evidence
        assert getattr(at, part) == value


def test_search_with_an_explicit_sensitivity():
    model = PrivateRidge(sensitivity=SensitivitySampler(**EXPLICIT))
    grid = {"sensitivity__delta": [0.0, 0.1], "sensitivity__sensitivity": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=2).fit(PRIVATE, PRIVATE_TARGETS)
    assert search.best_estimator_.certificate_.private


@pytest.mark.parametrize("plan", [{}, {"randomness": "both"}, SHAPED])
def test_pairs_from_private_data_are_dropped_with_a_warning(plan):
    model = PrivateRidge(sensitivity=SensitivitySampler(**plan), random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(PRIVATE, PRIVATE_TARGETS)
    certificate = model.certificate_
    assert certificate.reference_is_private
    assert not certificate.private
    assert any("scale and shape of the noise" in text for text in certificate.caveats)
    assert certificate.evidence.curve is None
    assert certificate.risk_at(model.epsilon_) == model.risk_
    assert certificate.risk_at(0.99 * model.epsilon_) == 1.0
    assert not hasattr(model.sampler_, "differences_")
    assert not hasattr(model.sampler_, "sensitivities_")
    document = json.loads(json.dumps(certificate.to_dict()))
    assert Certificate.from_dict(document) == certificate
    kept = SensitivitySampler(RidgeQuery(), random_state=0, **plan)
    kept.fit(PRIVATE, PRIVATE_TARGETS)
    assert kept.sensitivity_ == model.sensitivity_  # the very same pairs
    pickled = pickle.dumps(model)
    for number in (*kept.differences_.ravel(), *kept.sensitivities_):
        if number != model.sensitivity_:
            assert struct.pack("<d", number) not in pickled
    with pytest.raises(IncompatibleError, match="came from private data"):
        PrivateRidge(sensitivity=model.sampler_).fit(PRIVATE, PRIVATE_TARGETS)


def test_known_sensitivity_may_follow_pairs_that_were_dropped():
    sampler = make_sampler(query=None, **SHAPED)
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        sampler.fit_transform(PRIVATE)
    other = switch(sampler, **EXPLICIT).calibrate()
    assert (
        other.certificate_
        == make_sampler(query=None, **EXPLICIT).fit(PRIVATE).certificate_
    )
    assert other.certificate_.private
    other.transform(PRIVATE)


# What is refused, before anything is drawn


BOTH = {"randomness": "both"}
GAUSSIAN = {"mechanism": "gaussian", "delta": DELTA}
CLASSICAL = {"mechanism": "gaussian-classical"}
REFUSALS = [
    *(
        ({"delta": delta}, rf"delta must be a number in \[0, 1\), got {text}\.$")
        for delta, text in [
            (-0.1, r"-0\.1"),
            (1.0, r"1\.0"),
            (np.nan, "nan"),
            ("0.1", r"'0\.1'"),
            (True, "True"),
            (None, "None"),
        ]
    ),
    *(
        (
            BOTH | {"n_draws": n_draws},
            rf"n_draws must be a whole number >= 0, got {text}\.$",
        )
        for n_draws, text in [(-1, "-1"), (1.5, r"1\.5"), (True, "True"), ("1", "'1'")]
    ),
    ({"n_draws": -1}, "n_draws must be a whole number >= 0, got -1"),
    *(
        (
            BOTH | {"n_draws": 2, "calibration": calibration},
            "n_draws must be None or 1 unless calibration='exchangeable', got 2 with "
            f"'{calibration}'",
        )
        for calibration in ("pac", "dkw")
    ),
    *(
        (
            BOTH | plan | {"n_draws": 0},
            "n_draws must be at least 1 unless mechanism='gaussian' and "
            "calibration='exchangeable', .*; got 0",
        )
        for plan in (
            {},
            {"calibration": "pac"},
            {"mechanism": "gaussian", "calibration": "pac"},
            {"mechanism": "gaussian", "calibration": "dkw"},
        )
    ),
    *(
        (
            {"randomness": "explicit", "sensitivity": sensitivity},
            f"sensitivity must be a finite number above 0, got {text}",
        )
        for sensitivity, text in [
            (None, "None"),
            (0.0, r"0\.0"),
            (-1, "-1"),
            (np.inf, "inf"),
            (np.nan, "nan"),
            ("bound", "'bound'"),
            (True, "True"),
        ]
    ),
    *(
        (
            {"randomness": randomness, "sensitivity": 2.5},
            r"sensitivity must be None unless randomness='explicit', .*; got 2\.5",
        )
        for randomness in ("implicit", "both")
    ),
    *(
        (
            EXPLICIT | {"noise_shape": shape},
            "noise_shape must be 'isotropic' with randomness='explicit', .*; got "
            f"'{shape}'",
        )
        for shape in ("diagonal", "whitened")
    ),
    (
        {"noise_shape": "round"},
        "noise_shape must be one of 'isotropic', 'diagonal', 'whitened'; got 'round'",
    ),
    ({"noise_shape": None}, "noise_shape must be one of 'isotropic', .*; got None"),
    (
        {"randomness": None},
        "randomness must be one of 'implicit', 'both', 'explicit'; got None",
    ),
    (
        {"mechanism": "normal"},
        "mechanism must be one of 'laplace', 'gaussian', 'gaussian-classical', "
        "'exponential'; got 'normal'",
    ),
    *(
        (
            {"mechanism": mechanism},
            f"delta must be above 0 with mechanism='{mechanism}' and "
            r"randomness='implicit', .*; got 0\.0",
        )
        for mechanism in ("gaussian", "gaussian-classical")
    ),
    *(
        (
            plan | CLASSICAL,
            "mechanism='gaussian-classical' is for a delta above 0 and randomness "
            rf"'implicit' or 'explicit'; got delta={text}",
        )
        for plan, text in [
            (BOTH | {"delta": DELTA}, r"0\.001 and 'both'"),
            (BOTH, r"0\.0 and 'both'"),
            (EXPLICIT, r"0\.0 and 'explicit'"),
            ({"epsilon": np.inf}, r"0\.0 and 'implicit'"),
        ]
    ),
    *(
        (
            plan | CLASSICAL | {"delta": DELTA, "epsilon": epsilon},
            "epsilon must be at most 1 with mechanism='gaussian-classical', .*; got "
            f"{text}",
        )
        for plan in ({}, EXPLICIT, {"noise_shape": "whitened"})
        for epsilon, text in [(1.0000001, r"1\.0000001\.$"), (3, r"3\.$")]
    ),
    *(
        (
            plan | {"calibration": THEOREMS[plan.get("randomness", "implicit")]},
            r"calibration=DandekarTheorem.* reproduces a theorem on Laplace noise, "
            rf"delta=0 and randomness 'implicit' or 'explicit'; got {text}",
        )
        for plan, text in [
            (GAUSSIAN, r"mechanism='gaussian', delta=0\.001 and 'implicit'"),
            ({"delta": DELTA}, r"mechanism='laplace', delta=0\.001 and 'implicit'"),
            (BOTH, r"mechanism='laplace', delta=0\.0 and 'both'"),
            (
                EXPLICIT | {"mechanism": "gaussian"},
                r"mechanism='gaussian', delta=0\.0 and 'explicit'",
            ),
            (
                EXPLICIT | {"delta": DELTA},
                r"mechanism='laplace', delta=0\.001 and 'explicit'",
            ),
        ]
    ),
]


def never(*_):
    raise AssertionError("drawn")


@pytest.mark.parametrize(("plan", "message"), REFUSALS)
def test_plans_that_make_no_sense_are_refused_before_anything_is_drawn(plan, message):
    reference = CallableReference(never)
    with pytest.raises(ValueError, match=message):
        make_sampler(query=never, reference=reference, **plan).fit(PUBLIC)
    sampler = SensitivitySampler(reference=reference, **plan)
    if "epsilon" not in plan:
        with pytest.raises(ValueError, match=message):
            PrivateRidge(sensitivity=sampler).fit(PRIVATE, PRIVATE_TARGETS)


@pytest.mark.parametrize(("plan", "message"), REFUSALS)
def test_plans_that_make_no_sense_are_refused_by_calibrate(plan, message):
    sampler = switch(isotropic(), **plan)
    with pytest.raises(ValueError, match=message):
        sampler.calibrate()
    assert sampler.certificate_ == isotropic().certificate_


def test_classical_noise_is_refused_beyond_its_proof_by_private_ridge_too():
    sampler = SensitivitySampler(reference=CallableReference(never), delta=DELTA)
    model = PrivateRidge(sensitivity=sampler.set_params(**CLASSICAL), epsilon=1.5)
    with pytest.raises(ValueError, match=r"epsilon must be at most 1 .* got 1\.5"):
        model.fit(PRIVATE, PRIVATE_TARGETS)
    fitted = make_sampler(delta=DELTA, **CLASSICAL).fit(PUBLIC)
    with pytest.raises(ValueError, match=r"epsilon must be at most 1 .* got 1\.5"):
        fitted.calibrate(epsilon=1.5)
    assert fitted.calibrate(epsilon=1.0).certificate_.private
    assert not fitted.calibrate(epsilon=math.inf).certificate_.private


def test_seed_that_is_none_is_refused_by_calibrate():
    sampler = switch(isotropic()).set_params(noise_random_state="x")
    with pytest.raises(ValueError, match="noise_random_state must be None, a whole"):
        sampler.calibrate()


def test_gaussian_noise_needs_no_delta_where_there_is_no_noise():
    sampler = make_sampler(mechanism="gaussian", epsilon=math.inf).fit(PUBLIC)
    assert sampler.certificate_.delta == 0.0
    np.testing.assert_array_equal(sampler.release(PRIVATE), PRIVATE.mean(axis=0))


@pytest.mark.parametrize("plan", [BOTH, SHAPED, EXPLICIT])
def test_noise_seeded_after_fit_is_refused_for_every_plan(plan):
    sampler = make_sampler(**plan).fit(PUBLIC)
    sampler.set_params(noise_random_state=3)
    with pytest.raises(IncompatibleError, match="set after the certificate was made"):
        sampler.release(PRIVATE)
    again = sampler.calibrate()
    with pytest.warns(PrivacyLeakWarning):
        first = again.release(PRIVATE)
    with pytest.warns(PrivacyLeakWarning):
        np.testing.assert_array_equal(again.release(PRIVATE), first)
    assert again.certificate_.seeded
    assert not again.certificate_.private


@pytest.mark.parametrize("plan", [BOTH, SHAPED, EXPLICIT])
def test_one_record_more_or_less_for_every_plan(plan):
    sampler = make_sampler(relation="add-remove", n_records=300, **plan).fit(PUBLIC)
    assert sampler.certificate_.relation == "add-remove"
    for n_records in (299, 300):
        assert sampler.release(PRIVATE[:n_records]).shape == (3,)
    with pytest.raises(IncompatibleError, match="databases of 299 or 300 records"):
        sampler.release(PRIVATE[:298])


def test_private_data_tell_only_their_shape_for_every_plan():
    reference = TableReference(PUBLIC)
    for plan in (BOTH, SHAPED, EXPLICIT):
        sampler = make_sampler(reference=reference, **plan)
        one = pickle.dumps(sampler.fit(PRIVATE))
        assert one == pickle.dumps(clone(sampler).fit(1e6 * PRIVATE))
