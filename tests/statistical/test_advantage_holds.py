"""What attackers gain is what is claimed, at fresh pairs; and at 0.9 of the noise more.

Each calibration has its own pairs. What is claimed is over these and a fresh pair, so
that means over calibrations are compared, with normal limits; and one fresh pair for
each calibration with exact binomial tests.
"""

from functools import cache

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS, exceeds
from scipy import stats
from scipy.special import ndtr

from skparisk.core.calibrate import Target
from skparisk.core.exact import noise_source
from skparisk.core.laws import Laplace
from skparisk.sensitivity import calibrate

ASKED, GAMMA = 0.2, 0.1
N_CALIBRATIONS, N_PAIRS, N_FRESH = 300, 199, 400
OUTPUTS = {"laplace": 1, "gaussian": 5}
every_law = pytest.mark.parametrize("law", OUTPUTS)
every_seed = pytest.mark.parametrize("seed", SEEDS)
Z = stats.norm.isf(FALSE_ALARM)


def draw(rng, size, law):
    """Return differences with some far out, as those of records of people are."""
    k = OUTPUTS[law]
    return np.exp(rng.normal(size=(*size, 1))) * rng.normal(size=(*size, k))


def total_variation(differences, scale, law):
    """Return the exact one of continuous noise."""
    if law == "laplace":
        return -np.expm1(-np.abs(differences[..., 0]) / scale / 2)
    shifts = np.linalg.norm(differences, axis=-1) / scale
    return 2 * ndtr(shifts / 2) - 1


@cache
def calibrations(law, seed, target, rule="exchangeable", n_pairs=N_PAIRS):
    """Return noise and claim of many samples of pairs, and fresh pairs for each."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(N_CALIBRATIONS):
        pairs = draw(rng, (n_pairs,), law)
        noise, claim = calibrate(
            pairs, target, law=law, rule=rule, n_records=10, random_state=seed
        )
        found.append((noise, claim, draw(rng, (N_FRESH,), law)))
    return found


def limits(values):
    """Return limits of a mean, outside of which it is with FALSE_ALARM each."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values) - Z * error, np.mean(values) + Z * error


@every_seed
@every_law
def test_mean_advantage_is_at_most_what_was_asked_for(law, seed):
    """And just so: it is not far below either, as 1/(m + 1) is all that is lost."""
    found = calibrations(law, seed, Target.of_advantage(ASKED, GAMMA))

    def means(share):
        return [
            total_variation(fresh, share * noise.noise_scale, law).mean()
            for noise, _, fresh in found
        ]

    low, high = limits(means(1.0))
    assert low <= ASKED
    assert high >= ASKED - 1 / (N_PAIRS + 1)
    assert limits(means(0.9))[0] > ASKED
    assert limits(means(1.1))[1] < ASKED - 1 / (N_PAIRS + 1)


TARGETS = {
    "implicit": Target(1.0, GAMMA, 1e-3),
    "both": Target(1.0, GAMMA, randomness="both"),
    "advantage": Target.of_advantage(ASKED, GAMMA),
}


@every_seed
@every_law
@pytest.mark.parametrize(
    ("over", "rule"),
    [*((over, "exchangeable") for over in TARGETS), ("implicit", "pac")],
)
def test_what_is_measured_holds_for_fresh_pairs(law, over, rule, seed):
    """The mean and the quantile; with less noise they fail."""
    found = calibrations(law, seed, TARGETS[over], rule)

    def beyond(share):
        """Return by how much fresh pairs are beyond what was claimed, on average."""
        gained, farther = [], []
        for noise, claim, fresh in found:
            gain = claim.advantage
            true = total_variation(fresh, share * noise.noise_scale, law)
            gained.append(true.mean() - gain.mean)
            farther.append((true > gain.quantile).mean() - gain.risk)
        return limits(gained), limits(farther)

    (gained, _), (farther, _) = beyond(1.0)
    assert gained <= 0
    assert farther <= 0
    (gained, _), (farther, _) = beyond(0.8)
    assert gained > 0
    assert farther > 0


@every_seed
@every_law
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_all_but_a_share_of_pairs_are_below_the_quantile(law, target, seed):
    """One fresh pair for each calibration: exact binomial tests."""
    found = calibrations(law, seed, target)
    for share, too_often in ((1.0, False), (0.4, True)):
        above = sum(
            total_variation(fresh[0], share * noise.noise_scale, law)
            > claim.advantage.quantile
            for noise, claim, fresh in found
        )
        risk = max(claim.advantage.risk for _, claim, _ in found)
        assert risk == pytest.approx(GAMMA)
        assert exceeds(above, N_CALIBRATIONS, risk) is too_often


@every_law
def test_the_best_attacker_is_not_right_more_often_than_claimed(law):
    """By likelihood ratios, from what the mechanism releases of either database."""
    rng = np.random.default_rng(1)
    right = {1.0: 0, 0.4: 0}
    n_attacks = 0
    power = 1 if law == "laplace" else 2
    for seed, (noise, claim, fresh) in enumerate(
        calibrations(law, 0, TARGETS["advantage"])
    ):
        apart = fresh[:8]
        secret = rng.integers(2, size=(len(apart), 1))
        draws = noise.prepare(np.zeros(apart.shape))(noise_source(seed))
        n_attacks += len(apart)
        for share in right:
            released = secret * apart + share * draws
            first = (np.abs(released) ** power).sum(axis=1)
            second = (np.abs(released - apart) ** power).sum(axis=1)
            guesses = (second < first)[:, np.newaxis]
            right[share] += int(np.count_nonzero(guesses == secret))
        assert claim.advantage.mean == pytest.approx(ASKED)
    assert not exceeds(right[1.0], n_attacks, (1 + ASKED) / 2)
    assert exceeds(right[0.4], n_attacks, (1 + ASKED) / 2)


def test_pairs_that_are_counted_at_the_released_noise_claim_too_little():
    """The reason why means are read one pair below: two sizes, and K between them."""
    rng, law = np.random.default_rng(0), Laplace()
    naive, claimed = [], []
    for _ in range(2000):
        sizes = np.where(rng.random(100) < 0.7, 1.0, 1e4)
        noise, claim = calibrate(sizes[:99, np.newaxis], Target(0.02, 0.3), n_records=1)
        shifts = np.array([1.0, 1e4, *sizes[:99]]) / noise.noise_scale
        small, large, *pairs = law.advantage(shifts, n_outputs=1, steps=2**40)
        true = 0.7 * small + 0.3 * large
        naive.append(true - (1 + sum(pairs)) / 100)
        claimed.append(true - claim.evidence.advantage.mean)
    assert limits(naive)[0] > 0
    assert limits(claimed)[1] <= 0
