"""Results of composition are converted to delta, and to other populations."""

import itertools
import math

import numpy as np
import pytest
from certificates import certificate, minted
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import DELTA, laplace
from scipy import stats

from skparisk.core.claim import Assumption, remade
from skparisk.core.compose import (
    compose_basic,
    compose_exact,
    post_process,
)
from skparisk.core.laws import Gaussian
from skparisk.papers import rubinstein_transferred_risk


def test_a_risk_over_noise_becomes_delta():
    release = minted(0.6, 0.01, risk=0.05, randomness="explicit")
    approximated = post_process(release)
    assert (approximated.delta, approximated.risk) == (0.06, 0.0)
    assert approximated.method == "post-process"
    assert "(0.6, 0.06)-differentially private" in approximated.guarantee
    doubtful = post_process(remade(release, failure_prob=0.02))
    assert (doubtful.delta, doubtful.failure_prob) == (0.08, 0.0)
    assert post_process(remade(release, risk=0.999)).delta == 1


def test_a_risk_over_pairs_and_noise_is_a_delta_on_average_only():
    release = minted(0.6, risk=0.05)
    assert "privacy loss" in release.guarantee
    approximated = post_process(release)
    assert "(0.6, 0.05)-differentially private, on average" in approximated.guarantee
    assert (approximated.epsilon, approximated.risk) == (0.6, 0.05)
    assert (approximated.delta, approximated.post_processed) == (0.0, True)
    together = compose_basic([approximated, minted(0.1)])
    assert "on average" in together.guarantee
    assert post_process(approximated).guarantee == approximated.guarantee


@pytest.mark.parametrize("randomness", ["explicit", "both"])
def test_what_a_release_was_measured_by_is_not_of_what_is_made_of_it(randomness):
    approximated = post_process(certificate(randomness=randomness))
    assert (approximated.method, approximated.evidence) == ("post-process", None)


def test_what_holds_whatever_is_released_survives_post_processing():
    for release in (
        minted(0.5, risk=0.05, failure_prob=0.01, randomness="implicit"),
        laplace(0.5, randomness="explicit"),
        minted(0.5, 1e-5),
    ):
        assert post_process(release) == release
    noise = minted(0.5, risk=0.05, randomness="explicit")
    assert post_process(noise) != noise


def test_risk_over_noise_does_not_survive_post_processing():
    """Merging the large loss with a likely one makes large losses likely."""
    p, q = np.array([0.05, 0.6, 0.35]), np.array([0.0, 0.6 * math.exp(-0.5), 0.0])
    q[2] = 1 - q.sum()
    loss = np.log(p) - np.log(np.maximum(q, 1e-300))
    assert p[loss > 0.5 + 1e-12].sum() == 0.05
    merged_p, merged_q = p[:2].sum(), q[:2].sum()
    assert math.log(merged_p / merged_q) > 0.5
    assert merged_p > 0.05
    delta = post_process(minted(0.5, risk=0.05, randomness="explicit")).delta
    assert merged_p - math.exp(0.5) * merged_q <= delta + 1e-15


@given(shift=st.floats(0.05, 3.0), epsilon=st.floats(0.1, 3.0))
@settings(deadline=None, max_examples=50)
def test_gaussian_delta_is_below_the_risk(shift, epsilon):
    risk = Gaussian().exceedance(epsilon, shift)
    assert Gaussian().profile(epsilon, shift) <= risk + 1e-15


@pytest.mark.parametrize("n", [1, 10, 200])
def test_another_population_has_its_total_variation_more_risk(n):
    p, q = 0.4, 0.42
    divergence = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    ones = np.arange(n + 2)
    laws = (stats.binom.pmf(ones, n + 1, x) for x in (p, q))
    apart = np.abs(np.subtract(*laws)).sum() / 2
    risk = rubinstein_transferred_risk(0.05, divergence, n_records=n)
    assert apart <= risk - 0.05 <= 1.3 * apart
    assert risk - 0.05 == pytest.approx(math.sqrt((n + 1) * divergence / 2), rel=1e-9)
    assert rubinstein_transferred_risk(0.05, math.inf, n_records=n) == 1
    assert rubinstein_transferred_risk(0.05, 0, n_records=n) == 0.05
    with pytest.raises(ValueError, match=r"^kl_divergence must be .*\[0, inf\], got"):
        rubinstein_transferred_risk(0.05, -1e-9, n_records=n)
    with pytest.raises(ValueError, match=r"^n_records must be a whole number >= 1"):
        rubinstein_transferred_risk(0.05, 0.1, n_records=0)


def test_conditions_are_kept_when_results_are_composed_or_converted():
    fixed = compose_exact([(0.1, 0.0, 0.01)] * 4, delta=DELTA)
    kept = Assumption.NUMBER_FIXED
    (condition,) = (text for text in fixed.conditions if "their levels" in text)
    for further in (
        compose_basic([fixed, 0.1]),
        compose_exact([fixed, (0.1, 1e-6)], delta=0.1),
        post_process(fixed),
    ):
        assert fixed.assumptions <= further.assumptions
        assert condition in further.conditions
    assert kept in fixed.assumptions - compose_basic([0.1] * 4).assumptions


def test_results_are_the_same_in_any_grouping():
    parts = [(0.1, 1e-7, 0.01), (0.2, 1e-8, 0.02), (0.7, 0.0, 0.0)]
    whole = compose_basic(parts)
    for split in itertools.permutations(parts):
        nested = compose_basic([compose_basic(split[:2]), split[2]])
        assert (nested.epsilon, nested.delta, nested.risk) == (
            whole.epsilon,
            whole.delta,
            whole.risk,
        )
        assert nested.n_releases == 3
