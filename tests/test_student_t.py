"""Student t noise as one class of a user's, and the claim that is sampled with it."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from skparisk import SensitivitySampler
from skparisk.core import Assumption, Law
from skparisk.core.exact import noise_source
from skparisk.core.laws import Laplace, as_law
from skparisk.core.pairs import norms_of_pairs
from skparisk.queries import MeanQuery


@dataclass(frozen=True)
class StudentT(Law):
    """Student t noise with 3 degrees of freedom: far tails, and a bounded loss."""

    name: ClassVar[str] = "student t"
    # Of this width, its log-density has a slope of at most 1 (2 / sqrt(3), rounded up).
    width: ClassVar[Fraction] = Fraction(11548, 10000)
    deviation: ClassVar[float] = math.sqrt(3) * 1.1548

    def sample(self, scale, size, source):
        s = math.ceil(self.width * scale)
        return np.array([draw(s, source) for _ in range(size)], dtype=object)


def draw(s, source):
    """Return a whole number z, with probability as (1 + z**2 / (3 s**2))**-2."""
    while True:
        block = 0  # from 0 to s, and then as far again, each half as likely
        while flip(Fraction(1, 2), source):
            block += 1
        size = s << max(block - 1, 0)
        z = uniform(size, source) + size * (block > 0)
        weight = Fraction(3 * s * s, 3 * s * s + z * z) ** 2
        sign = 1 if flip(Fraction(1, 2), source) else -1
        if flip(weight * max(2, 4**block) / 3, source) and (z or sign > 0):
            return sign * z


def flip(probability, source):
    """Return True with this probability, by the bits of its expansion."""
    left, of = probability.as_integer_ratio()
    while True:
        digit, left = divmod(left << 8, of)
        if (byte := source(1)[0]) != digit:
            return byte < digit


def uniform(n, source):
    """Return a whole number below n."""
    while (
        z := int.from_bytes(source(n.bit_length() // 8 + 1)) % 2 ** n.bit_length()
    ) >= n:
        pass
    return z


def masses(s, n):
    """Return the exact law of the draws, as far as n to either side."""
    z = np.arange(-n, n + 1.0)
    weights = (1 + (z / s) ** 2 / 3) ** -2
    # What is beyond is as the integral of its tail.
    tail = 2 * s * stats.t(3).sf((n + 0.5) / s) / stats.t(3).pdf(0)
    return weights / (weights.sum() + tail)


@pytest.mark.slow
def test_it_is_drawn_exactly():
    scale = 5
    s = math.ceil(StudentT.width * scale)
    drawn = StudentT().sample(scale, 20_000, noise_source(0)).astype(float)
    n = 20
    exact = masses(s, n)
    inside = np.bincount(drawn[np.abs(drawn) <= n].astype(int) + n, minlength=2 * n + 1)
    counts = np.append(inside, np.sum(np.abs(drawn) > n))
    expected = np.append(exact, 1 - exact.sum()) * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    assert stats.chisquare(np.roll(counts, 1), expected).pvalue < 1e-12


def test_its_loss_is_at_most_the_distance_over_the_scale():
    for scale in (1, 7, 1000):
        s = math.ceil(StudentT.width * scale)
        z = np.unique(np.geomspace(1, 1e9, 5000).round())
        z = np.concatenate([-z[::-1], [0], z])
        loss = 2 * np.log((3 * s**2 + (z + 1) ** 2) / (3 * s**2 + z**2))
        assert np.abs(loss).max() <= 1 / scale
        narrower = 2 * np.log(
            (3 * (s / 2) ** 2 + (z + 1) ** 2) / (3 * (s / 2) ** 2 + z**2)
        )
        assert scale == 1 or np.abs(narrower).max() > 1 / scale


@pytest.mark.parametrize("too_little", [1.0, 0.5])
def test_the_sampled_claim_holds(too_little):
    """Of fresh pairs, no larger share than the risk exceeds the level."""

    def sampler(seed):
        return SensitivitySampler(
            MeanQuery(),
            epsilon=1.0,
            gamma=0.1,
            law=StudentT(),
            n_pairs=400,
            n_records=50,
            noise_shape="isotropic",
            reference=lambda n, rng: rng.lognormal(size=(n, 2)),
            random_state=seed,
        ).fit(np.ones((50, 2)))

    fitted = sampler(0)
    claim = fitted.certificate_
    assert Assumption.GIVEN_NOISE in claim.assumptions
    assert claim.evidence.law == "student t"
    fresh = norms_of_pairs(sampler(1).pairs_, fitted.mechanism_.shape, StudentT())
    beyond = int(np.sum(fresh / (fitted.noise_scale_ * too_little) > 1.0))
    at_most = stats.binomtest(beyond, len(fresh), claim.risk, "greater")
    assert bool(at_most.pvalue > 1e-3) is (too_little == 1.0)
    released = fitted.release(np.full((50, 2), 2.0))
    assert np.isfinite(released).all()


def test_a_loss_that_has_a_bound_exceeds_no_level_above_it():
    law = StudentT()
    assert law.exceedance([0.5, 1.5], 1.0).tolist() == [1.0, 0.0]
    assert law.risk(0.5, 1.0) == 1.0


def test_a_law_of_ones_own_says_what_it_is():
    """Not in the name of another, wherever it says that its class is from."""

    class Forged(StudentT):
        name = "laplace"

    class Wide(StudentT):
        def profile(self, epsilon, shift):
            return Laplace().profile(epsilon, 1.5 * np.asarray(shift))

    Forged.__module__ = Laplace.__module__
    with pytest.raises(ValueError, match="law must not be one of your own named"):
        as_law(Forged())
    with pytest.raises(ValueError, match="a loss of at most the distance"):
        as_law(Wide())
