"""The shape of the noise from one half of the pairs; differences that are off."""

import pickle
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from noise_plans import (
    DELTA,
    N_PAIRS,
    N_SHAPE,
    NOISE_SHAPES,
    PLANS,
    PRIVATE,
    PRIVATE_TARGETS,
    PUBLIC,
    TARGETS,
    fitted,
    make_sampler,
    switch,
)
from query_pairs import InBlocks

from skparisk import CalibrationError, PrivateRidge, SensitivitySampler
from skparisk.core.calibrate import Target
from skparisk.core.pairs import SampledPairs, norms_of_pairs
from skparisk.queries import MeanQuery, RidgeQuery
from skparisk.sensitivity import calibrate

# Differences that are off by rounding


def certify(sampler, differences, errors, draw_seed=0):
    """Return noise for other pairs; what else a certificate says does not matter."""
    rounding = np.zeros(differences.shape[1])
    noise, certificate = calibrate(
        SampledPairs(differences, errors, rounding, draw_seed=draw_seed),
        Target(sampler.epsilon, sampler.gamma, sampler.delta, sampler.randomness),
        law=sampler.law,
        shape=sampler.noise_shape,
        rule=sampler.calibration,
        n_records=300,
    )
    return SimpleNamespace(noise=noise, certificate=certificate)


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
        for query in (ridge, InBlocks(lambda X, y: ridge(X, y)))
    )


DRAWN = {"randomness": "both"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", NOISE_SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"law": "gaussian", "delta": DELTA},
        {"randomness": "both", "law": "gaussian"},
        DRAWN,
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
    assert plain.pairs_.errors is None
    assert known.pairs_.draw_seed == plain.pairs_.draw_seed
    half = 0 if shape == "isotropic" else 200
    mixed = np.concatenate([known.differences_[:half], plain.differences_[half:]])
    sampler = switch(known, noise_shape=shape, **plan)
    safe = certify(sampler, known.differences_, known.pairs_.errors)
    exact = certify(sampler, mixed, None)
    unpaid = certify(sampler, known.differences_, None)
    for other in (exact, unpaid):
        np.testing.assert_array_equal(
            safe.noise.shape.color(np.eye(3)), other.noise.shape.color(np.eye(3))
        )
    pairs = (
        (known.differences_, known.pairs_.errors),
        (mixed, None),
        (known.differences_, None),
    )
    sizes, exactly, unpaid_sizes = (
        norms_of_pairs(
            SampledPairs(d, e, np.zeros(3)).take(slice(half, None)),
            safe.noise.shape,
            safe.noise.law,
        )
        for d, e in pairs
    )
    assert (sizes >= exactly).all()
    if shape == "whitened" and sampler.law == "laplace":
        # Moved away from zero as outputs, and nearer to it as sums of outputs.
        assert (unpaid_sizes < exactly).any()
    ratio = safe.certificate.evidence.sensitivity
    ratio /= exact.certificate.evidence.sensitivity
    assert 1 <= ratio < 1.02
    ratio = safe.noise.noise_scale / exact.noise.noise_scale
    # Whitened, no sum of outputs is small against others that are off by as much.
    most = 1.03 if shape == "whitened" else 1.02
    assert 1 <= ratio < (1.25 if plan == DRAWN else most)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["diagonal", "whitened"])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1])
def test_feature_that_is_constant_fits_through_private_ridge(constant, shape):
    """Its coefficient is 0, or what rounding makes of it; that is not released."""
    X, X_reference = PRIVATE.copy(), PUBLIC.copy()
    X[:, 1] = X_reference[:, 1] = constant
    sampler = SensitivitySampler(n_pairs=N_PAIRS, noise_shape=shape)
    model = PrivateRidge(1.0, sensitivity=sampler, random_state=0)
    model.fit(X, PRIVATE_TARGETS, X_reference=X_reference, y_reference=TARGETS)
    assert model.certificate_.private
    assert model.certificate_.evidence.noise_shape == shape
    released = np.sqrt(np.diag(model.sampler_.mechanism_.covariance())) > 0
    assert released.tolist() == [True, False, True, True]
    assert abs(model.coef_[1]) < 1e-12
    assert model.certificate_.evidence.n_constant == 1


@pytest.mark.parametrize(
    ("shape", "plan", "units"),
    [
        ("isotropic", {}, 1e-12),
        ("isotropic", {"randomness": "both", "law": "gaussian"}, 1e12),
        ("diagonal", {"randomness": "both"}, 1e-6),
        ("diagonal", {}, 1e12),
        ("whitened", {"randomness": "both", "law": "gaussian"}, 1e-12),
        ("whitened", {"randomness": "both"}, 1e12),
    ],
)
def test_noise_follows_the_units_of_the_data(plan, shape, units):
    one, other = (
        make_sampler(noise_shape=shape, **plan).fit(X) for X in (PUBLIC, units * PUBLIC)
    )
    np.testing.assert_allclose(
        other.mechanism_.covariance(), units**2 * one.mechanism_.covariance(), rtol=2e-6
    )
    if shape == "isotropic":
        assert other.noise_scale_ == pytest.approx(units * one.noise_scale_, rel=1e-6)
    np.testing.assert_allclose(
        other.certificate_.evidence.curve, one.certificate_.evidence.curve, rtol=1e-4
    )


# The shape of the noise


def with_pairs(sampler, differences, errors, failure=None):
    """Return a copy of a fitted sampler that has sampled something else."""
    other, known = (pickle.loads(pickle.dumps(sampler)) for _ in range(2))
    seed = sampler.pairs_.draw_seed
    rounding = np.zeros(differences.shape[1])
    pairs = SampledPairs(differences, errors, rounding, failure, draw_seed=seed)
    pairs.for_new_people = known.pairs_.for_new_people
    pairs.n_rows_alone = known.pairs_.n_rows_alone
    pairs.assumptions = known.pairs_.assumptions
    other.claim_.pairs = pairs
    return other.calibrate()


SHAPED_PLANS = [
    name
    for name, plan in PLANS.items()
    if plan.get("noise_shape", "isotropic") != "isotropic"
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SHAPED_PLANS)
def test_first_half_of_the_pairs_makes_the_shape_and_only_that(name):
    """Its sign and its size do not matter, and no pair of it calibrates."""
    s = fitted(name)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=N_SHAPE)
    turned, smaller = s.differences_.copy(), s.differences_.copy()
    errors = s.pairs_.errors
    turned[:N_SHAPE] *= signs[:, None]
    assert with_pairs(s, turned, errors).certificate_ == s.certificate_
    smaller[:N_SHAPE] /= 2.0**10
    other = with_pairs(s, smaller, errors)
    assert other.sensitivity_ == pytest.approx(2**10 * s.sensitivity_, rel=1e-9)
    assert other.noise_scale_ == pytest.approx(2**10 * s.noise_scale_, rel=1e-9)
    np.testing.assert_allclose(
        other.mechanism_.covariance(), s.mechanism_.covariance(), rtol=1e-8
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SHAPED_PLANS)
def test_second_half_of_the_pairs_calibrates_and_does_not_shape(name):
    s = fitted(name)
    larger = s.differences_.copy()
    larger[N_SHAPE:] *= 2.0
    other = with_pairs(s, larger, s.pairs_.errors)
    factors = (sampler.mechanism_.shape.color(np.eye(3)) for sampler in (s, other))
    np.testing.assert_array_equal(*factors)
    assert other.sensitivity_ == pytest.approx(2 * s.sensitivity_, rel=1e-9)
    assert other.noise_scale_ == pytest.approx(2 * s.noise_scale_, rel=1e-9)


def test_without_an_answer_there_is_no_shape():
    """But that of all outputs alike, for the pairs that calibrate."""
    for name in SHAPED_PLANS[::4]:
        s = fitted(name)
        broken = s.differences_.copy()
        broken[:N_SHAPE] = np.inf
        noise = with_pairs(s, broken, s.pairs_.errors, "it failed").mechanism_
        np.testing.assert_array_equal(noise.shape.factor, 1.0)
        broken[:] = np.inf
        with pytest.raises(CalibrationError, match="it failed"):
            with_pairs(s, broken, s.pairs_.errors, "it failed")


@pytest.mark.parametrize("shape", NOISE_SHAPES)
def test_four_pairs_do(shape):
    how = {"randomness": "both", "law": "gaussian", "noise_shape": shape}
    sampler = make_sampler(n_pairs=4, gamma=0.9, **how).fit(PUBLIC[:, :1])
    assert sampler.release(PRIVATE[:, :1]).shape == (1,)
    n_shape = None if shape == "isotropic" else 2
    assert sampler.certificate_.evidence.n_shape_pairs == n_shape


@pytest.mark.parametrize("shape", ["diagonal", "whitened"])
def test_shape_pairs_are_said_where_pairs_are_too_few(shape):
    def never(X):
        raise AssertionError("sampled")

    sampler = make_sampler(query=never, noise_shape=shape, gamma=0.05, n_pairs=36)
    message = (
        r"needs n_pairs >= 19\. Of the n_pairs=36 pairs, "
        rf"noise_shape='{shape}' uses 18: it needs n_pairs >= 38 in all\.$"
    )
    with pytest.raises(CalibrationError, match=message) as caught:
        sampler.fit(PUBLIC)
    assert (caught.value.target, caught.value.best) == (0.05, pytest.approx(1 / 19))
    sampler.set_params(query=MeanQuery(), n_pairs=37).fit(PUBLIC)
    assert (
        sampler.certificate_.evidence.n_shape_pairs,
        sampler.certificate_.evidence.n_pairs,
    ) == (18, 19)
    sampler.set_params(randomness="both", law="gaussian")
    with pytest.raises(
        CalibrationError, match=r">= 20\. Of the n_pairs=37 pairs, .* uses 18: .* >= 40"
    ):
        sampler.calibrate()
    with pytest.raises(ValueError, match="n_pairs must be a whole number >= 4, got 3"):
        make_sampler(query=never, noise_shape=shape, n_pairs=3).fit(PUBLIC)


@pytest.mark.parametrize("shape", ["diagonal", "whitened"])
@pytest.mark.parametrize("randomness", ["implicit", "both"])
def test_output_that_never_moves_is_not_released(shape, randomness):
    """The private answer may well be another one."""

    def query(X):
        return [X.mean(), 8.0 if X[0, 0] > 1e6 else 7.0, X[:, 0].mean()]

    sampler = make_sampler(query=query, randomness=randomness, noise_shape=shape)
    sizes = np.sqrt(np.diag(sampler.fit(PUBLIC).mechanism_.covariance()))
    assert (sizes > 0).tolist() == [True, False, True]
    other = PRIVATE.copy()
    other[0, 0] = 1e9
    for X in (PRIVATE, other):
        released = sampler.release(X)
        assert released[1] == 7.0
        assert (released != query(X))[[0, 2]].all()
    assert sampler.certificate_.evidence.noise_shape == shape
    assert "of which 1 differed on no sampled pair" in str(sampler.certificate_)
