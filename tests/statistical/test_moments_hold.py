"""Certificates of moments hold for people, and intervals hold what they should."""

import numpy as np
import pytest
from scipy import stats

from skparisk import PrivateMoments, SensitivitySampler
from skparisk.moments._models import fit_ols
from skparisk.moments._sums import ReleasedSums

GAMMA, FALSE_ALARM = 0.1, 1e-4


def people(n, rng):
    """Return heavy-tailed features, and a target that is linear in them."""
    X = rng.standard_t(4, size=(n, 2))
    return X, X @ [1.0, -0.5] + rng.standard_t(4, size=n)


@pytest.fixture(scope="module")
def losses():
    """Return for each table the losses of fresh pairs of people, at full noise."""
    found = []
    for repeat in range(150):
        rng = np.random.default_rng(repeat)
        X, y = people(60, rng)
        moments = PrivateMoments(
            gamma=GAMMA,
            sensitivity=SensitivitySampler(noise_shape="isotropic"),
            random_state=repeat,
        ).fit(*people(20, rng), X_reference=X, y_reference=y)
        sampler = moments.sampler_
        assert len(sampler.differences_) == 24  # 48 rows, each in one pair
        query = sampler.query_
        one, other = (
            np.array([query(*people(1, rng)) for _ in range(20)]) for _ in range(2)
        )
        moved = sampler.mechanism_.shape.whiten(one - other)
        found.append(np.abs(moved).sum(axis=1) / sampler.noise_scale_)
    return np.array(found)


def exceeds(losses):
    """Tell if more fresh pairs are beyond the level than the risk says.

    One of each table, as those of one are at the same noise.
    """
    beyond = int((losses[:, 0] > 1.0).sum())
    p = stats.binomtest(beyond, len(losses), GAMMA, alternative="greater").pvalue
    return p < FALSE_ALARM


def test_the_risk_holds_for_new_people(losses):
    """From small tables of heavy tails; and not with half of the noise."""
    assert not exceeds(losses)
    # The mean over pairs of a table is unbiased as well, with less spread.
    rates = (losses > 1.0).mean(axis=1)
    error = rates.std() / len(rates) ** 0.5
    assert rates.mean() < GAMMA + 4 * error
    assert rates.mean() > GAMMA / 3  # and not for want of a tail
    assert exceeds(2 * losses)


def coverage(share, n_releases=2000):
    """Return how often 95 % intervals hold, with a share of the noise accounted for."""
    rng = np.random.default_rng(7)
    n, d, beta = 400, 3, np.array([0.5, -0.3])
    bias, held = 0.2, []
    noise = np.diag(np.full(9, 12.0**2))
    for _ in range(n_releases):
        X = rng.normal(loc=[0.3, 0.0], size=(n, 2))
        y = bias + X @ beta + rng.normal(size=n)
        Z = np.column_stack([X, y])
        i, j = np.triu_indices(d)
        sums = np.concatenate([Z.sum(axis=0), (Z.T @ Z)[i, j]])
        sums += rng.laplace(scale=12 / 2**0.5, size=9)
        told = ReleasedSums(sums, share**2 * noise, n, np.zeros(d), np.ones(d))
        low, high = fit_ols(told, np.arange(2), 2).confint().T
        truth = np.array([bias, *beta])
        held.append((low <= truth) & (truth <= high))
    return np.mean(held, axis=0)


def test_intervals_hold_the_coefficients():
    """In 95 of 100 releases, within a point; fewer if the noise is not known."""
    assert np.abs(coverage(1.0) - 0.95).max() < 0.01 + 2 * (0.05 * 0.95 / 2000) ** 0.5
    assert coverage(0.5).max() < 0.93
    assert coverage(1.5).min() > 0.96
