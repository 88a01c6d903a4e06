"""Noise of matrices: its law, what it pays for, and its grid."""

import math
import os

import numpy as np
import pytest
from laws import assert_law, rejects_law
from scipy import stats

from skparisk import PrivateMoments
from skparisk._matrix_noise import _COARSE_BITS, MatrixNoise
from skparisk.core.exact import noise_source


def gamma_difference(x, shape):
    """Return the distribution function of X - Y, both Gamma(shape, 1)."""
    terms = [
        math.comb(shape - 1 + j, j)
        / 2 ** (shape - 1 + j)
        * stats.gamma.cdf(np.abs(x), shape - j)
        for j in range(shape)
    ]
    return 0.5 + 0.5 * np.sign(x) * np.sum(terms, axis=0)


@pytest.mark.slow
def test_the_law_of_the_noise():
    """That of a difference of Wishart matrices; not with a tenth more, or less."""
    noise = MatrixNoise(1, 0, 1.0, 0.5)
    steps = noise.sample(50_000, os.urandom).astype(float)
    draws = steps * 2.0 ** np.array(noise._exponents)
    deviations = np.sqrt(noise.variances())
    np.testing.assert_allclose(draws.std(axis=0), deviations, rtol=0.05)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.03
    # Beside the diagonal, sums of 3 products of normal numbers are halves of squares.
    beside = draws[:, 0] * noise.stretches[0] / (noise.noise_scale / 2)

    def law(x):
        return gamma_difference(x, 3)

    assert_law(beside, law)
    assert rejects_law(0.9 * beside, law)
    assert rejects_law(1.1 * beside, law)


def test_the_loss_is_at_most_the_trace_norm():
    """Of events that tell two records apart best; and half of the noise is too little.

    Tails of the difference of what the matrix says of either record.
    """
    rng = np.random.default_rng(0)
    n, epsilon = 200_000, 1.0
    G, H = rng.normal(size=(2, n, 2, 3))
    # Records of squared length 1 along both axes: 2 is the trace norm.
    for share, most in ((1.0, epsilon), (0.5, 2 * epsilon)):
        half = share * (2 / epsilon) / 2
        N = half * ((G**2).sum(axis=2) - (H**2).sum(axis=2))
        told = N[:, 0] - N[:, 1]
        ends = np.linspace(-4, 8, 30)
        with_one = (told[:, None] + 1 > ends).mean(axis=0)
        with_other = (told[:, None] - 1 > ends).mean(axis=0)
        losses = np.log(with_one / with_other)
        errors = 5 / np.sqrt(n * with_other)
        assert (losses < most + errors).all()
        assert losses.max() > 0.65 * most
    assert losses.max() > epsilon + 0.1


@pytest.mark.parametrize(("n_targets", "radius"), [(0, None), (1, None), (2, 1.5)])
def test_the_sensitivity_holds_and_is_nearly_attained(n_targets, radius):
    """By records in the bounds, at random and at the corners."""
    rng = np.random.default_rng(n_targets)
    d = 8
    squared = float(d) if radius is None else radius**2
    noise = MatrixNoise(d, n_targets, squared, 1.0)
    most = 0.0
    for trial in range(4000):
        z = rng.uniform(-1, 1, size=(2, d + n_targets))
        z = np.sign(z) if trial % 2 else z
        lengths = np.linalg.norm(z[:, :d], axis=1, keepdims=True)
        z[:, :d] *= np.minimum(1, squared**0.5 / lengths)
        u = np.column_stack([[1, 1], z]) * noise.stretches
        gap = np.outer(u[0], u[0]) - np.outer(u[1], u[1])
        most = max(most, np.abs(np.linalg.eigvalsh(gap)).sum())
    assert 0.98 * noise.sensitivity < most <= noise.sensitivity


def test_what_is_released_is_on_a_grid():
    """Far finer than the noise; and none is added at an infinite level."""
    noise = MatrixNoise(2, 1, 2.0, 1.0)
    grids = 2.0 ** np.array(noise._exponents)
    deviations = np.sqrt(noise.variances())
    assert (grids < deviations * 2.0**-28).all()
    values = np.linspace(-3, 1e6, 9)
    first, again = (noise.prepare(values)(noise_source(seed)) for seed in (1, 1))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first % grids, 0)
    assert (np.abs(first - values) < 20 * deviations).all()
    exact = MatrixNoise(2, 1, 2.0, math.inf)
    assert exact.certificate(5).delta == 0
    released = exact.prepare(values)(noise_source(None))
    np.testing.assert_array_equal(released, values)


def test_levels_that_the_grid_cannot_pay_for():
    """Are refused where they are too small; large ones have the noise of 64."""
    with pytest.raises(ValueError, match=r"epsilon must be above .* got 1e-09"):
        PrivateMoments(epsilon=1e-9, sensitivity="bound", bounds=(0, 1)).fit([[1.0]])
    large, most = (MatrixNoise(3, 0, 1.0, epsilon) for epsilon in (1e9, 64.0))
    assert large.noise_scale == most.noise_scale
    assert MatrixNoise(3, 0, 1.0, 32.0).noise_scale == pytest.approx(
        2 * most.noise_scale, rel=1e-6
    )


@pytest.mark.parametrize("n_features", [1, 2, 5, 20, 100, 1000])
def test_mixing_pays_for_tails(n_features):
    """What normal numbers far out leave is below what each outcome has at least."""
    noise = MatrixNoise(n_features, 0, 1.0, 1.0)
    n, t = noise.n_rows, noise._farthest
    tail = math.log2(4 * n * (n + 1)) - t**2 / 2 / math.log(2)
    for epsilon in (2 * noise._rounding, 1.0, 64.0):
        delta = tail + math.log2(1 + math.exp(epsilon))
        outcome = -60 - 120 * len(noise.stretches) * (n + 1) / 2
        assert delta < math.log2(math.expm1(epsilon)) + outcome
    # Nearer by a half, they would not be paid for.
    assert tail + 3 / 4 * t**2 / 2 / math.log(2) > outcome
    assert noise._rounding < 2.0**-12
    # Below what the sampler of discrete Gaussian numbers draws exactly.
    assert t < 2 ** (63 - _COARSE_BITS) - 1


def test_each_outcome_is_possible(monkeypatch):
    """What is released is mixed with uniform numbers, so that there is no delta."""
    noise = MatrixNoise(1, 0, 1.0, 1.0)
    seen = []

    def mix(values, source):
        seen.append(values)
        return [7] * len(values)

    monkeypatch.setattr("skparisk._matrix_noise.mix_uniform", mix)
    released = noise.prepare(np.array([1e6, 2.0]))(noise_source(0))
    np.testing.assert_array_equal(released, 7 * 2.0 ** np.array(noise._exponents))
    values = np.array(seen[0], dtype=float) * 2.0 ** np.array(noise._exponents)
    np.testing.assert_allclose(values, [1e6, 2.0], atol=1e3)
