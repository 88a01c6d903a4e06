"""How much of a noisy correction is added to a public fit."""

import numpy as np
import pytest
from scipy.integrate import quad

from skparisk.linear_model._correction import weights_of_seen

K = 6


def seen_of(response, *, public, release, size, n_times=4000):
    """Return shifts of that variance, and what releases show of them."""
    rng = np.random.default_rng(7)
    shifts = rng.normal(scale=np.sqrt(size), size=(n_times, K))
    shifts += rng.multivariate_normal(np.zeros(K), public, size=n_times)
    noise = rng.multivariate_normal(np.zeros(K), release, size=n_times)
    return shifts, shifts @ response.T + noise


@pytest.mark.sampled(1)
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
