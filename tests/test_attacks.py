"""What once gave too little noise, none, or no answer: none of it may come back."""

import numpy as np
import pytest

from skparisk import CalibrationError, SensitivitySampler
from skparisk.calibration import PAC, ConditionalRisk, calibrate_risk_control
from skparisk.mechanisms import AdditiveNoise, LaplaceMechanism
from skparisk.queries import MeanQuery


@pytest.mark.parametrize("randomness", ["implicit", "both"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_pairs_that_differ_by_rounding_alone_are_no_reason_for_noise(
    mechanism, randomness
):
    """A mean that hardly ever moves is refused, also where many pairs are batched."""
    rare = (np.random.default_rng(0).random((1000, 1)) < 0.01).astype(float)
    sampler = SensitivitySampler(
        MeanQuery(),
        mechanism=mechanism,
        randomness=randomness,
        delta=1e-5,
        random_state=0,
    )
    with pytest.raises(CalibrationError, match=r"at gamma=0\.05 is 0") as caught:
        sampler.fit(rare)
    assert 0 < caught.value.best < 0.05
    sampler.set_params(gamma=caught.value.best / 2).fit(rare)
    assert sampler.noise_scale_ > 1e-4


def test_columns_of_very_different_size_keep_the_claim():
    """Rounding of a large constant column must not shorten what a small one moves."""
    rng = np.random.default_rng(0)
    table = np.column_stack([(rng.random(1000) < 0.3) * 1.0, np.full(1000, 1e6)])
    sampler = SensitivitySampler(
        MeanQuery(), randomness="both", gamma=0.2, n_pairs=4000, random_state=0
    ).fit(table)
    moved = 1e-3  # a pair that differs at all; 42 in 100 do
    draws = sampler.mechanism_.release(np.zeros((20_000, 2)), noise_random_state=0)
    loss = (np.abs(draws[:, 0] + moved) - np.abs(draws[:, 0])) / sampler.noise_scale_
    assert 0.42 * np.mean(np.abs(loss) > 1) <= sampler.risk_


@pytest.mark.parametrize("n_pairs", [199, 999])
def test_risk_control_ends_where_the_risk_has_a_plateau(n_pairs):
    """As many pairs are far out as gamma allows: the sum of risks is flat there."""
    n_far = round(0.05 * (n_pairs + 1))
    distances = np.r_[np.ones(n_pairs - n_far), np.full(n_far, 1e3)]
    for far in (n_far, n_far - 1):
        distances[: n_pairs - far] = 1.0
        level = calibrate_risk_control(ConditionalRisk(distances, 1, 1.0, 0.05))
        assert level.scale > 0.5
    almost = np.nextafter(0.75, 0)
    level = calibrate_risk_control(ConditionalRisk(np.arange(1.0, 4), 1, 1.0, almost))
    assert level.scale > 0
    least = np.full(99, 5e-324)  # no number between two scales
    level = calibrate_risk_control(ConditionalRisk(least, 1, 1.0, 0.05))
    assert 0 < level.scale < 1e-320
    zeros = np.r_[np.ones(29), np.zeros(70)]
    level = calibrate_risk_control(ConditionalRisk(zeros, 1, 1.0, 0.29))
    assert level.scale > 0


@pytest.mark.parametrize("units", [1e-162, 1e-200, 1e200])
def test_norms_neither_vanish_nor_overflow(units):
    X = np.random.default_rng(0).normal(size=(50, 40))
    parameters = {"mechanism": "gaussian", "delta": 1e-5, "random_state": 0}
    plain = SensitivitySampler(lambda X: X.mean(axis=0), **parameters).fit(X)
    small = SensitivitySampler(lambda X: X.mean(axis=0), **parameters).fit(X * units)
    assert small.noise_scale_ / units == pytest.approx(plain.noise_scale_, rel=1e-9)


@pytest.mark.parametrize("number", [np.float16, np.float32, np.float64])
def test_short_numbers_are_as_good_as_plain_ones(number):
    """A share of 2**-20 is not rounded away, and n_draws does not overflow."""
    public = np.random.default_rng(0).normal(size=(100, 2))
    for parameters in (
        {"mechanism": "gaussian", "delta": number(0.25)},
        {"mechanism": "gaussian", "randomness": "both"},
        {"randomness": "both", "n_draws": np.int8(100)},
        {},
    ):
        plain = {k: v.item() for k, v in parameters.items() if hasattr(v, "item")}
        short, long = (
            SensitivitySampler(
                MeanQuery(),
                epsilon=one,
                gamma=0.25,
                n_pairs=50,
                random_state=0,
                **given,
            ).fit(public)
            for one, given in ((number(1), parameters), (1.0, parameters | plain))
        )
        assert short.noise_scale_ == long.noise_scale_
    mechanism = LaplaceMechanism(np.int64(1000), number(1))
    assert mechanism == LaplaceMechanism(1000.0, 1.0)


def test_noise_of_a_wrong_grid_is_refused():
    with pytest.raises(ValueError, match="exponent must be a whole number >= -1074"):
        AdditiveNoise("laplace", 2**40, -1080)
    with pytest.raises(ValueError, match="exponent must be a whole number >= -1074"):
        AdditiveNoise("laplace", 2**40, -40.0)


def test_failure_probabilities_that_cannot_be_computed_are_refused():
    with pytest.raises(ValueError, match="failure_prob must be at least 1e-200"):
        PAC(1e-290)
