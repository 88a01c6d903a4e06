"""SensitivitySampler(law="exponential"): a choice whose scores were sampled."""

import dataclasses
import math
import os

import numpy as np
import pytest
from certificates import filed
from laws import FALSE_ALARM, exceeds
from scipy import stats

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.core.noise import AdditiveNoise
from skparisk.mechanisms import Exponential, ExponentialChoice
from skparisk.reference import CallableReference

N_RECORDS = 30
PRICES = (1.0, 2.0, 3.0, 4.0)
GAMMA = 0.2
RNG = np.random.default_rng(0)
PARAMETERS = {
    "law": "exponential",
    "n_records": N_RECORDS,
    "random_state": 0,
    "n_pairs": 99,
}


def bids(n_records, rng):
    return rng.gamma(2.0, size=(n_records, 1))


def revenue(X):
    """What each price earns in an auction of these bids."""
    return np.array([price * np.count_nonzero(X[:, 0] >= price) for price in PRICES])


REFERENCE = CallableReference(bids)
X = bids(N_RECORDS, RNG)


def make_sampler(**parameters):
    return SensitivitySampler(
        revenue, **{**PARAMETERS, "reference": REFERENCE} | parameters
    )


def test_sensitivity_is_the_largest_difference_of_a_score():
    sampler = make_sampler().fit(X)
    sizes = np.abs(sampler.differences_).max(axis=1)
    np.testing.assert_array_equal(sampler.sensitivities_, sizes)
    assert sampler.sensitivity_ == np.sort(sizes)[95 - 1]  # K = ceil(0.95 * 100)
    assert sampler.noise_epsilon_ == pytest.approx(1.0, rel=2e-6)
    assert sampler.noise_epsilon_ < 1.0
    assert sampler.certificate_.private
    assert sampler.certificate_.evidence.n_outputs == len(PRICES)
    assert "exp(score / (2 scale))" in str(sampler.certificate_)


def test_release_has_the_law_of_the_mechanism_and_no_other():
    sampler = make_sampler(epsilon=3.0, noise_random_state=0)
    with pytest.warns(UserWarning, match="noise_random_state"):
        sampler.fit(X).release(X)
    choose = sampler.mechanism_.prepare(np.tile(revenue(X), (20_000, 1)))
    chosen = choose(np.random.default_rng(1).bytes)
    counts = np.bincount(chosen, minlength=len(PRICES))
    for factor, accepted in ((1.0, True), (0.8, False), (1.25, False)):
        weights = np.exp(revenue(X) * factor / (2 * sampler.noise_scale_))
        law = stats.chisquare(counts, 20_000 * weights / weights.sum())
        assert (law.pvalue > FALSE_ALARM) == accepted


@pytest.mark.parametrize("noise", [1.0, 0.25])
def test_certificate_holds_for_the_exact_loss_of_fresh_pairs(noise):
    """With a quarter of the noise it does not."""
    sampler = make_sampler(n_pairs=1000, gamma=GAMMA).fit(X)
    losses = []
    rng = np.random.default_rng(2)
    choice = ExponentialChoice.at_least(noise * sampler.noise_scale_)
    for _ in range(1000):
        one, other = bids(N_RECORDS, rng), bids(1, rng)
        neighbor = np.concatenate([one[1:], other])
        logs = [np.log(choice.probabilities(revenue(D))) for D in (one, neighbor)]
        losses.append(np.abs(logs[0] - logs[1]).max())
    # The quantile of 1000 pairs is within 5 standard errors of 0.013.
    violations = np.count_nonzero(np.array(losses) > sampler.epsilon)
    assert exceeds(violations, 1000, GAMMA + 5 * 0.013) == (noise < 1)


def test_a_choice_is_no_noise_to_add():
    with pytest.raises(TypeError, match="Exponential chooses a candidate"):
        Exponential().sample(1, 1, os.urandom)
    for law in ("exponential", Exponential()):
        with pytest.raises(ValueError, match="law must be of noise to add to numbers"):
            AdditiveNoise(law, 1, 0)


def test_without_noise_the_best_is_chosen():
    sampler = make_sampler(epsilon=math.inf).fit(X)
    assert sampler.release(X) == revenue(X).argmax()
    assert not sampler.certificate_.private


@pytest.mark.parametrize(
    "wrong", [{"randomness": "both"}, {"delta": 1e-6}, {"noise_shape": "whitened"}]
)
def test_what_has_no_meaning_for_a_choice_is_refused(wrong):
    with pytest.raises(ValueError, match="with law='exponential'"):
        make_sampler(**wrong).fit(X)
    certificate = make_sampler().fit(X).certificate_
    claim = {name: wrong[name] for name in {"randomness", "delta"} & set(wrong)}
    shape = wrong.get("noise_shape", "isotropic")
    evidence = dataclasses.replace(
        certificate.evidence,
        noise_shape=shape,
        n_shape_pairs=None if shape == "isotropic" else 5,
    )
    with pytest.raises(ValueError, match="exponential"):
        dataclasses.replace(filed(certificate), evidence=evidence, **claim)


def test_an_estimator_whose_numbers_are_released_refuses_a_choice():
    model = PrivateRidge(sensitivity=SensitivitySampler(law="exponential"))
    with pytest.raises(ValueError, match="noise that is added to numbers"):
        model.fit(X, X[:, 0])
