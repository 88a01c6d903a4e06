"""A release and a public fit, weighed by how far each may be off."""

import numpy as np
import pytest

from skparisk._weighing import estimate_shift, weigh

K = 6
ROOT = np.random.default_rng(0).normal(size=(K, K)) * [1.0, 1.0, 1.0, 10.0, 0.1, 1.0]
SPREAD = ROOT.T @ ROOT
NONE = np.zeros(K)
NOISE = 9.0 * np.diag(np.diag(SPREAD))


def simulate(rng, n_times, *, ratio, noise=NOISE, shift=0.0):
    """Return a truth, noisy releases and public fits."""
    truth = rng.normal(size=K)
    error = rng.multivariate_normal(np.zeros(K), SPREAD, size=n_times)
    laplace = rng.laplace(scale=np.sqrt(0.5), size=(n_times, K))
    released = truth + error + laplace @ np.linalg.cholesky(noise).T
    public = rng.multivariate_normal(truth + shift, ratio * SPREAD, size=n_times)
    return truth, released, public


def mean_square(values, truth):
    """Return the mean squared error, in units of the spread."""
    off = np.atleast_2d(values - truth)
    return np.einsum("ni,ij,nj->n", off, np.linalg.inv(SPREAD), off).mean()


@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
def test_the_weights_are_those_of_the_least_error(ratio):
    """As computed from the true covariances, where there is no sign of a shift."""
    rng = np.random.default_rng(1)
    truth, released, public = simulate(rng, 400, ratio=ratio)
    best = ratio * SPREAD @ np.linalg.inv((1 + ratio) * SPREAD + NOISE)
    weighed = [
        weigh(*pair, noise=NOISE, private=SPREAD, ratio=ratio, bias=NONE)
        for pair in zip(released, public, strict=True)
    ]
    quiet = [not each.shift.any() for each in weighed]
    assert np.mean(quiet) > 0.9
    by_hand = public + (released - public) @ best.T
    values = np.array([each.values for each in weighed])
    np.testing.assert_allclose(values[quiet], by_hand[quiet])
    assert weighed[quiet.index(True)].weight == pytest.approx(np.trace(best) / K)
    error = mean_square(by_hand, truth)
    assert error < min(mean_square(released, truth), mean_square(public, truth))
    for wrong in (0.5, 2.0):  # of the best weights
        other = public + wrong * (released - public) @ best.T
        assert mean_square(by_hand, truth) < mean_square(other, truth)


def test_a_shift_of_one_output_is_found_there():
    """It is corrected, while the others stay with the public fit."""
    rng = np.random.default_rng(2)
    _, (released,), (public,) = simulate(rng, 1, ratio=0.2)
    units = np.sqrt(np.diag(SPREAD))
    public[3] += 100 * units[3]
    weighed = weigh(released, public, noise=NOISE, private=SPREAD, ratio=0.2, bias=NONE)
    assert np.flatnonzero(weighed.shift).tolist() == [3]
    assert abs(weighed.values[3] - released[3]) < 0.2 * units[3]


def test_a_shift_of_all_outputs_is_found_together():
    """No output by itself is a surprise, but all of them are: as little as it takes."""
    distance = np.full(K, 2.5)
    shift = estimate_shift(distance * np.sqrt(10), 10 * np.eye(K), np.eye(K))
    most = K + 1.6449 * np.sqrt(5 * K)
    share = distance @ distance * 10 / most - 10
    np.testing.assert_allclose(shift, share * np.eye(K), rtol=1e-4)


def test_false_alarms_are_few_and_alarms_are_not_suppressed():
    """Of Laplace noise, the heaviest tail; and twice the noise is noticed often."""
    rng = np.random.default_rng(4)
    covariance = NOISE + 1.2 * SPREAD
    rates = []
    for scale in (1.0, 3.0):
        _, released, public = simulate(rng, 1000, ratio=0.2, noise=scale**2 * NOISE)
        shifts = [estimate_shift(d, covariance, SPREAD) for d in released - public]
        rates.append(np.mean([shift.any() for shift in shifts]))
    assert rates[0] < 0.1
    assert rates[1] > 0.5


def test_the_estimate_does_not_depend_on_units():
    units = np.array([1e-6, 1.0, 1e6, 3.0, 1.0, 0.5])
    rng = np.random.default_rng(5)
    bias = rng.normal(size=K)
    _, (released,), (public,) = simulate(rng, 1, ratio=0.2, shift=30 * np.ones(K))
    plain = weigh(released, public, noise=NOISE, private=SPREAD, ratio=0.2, bias=bias)
    scales = np.outer(units, units)
    scaled = weigh(
        released * units,
        public * units,
        noise=NOISE * scales,
        private=SPREAD * scales,
        ratio=0.2,
        bias=bias * units,
    )
    np.testing.assert_allclose(scaled.values, plain.values * units, rtol=1e-6)
    np.testing.assert_allclose(scaled.shift, plain.shift * units, rtol=1e-6)
    assert scaled.weight == pytest.approx(plain.weight)


def test_outputs_that_do_not_vary():
    """The release stands where it differs from the public value."""
    private = np.diag([1.0, 0.0, 0.0])
    weighed = weigh(
        np.array([0.2, 5.0, 7.0]),
        np.array([0.0, 5.0, 6.0]),
        noise=np.zeros((3, 3)),
        private=private,
        ratio=1.0,
        bias=np.zeros(3),
    )
    np.testing.assert_allclose(weighed.values, [0.1, 5.0, 7.0], atol=1e-9)
    assert weighed.shift[:2].tolist() == [0.0, 0.0]


def test_a_bias_of_the_public_fit_is_not_a_shift():
    """The release has the say along it, and not elsewhere."""
    bias = np.array([50.0, 0.0])
    weighed = weigh(
        np.array([50.0, 0.1]),
        np.zeros(2),
        noise=np.eye(2),
        private=0.01 * np.eye(2),
        ratio=1.0,
        bias=bias,
    )
    assert not weighed.shift.any()
    assert weighed.values[0] == pytest.approx(50.0, rel=0.01)
    assert weighed.values[1] == pytest.approx(0.1 * 0.01 / 1.02)


def test_a_distance_that_no_spread_explains_ends_the_search():
    """Along what does not vary between samples, though outputs by themselves do."""
    k = 40
    spread = np.full((k, k), 1.0)
    chance = np.eye(k)
    distance = np.tile([2.0, -2.0], k // 2)
    shift = estimate_shift(distance, chance, spread)
    assert np.isfinite(shift).all()
    assert (np.diag(shift) > 1e15).all()
