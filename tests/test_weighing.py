"""A release and a public fit, weighed by how far each may be off."""

import numpy as np
import pytest
from scipy.integrate import quad

from skparisk._weighing import shape_of, units_of, weigh, weights_of_seen

K = 6
ROOT = np.random.default_rng(0).normal(size=(K, K)) * [1.0, 1.0, 1.0, 10.0, 0.1, 1.0]
SPREAD = ROOT.T @ ROOT
WEIGHTS = np.linalg.inv(SPREAD)
NOISE = 9.0 * np.diag(np.diag(SPREAD))


def simulate(rng, n_times, *, ratio, noise=NOISE, shift=0.0):
    """Return how far releases and public fits are from the truth."""
    error = rng.multivariate_normal(np.zeros(K), SPREAD, size=n_times)
    laplace = rng.laplace(scale=np.sqrt(0.5), size=(n_times, K))
    released = error + laplace @ np.linalg.cholesky(noise).T
    shifts = rng.multivariate_normal(np.zeros(K), (ratio + shift) * SPREAD, n_times)
    return released, shifts


def mean_square(off):
    """Return the mean squared error, in units of the spread."""
    return np.einsum("ni,ij,nj->n", off, WEIGHTS, off).mean()


def given(noise, private, ratio, weights):
    """Return the covariances of a public fit to a table of other size."""
    public = ratio * private
    shape = private
    if weights is not None:
        shape = shape_of(weights, units_of(noise + private + public))
    return {"noise": noise, "private": private, "public": public, "shape": shape}


def weighed(distances, *, ratio, noise=NOISE, weights=WEIGHTS, surplus=None):
    known = given(noise, SPREAD, ratio, weights)
    return [weigh(distance, surplus=surplus, **known) for distance in distances]


@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("shift", [0.0, 1.0, 100.0])
def test_no_worse_than_either_and_close_to_the_best_weights(ratio, shift):
    """Those that know how far the two populations are apart, which is not told."""
    released, public = simulate(
        np.random.default_rng(1), 400, ratio=ratio, shift=shift * ratio
    )
    found = weighed(released - public, ratio=ratio)
    error = mean_square(public + [each.correction for each in found])
    apart = ratio * (1 + shift) * SPREAD
    best = apart @ np.linalg.inv(apart + SPREAD + NOISE)
    least = mean_square(public + (released - public) @ best.T)
    assert error < 2 * least
    assert error < 1.05 * min(mean_square(released), mean_square(public))


def test_the_weight_is_averaged_over_how_far_people_differ():
    """As integrated by itself, for one output."""
    noise, spread, ratio, distance, surplus = 0.7, 1.3, 0.5, 4.0, 1.7
    public = ratio * spread

    def density(shift):
        chance = noise + (1 + ratio) * spread + shift
        before = 2 / public / (1 + shift / public) ** 3
        return before * np.exp(-(distance**2) / chance / 2) / np.sqrt(chance)

    def gain(shift):
        return (public + shift) / (noise + spread + public + shift)

    def shared(shift):
        return max(0.0, 1 - shift / surplus**2)

    total = quad(density, 0, np.inf)[0]
    known = quad(lambda shift: gain(shift) * density(shift), 0, np.inf)[0] / total
    alike = quad(lambda shift: shared(shift) * density(shift), 0, surplus**2)[0] / total
    square = [np.array([[each]]) for each in (noise, spread, 1.0)]
    found = weigh(
        np.array([distance]),
        surplus=np.array([surplus]),
        **given(square[0], square[1], ratio, square[2]),
    )
    assert found.weight == pytest.approx(known, rel=1e-3)
    expected = known * distance - (1 - alike) * surplus
    np.testing.assert_allclose(found.correction, expected, rtol=1e-3)
    below = quad(density, 0, found.shift[0] ** 2)[0] / total
    assert below == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("shift", "of_all", "of_none"), [(0.01, 1.1, 0.1), (1.0, 1.0, 0.6), (1e3, 0.4, 99)]
)
def test_what_a_penalty_took_is_kept_as_far_as_people_are_alike(shift, of_all, of_none):
    """Against all of it, or none, by what these cost where they are wrong or right."""
    rng = np.random.default_rng(4)
    size = 3.0
    released, public = simulate(rng, 200, ratio=0.2, noise=0.1 * NOISE, shift=shift)
    ours, apart = (
        rng.multivariate_normal(np.zeros(K), each * SPREAD, 200)
        for each in (size, shift)
    )
    found = [
        weighed([d], ratio=0.2, noise=0.1 * NOISE, surplus=u)[0].correction
        for d, u in zip(released - public, ours + apart, strict=True)
    ]
    plain = weighed(released - public, ratio=0.2, noise=0.1 * NOISE)
    plain = np.array([each.correction for each in plain])
    all_kept = mean_square(public + plain + apart)
    none_kept = mean_square(public + plain - ours)
    error = mean_square(public + found + apart)
    assert error < of_all * all_kept
    assert error < of_none * none_kept


def test_of_other_people_the_release_stands_alone():
    """Without what its penalty took, which only public records know."""
    far = 1e4 * np.sqrt(np.diag(SPREAD))
    (found,) = weighed([far], ratio=0.2, surplus=far / 1e3)
    np.testing.assert_allclose(found.correction, far - far / 1e3, rtol=1e-3)


def test_a_distance_far_beyond_chance_is_a_shift():
    """The release then stands, were it in other units by a factor of a million."""
    far = 1e6 * np.sqrt(np.diag(SPREAD)) * [1, -1, 1, 1, -1, 1]
    (found,) = weighed([far], ratio=0.2)
    np.testing.assert_allclose(found.correction, far, rtol=1e-3)
    assert found.weight > 0.999
    (quiet,) = weighed([far / 1e6], ratio=0.2)
    assert quiet.weight < 0.3
    assert (found.shift > 1e4 * quiet.shift).all()


def test_noise_that_is_larger_than_all_else_is_left_out():
    """Were it a thousand times as large as what the public fit may be off by."""
    noise = 1e6 * NOISE
    released, public = simulate(np.random.default_rng(3), 400, ratio=0.2, noise=noise)
    found = weighed(released - public, ratio=0.2, noise=noise)
    error = mean_square(public + [each.correction for each in found])
    assert error < 1.05 * mean_square(public)
    assert max(each.weight for each in found) < 0.01


def test_a_shift_is_alike_in_what_it_costs():
    """An output that weighs little may differ by more."""
    noise = spread = np.eye(2)
    distance = np.full(2, 3.0)
    alike, unlike = (
        weigh(distance, **given(noise, spread, 1.0, weights))
        for weights in (np.eye(2), np.diag([1.0, 0.01]))
    )
    assert alike.correction[0] == pytest.approx(alike.correction[1])
    assert unlike.correction[1] > 1.2 * unlike.correction[0]
    assert unlike.shift[1] == pytest.approx(10 * unlike.shift[0], rel=0.1)


@pytest.mark.parametrize("weights", [WEIGHTS, None])
def test_the_estimate_does_not_depend_on_units(weights):
    units = np.array([1e-6, 1.0, 1e6, 3.0, 1.0, 0.5])
    (distance,), _ = simulate(np.random.default_rng(5), 1, ratio=0.2, shift=30.0)
    surplus = np.sqrt(np.diag(SPREAD)) * [1, -2, 1, 0, 3, 1]
    (plain,) = weighed([distance], ratio=0.2, weights=weights, surplus=surplus)
    scales = np.outer(units, units)
    scaled = weigh(
        distance * units,
        surplus=surplus * units,
        **given(
            NOISE * scales,
            SPREAD * scales,
            0.2,
            None if weights is None else weights / scales,
        ),
    )
    np.testing.assert_allclose(scaled.correction, plain.correction * units, rtol=1e-6)
    np.testing.assert_allclose(scaled.shift, plain.shift * units, rtol=1e-6)
    assert scaled.weight == pytest.approx(plain.weight)


def test_without_weights_people_differ_where_they_vary():
    """As with the weights that make all of that variation cost the same."""
    (distance,), _ = simulate(np.random.default_rng(6), 1, ratio=0.2)
    known, unknown = (
        weighed([distance], ratio=0.2, weights=weights)[0].correction
        for weights in (WEIGHTS, None)
    )
    np.testing.assert_allclose(known, unknown, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("weights", [np.diag([1.0, 1.0, 0.0]), None])
def test_outputs_that_do_not_vary(weights):
    """The release stands where it differs from the public value, and has no noise."""
    found = weigh(
        np.array([0.2, 0.0, 1.0]),
        **given(np.zeros((3, 3)), np.diag([1.0, 0.0, 0.0]), 1.0, weights),
    )
    assert 0.0 < found.correction[0] <= 0.2
    np.testing.assert_allclose(found.correction[1:], [0.0, 1.0], atol=1e-3)


def test_nothing_at_all_is_no_correction():
    nothing = np.zeros((2, 2))
    found = weigh(
        np.zeros(2),
        **given(nothing, nothing, 1.0, nothing),
    )
    np.testing.assert_array_equal(found.correction, 0.0)
    np.testing.assert_array_equal(found.shift, 0.0)


def seen_of(response, *, public, release, size, n_times=4000):
    """Return shifts of that variance, and what releases show of them."""
    rng = np.random.default_rng(7)
    shifts = rng.normal(scale=np.sqrt(size), size=(n_times, K))
    shifts += rng.multivariate_normal(np.zeros(K), public, size=n_times)
    noise = rng.multivariate_normal(np.zeros(K), release, size=n_times)
    return shifts, shifts @ response.T + noise


@pytest.mark.parametrize("penalty", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("level", [0.01, 0.3, 10.0])
def test_what_a_penalty_took_is_not_taken_twice(penalty, level):
    """Against all weights that are the same along each axis, from 0 to 1."""
    kept = 1 / (1 + penalty * np.linspace(0, 1, K))
    response, public = np.diag(kept), 0.3 * np.eye(K)
    release = level * np.diag(kept)
    shifts, seen = seen_of(response, public=public, release=release, size=0.3)
    found = [
        weights_of_seen(each, response, release=release, public=public)[0]
        for each in seen[:400]
    ]
    assert np.min(found) >= 0
    assert np.max(found) <= 1
    error = np.mean((found * seen[:400] - shifts[:400]) ** 2)
    tried = np.linspace(0, 1, 101)[:, None, None]
    errors = np.mean((tried * seen - shifts) ** 2, axis=1)
    assert error < 1.1 * errors.min(axis=0).mean()


def test_weights_are_those_of_an_integral():
    """For one output, and in any units."""
    response, public, release, seen = 0.4, 0.7, 0.2, 0.9
    chance = public * response**2 + release

    def density(size):
        before = 2 / public / (1 + size / public) ** 3
        variance = chance + size * response**2
        return before * np.exp(-(seen**2) / variance / 2) / np.sqrt(variance)

    def weight(size):
        return response * (public + size) / (chance + size * response**2)

    total = quad(density, 0, np.inf)[0]
    known = quad(lambda size: weight(size) * density(size), 0, np.inf)[0] / total
    assert known > 1  # what the penalty took would be more than put back
    for unit in (1.0, 1e-60, 1e60):
        for share in (1.0, 0.25):  # of the response, with noise of the same size
            found, shift = weights_of_seen(
                np.array([seen * unit]),
                np.array([[response * share]]),
                release=np.array([[release * unit**2]]),
                public=np.array([[public * unit**2 / share**2]]),
            )
            np.testing.assert_allclose(found, min(known / share, 1.0), rtol=1e-3)
            below = quad(density, 0, shift * (share / unit) ** 2)[0] / total
            assert below == pytest.approx(0.5, abs=0.05)
    noisy, _ = weights_of_seen(
        np.array([0.1]),
        np.array([[response]]),
        release=np.array([[20.0]]),
        public=np.array([[public]]),
    )
    assert 0 < noisy < 0.05
