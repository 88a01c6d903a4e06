"""From critical scales to a noise level: order statistics, risk control, what is known.

The grid is paid for: what is promised for the discrete noise follows from what was
calibrated for the continuous one.
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_plans import find_by_risks
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from skparisk.core import rounding as grid
from skparisk.core.calibrate import (
    Exchangeable,
    Target,
    Terms,
    drawn_levels,
    drawn_scales,
    find_known,
)
from skparisk.core.laws import Gaussian, Laplace
from skparisk.core.losses import critical_scales, peak_losses
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.papers import dandekar_noise_epsilon
from skparisk.sensitivity import calibrate

RNG = np.random.default_rng(0)
DIFFERENCES = RNG.normal(size=(400, 5)) * RNG.exponential(size=(400, 1))
L1 = np.abs(DIFFERENCES).sum(axis=1)
L2 = np.linalg.norm(DIFFERENCES, axis=1)
GRID = 3e-6  # what the grid may cost, and rounding

LAWS = {"laplace": Laplace(), "gaussian": Gaussian()}

levels = st.floats(0.05, 20.0)


@dataclass(eq=False)
class DrawnLoss:
    """Pairs that are tried with a draw of the noise."""

    differences: np.ndarray
    epsilon: float
    seed: int
    shape: object = NoiseShape()
    errors: np.ndarray | None = None

    def __post_init__(self):
        none = np.zeros(self.differences.shape[1])
        self.pairs = SampledPairs(
            self.differences, self.errors, none, draw_seed=self.seed
        )
        self.least_steps = Laplace().unit_noise(self.epsilon, 0.0, len(none)).steps

    def critical_scales(self):
        return drawn_scales(self.pairs, self.epsilon, self.shape)

    def levels(self, scale):
        return drawn_levels(self.pairs, scale, self.epsilon, self.shape)


@dataclass(eq=False)
class WorstOutput:
    """Pairs that keep the level whatever is released."""

    law: str
    distances: np.ndarray
    n_outputs: int
    epsilon: float
    delta: float = 0.0

    def __post_init__(self):
        asked = self.epsilon, self.delta, self.n_outputs
        self.unit, self.least_steps = LAWS[self.law].unit_noise(*asked)

    def critical_scales(self):
        return self.distances * self.unit

    def levels(self, scale):
        size = {"n_outputs": self.n_outputs, "steps": self.least_steps}
        return LAWS[self.law].levels(self.distances / scale, self.delta, **size)


def known_level(sensitivity, *, epsilon, gamma, delta=0.0, n_outputs=1, **how):
    """Return noise for a known sensitivity, and what it certifies."""
    target = Target(epsilon, gamma, delta, "explicit")
    noise, claim = find_known(sensitivity, target, n_outputs=n_outputs, **how)
    curve = claim.evidence.curve
    return SimpleNamespace(scale=noise.noise_scale, risk=claim.risk, curve=curve)


# Draws, and several neighbors of a database


def test_several_neighbors_allow_their_share_above():
    """The least scale with (sum of shares above + 1) / (m + 1) <= gamma."""
    for n_neighbors, m, gamma in [
        (1, 19, 0.05),
        (3, 19, 0.1),
        (10, 99, 0.0135),
        (7, 50, 0.3),
    ]:
        rule = Exchangeable(n_neighbors)
        index = rule.order_index(m, gamma)
        scales = np.arange(1, m * n_neighbors + 1)
        claims = [
            (np.count_nonzero(scales > scale) / n_neighbors + 1) / (m + 1)
            for scale in (index, index - 1)
        ]
        assert claims[0] <= gamma * (1 + 1e-12) < claims[1]
        assert rule.certify_risk(m, index) == pytest.approx(claims[0], rel=1e-12)
    assert Exchangeable(1) == Exchangeable()


def test_neighbors_are_those_of_the_pairs():
    target = Target(1.0, 0.1, randomness="both")
    with pytest.raises(ValueError, match="neighbors_per_database must be 3 with cal"):
        calibrate(DIFFERENCES, target, rule=Exchangeable(3), n_records=10)
    with pytest.raises(ValueError, match="n_neighbors must be a whole number >= 1, go"):
        Exchangeable(0)
    with pytest.raises(ValueError, match="most n_pairs=5 times n_neighbors=2, got 11"):
        Exchangeable(2).certify_risk(5, 11)
    with pytest.raises(CalibrationError, match="needs n_pairs >= 19"):
        Exchangeable(2).order_index(18, 0.05)


def test_draws_do_not_depend_on_how_pairs_are_chunked(monkeypatch):
    whole = DrawnLoss(DIFFERENCES, 1.0, seed=3)
    scales, losses = whole.critical_scales(), whole.levels(2.0)
    monkeypatch.setattr("skparisk.core.pairs.CHUNK", 64)
    parts = DrawnLoss(DIFFERENCES, 1.0, seed=3)
    np.testing.assert_array_equal(parts.critical_scales(), scales)
    np.testing.assert_array_equal(parts.levels(2.0), losses)
    assert len(scales) == 400
    other = DrawnLoss(DIFFERENCES, 1.0, seed=4)
    assert (other.critical_scales() != scales).mean() > 0.9


def test_draws_have_the_law_of_the_noise():
    """Critical scales are those of standard noise, a share 2**-20 below epsilon."""
    criterion = DrawnLoss(DIFFERENCES, 1.0, seed=3)
    rng = np.random.default_rng(3)
    noise = rng.laplace(size=DIFFERENCES.shape)
    expected = critical_scales(DIFFERENCES, noise, 1 - 2.0**-20)
    np.testing.assert_array_equal(criterion.critical_scales(), expected)


# Differences that are off


SHARE = 2.0**-16  # of the level, which pays for errors
SHAPES = {
    "isotropic": NoiseShape(),
    "diagonal": NoiseShape(np.array([0.1, 1.0, 3.0, 0.5, 20.0])),
    "whitened": NoiseShape(np.tril(np.full((5, 5), 0.9)) + 0.1 * np.eye(5)),
}


def drawn():
    """Return the noise that pairs are tried with."""
    rng = np.random.default_rng(3)
    return rng.laplace(size=DIFFERENCES.shape)


def losses(differences, noise, scales):
    """Return the loss of each pair at its draw and its scale, as it is defined."""
    v = differences / scales[:, None]
    return (np.abs(noise - v) - np.abs(noise)).sum(axis=1)


def perturbed(differences, errors, rng, n=20):
    """Yield differences within the errors, many of them as far off as can be."""
    yield differences
    for sign in (-1.0, 1.0):
        yield differences + sign * np.copysign(errors, differences)
    for _ in range(n):
        yield differences + errors * rng.choice([-1.0, 1.0], size=differences.shape)
        yield differences + errors * rng.uniform(-1, 1, size=differences.shape)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.1, 10.0])
def test_loss_keeps_the_level_for_all_that_differences_may_be(name, size):
    """At the critical scale of each pair, and above; some hardly move at all."""
    rng = np.random.default_rng(1)
    errors = size * rng.exponential(size=5)
    errors[0] = 0.0
    shape, epsilon = SHAPES[name], 0.8
    criterion = DrawnLoss(DIFFERENCES, epsilon, 3, shape, errors)
    scales, noise = criterion.critical_scales(), drawn()
    largest = np.zeros(len(scales))
    for truth in perturbed(DIFFERENCES, errors, rng):
        truth = shape.whiten(truth)
        for factor in (1.0, 1.001, 1.1, 2.0, 30.0):
            loss = np.abs(losses(truth, noise, factor * scales))
            assert (loss <= epsilon).all()
            largest = np.maximum(largest, loss)
    assert (largest > 0).all()
    if size < 1e-6:  # no more noise than that
        assert np.median(largest) > 0.99 * epsilon


def test_without_paying_for_errors_some_pairs_would_break_the_level():
    """The check above is one that can fail."""
    rng = np.random.default_rng(1)
    errors = np.full(5, 1e-3)
    scales = DrawnLoss(DIFFERENCES, 0.8, 3).critical_scales()
    broken = np.zeros(len(scales), dtype=bool)
    for truth in perturbed(DIFFERENCES, errors, rng):
        broken |= np.abs(losses(truth, drawn(), scales)) > 0.8
    assert broken.mean() > 0.5


def test_tiny_errors_cost_less_than_a_hundredth():
    for name in SHAPES:
        for epsilon in [0.1, 1.0, 10.0]:
            errors = 1e-9 * np.median(np.abs(DIFFERENCES), axis=0)
            plain, paid = (
                DrawnLoss(DIFFERENCES, epsilon, 3, SHAPES[name], given)
                for given in (None, errors)
            )
            scales = [criterion.critical_scales() for criterion in (plain, paid)]
            assert (scales[1] >= scales[0]).all()
            # Where the loss just fails to dip below the level, a single scale may jump.
            assert (scales[1] <= 1.01 * scales[0]).mean() > 0.97
            ordered = [np.sort(s)[[40, 200, 320, 380]] for s in scales]
            assert (ordered[1] <= 1.01 * ordered[0]).all()
            at = float(np.median(scales[0]))
            np.testing.assert_allclose(
                paid.levels(at), plain.levels(at), rtol=1e-6, atol=1e-6
            )


def test_zero_errors_cost_nothing():
    zero = DrawnLoss(DIFFERENCES, 1.0, 3, errors=np.zeros(5))
    none = DrawnLoss(DIFFERENCES, 1.0, 3)
    np.testing.assert_array_equal(zero.critical_scales(), none.critical_scales())
    np.testing.assert_array_equal(zero.levels(2.0), none.levels(2.0))
    assert zero.least_steps == none.least_steps


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("size", [1e-6, 0.01, 1.0])
def test_levels_are_not_below_the_peak_of_what_differences_may_be(name, size):
    rng = np.random.default_rng(2)
    shape = SHAPES[name]
    errors = size * rng.exponential(size=5)
    criterion = DrawnLoss(DIFFERENCES, 1.0, 3, shape, errors)
    at = criterion.critical_scales()
    for scale in np.quantile(at, [0.1, 0.5, 0.95]):
        levels = criterion.levels(scale)
        peaks = np.zeros(len(levels))
        for truth in perturbed(DIFFERENCES, errors, rng):
            peak = peak_losses(shape.whiten(truth), drawn(), scale)
            peaks = np.maximum(peaks, peak)
        assert (peaks <= levels).all()
        if size < 1e-2:
            assert np.median(peaks / levels) > 0.99


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0])
def test_level_at_the_critical_scale_is_at_most_epsilon_with_errors(size):
    errors = np.full(5, size)
    criterion = DrawnLoss(DIFFERENCES, 1.0, 3, errors=errors)
    scales = criterion.critical_scales()
    for pair in range(0, 400, 7):
        level = criterion.levels(scales[pair])[pair]
        assert level <= 1 + 10 * GRID
        if size < 1e-6:
            assert level >= 1 - SHARE - GRID


def test_pairs_that_do_not_move_but_for_errors_need_noise():
    errors = np.full(5, 1e-3)
    still = np.zeros_like(DIFFERENCES)
    scales = DrawnLoss(still, 1.0, 3, errors=errors).critical_scales()
    assert (scales > 0).all()
    for truth in perturbed(still, errors, np.random.default_rng(0)):
        assert (np.abs(losses(truth, drawn(), scales)) <= 1).all()
    without = DrawnLoss(still, 1.0, 3).critical_scales()
    assert not without.any()
    # A sixteenth of the level pays for it, no more.
    np.testing.assert_allclose(errors.sum() / scales, (1 - 2.0**-20) / 16, rtol=1e-9)


def test_scales_and_levels_with_errors_follow_the_units():
    for units in [1e-100, 1e-12, 1e12, 1e100]:
        errors = 1e-3 * np.abs(DIFFERENCES[0])
        plain = DrawnLoss(DIFFERENCES, 1.0, 3, errors=errors)
        other = DrawnLoss(units * DIFFERENCES, 1.0, 3, errors=units * errors)
        expected = units * plain.critical_scales()
        np.testing.assert_allclose(other.critical_scales(), expected, rtol=1e-9)
        np.testing.assert_allclose(other.levels(units), plain.levels(1.0), rtol=1e-9)


# Each criterion: scales and levels are each other's inverse


CRITERIA = {
    "laplace": lambda e: WorstOutput("laplace", L1, 5, e),
    "laplace, delta": lambda e: WorstOutput("laplace", L1, 5, e, 0.01),
    "gaussian": lambda e: WorstOutput("gaussian", L2, 5, e, 1e-6),
    "drawn": lambda e: DrawnLoss(DIFFERENCES, e, 0),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CRITERIA)
@settings(derandomize=True, deadline=None, max_examples=25)
@given(epsilon=levels, pair=st.integers(0, 399))
def test_level_at_the_critical_scale_is_epsilon(name, epsilon, pair):
    """Never below, so the safe side, and hardly above."""
    criterion = CRITERIA[name](epsilon)
    scale = criterion.critical_scales()[pair]
    level = criterion.levels(scale)[pair]
    assert epsilon * (1 - GRID) <= level <= epsilon * (1 + 10 * GRID)
    assert criterion.levels(1.1 * scale)[pair] < epsilon
    assert criterion.levels(scale / 1.1)[pair] > epsilon
    assert criterion.least_steps >= 2**40


@settings(derandomize=True, deadline=None, max_examples=50)
@given(epsilon=levels, distance=st.floats(1e-3, 1e3))
def test_critical_scales_over_pairs_keep_the_exact_loss(epsilon, distance):
    """The distance over the scale gives no more than the level, or than delta."""
    one = np.array([distance])
    pure = WorstOutput("laplace", one, 1, epsilon).critical_scales()[0]
    assert epsilon * (1 - GRID) <= distance / pure <= epsilon
    relaxed = WorstOutput("laplace", one, 1, epsilon, 0.01).critical_scales()[0]
    assert Laplace().profile(epsilon, distance / relaxed) <= 0.01
    assert Laplace().profile(epsilon * (1 - GRID), distance / relaxed) > 0.01 * (
        1 - GRID
    )
    gaussian = WorstOutput("gaussian", one, 1, epsilon, 1e-6).critical_scales()[0]
    assert Gaussian().profile(epsilon, distance / gaussian) <= 1e-6
    assert Gaussian().profile(epsilon * (1 - 10 * GRID), distance / gaussian) > 1e-6


# Risk control


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=40)
@given(epsilon=levels, gamma=st.floats(0.01, 0.9), n_pairs=st.integers(120, 400))
def test_average_risk_is_controlled_and_no_more_than_that(epsilon, gamma, n_pairs):
    """Exactly: the sum of the pairs' risks plus 1, over m + 1, is gamma."""
    level = find_by_risks(L2[:n_pairs], 5, epsilon, gamma)

    def claim(scale):
        return (Gaussian().risk(epsilon, L2[:n_pairs] / scale).sum() + 1) / (
            n_pairs + 1
        )

    assert claim(level.scale) <= gamma < claim(level.scale * (1 - 1e-4))
    for other, risk in level.curve:
        assert 0 < risk < 1
        if other < epsilon:
            assert risk >= gamma - 1 / (n_pairs + 1)


def test_curve_of_the_average_risk_falls_and_pays_for_the_sample():
    """It is read at the scale that m + 1 pairs would allow, below the released one."""
    level = find_by_risks(L2, 5, 1.0, 0.2)
    at, risks = np.array(level.curve).T
    assert (np.diff(at) > 0).all()
    assert (np.diff(risks) <= 0).all()
    naive = [(Gaussian().risk(e, L2 / level.scale).sum() + 1) / 401 for e in at]
    assert (risks >= naive).all()
    assert risks == pytest.approx(naive, abs=0.02)


def test_risk_that_all_pairs_may_exceed_has_no_curve():
    """With few pairs that move, the scale of the proof for other levels is 0."""
    distances = np.array([1.0, *np.zeros(18)])
    level = find_by_risks(distances, 1, 1.0, 0.06)
    assert level.scale > 0
    assert level.curve is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("units", [1e-200, 1e-12, 1e-6, 1.0, 1e12, 1e200])
def test_average_risk_is_controlled_in_any_units(units):
    """The search is relative: with an absolute tolerance it would not come back."""
    level = find_by_risks(L2 * units, 5, 1.0, 0.2)
    plain = find_by_risks(L2, 5, 1.0, 0.2)
    assert level.scale == pytest.approx(units * plain.scale, rel=1e-9)
    np.testing.assert_allclose(level.curve, plain.curve, rtol=1e-6)


def test_risk_control_needs_more_than_the_fewest_pairs():
    """Each pair has some risk, so 1 / (m + 1) itself cannot be reached."""
    for n_pairs, gamma in [(19, 0.05), (9, 0.1), (3, 0.2)]:
        with pytest.raises(CalibrationError, match="it needs n_pairs >= ") as error:
            find_by_risks(np.ones(n_pairs), 1, 1.0, gamma)
        assert error.value.best == 1 / (n_pairs + 1)
        needed = int(str(error.value).split(">= ")[1].rstrip("."))
        target = Target(1.0, gamma, randomness="both")
        asked = target, Gaussian(), "isotropic", Exchangeable()
        assert Terms(*asked, needed).order_index
        with pytest.raises(CalibrationError):
            assert Terms(*asked, needed - 1).order_index


@pytest.mark.parametrize("n_moving", [0, 1])
def test_no_noise_at_all_is_refused(n_moving):
    distances = np.zeros(99)
    distances[:n_moving] = 1.0
    with pytest.raises(CalibrationError, match=r"at gamma=0\.05 is 0") as error:
        find_by_risks(distances, 1, 1.0, 0.05)
    assert error.value.best == (0.02 if n_moving else 0.0)
    with pytest.raises(CalibrationError, match=r"at gamma=0\.05 is 0") as error:
        calibrate(distances[:, None], Target(1.0, 0.05), n_records=10)
    assert error.value.best == pytest.approx(0.01 if n_moving else 0.0)


# What other levels certify, by simulation


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.8, 1.5, 3.0])
def test_other_levels_hold_on_fresh_pairs_and_draws(level):
    """On average over samples the claim is not below how often a level is exceeded."""
    trials, m, target = 1500, 19, Target(1.0, 0.3, randomness="both")
    rng = np.random.default_rng(2)
    fresh_scale, claims = np.empty(trials), np.empty(trials)
    for trial in range(trials):
        pairs = rng.exponential(size=(m, 1)) ** 2 * rng.normal(size=(m, 2))
        sampled = SampledPairs(pairs, None, np.zeros(2), draw_seed=trial)
        noise, claim = calibrate(sampled, target, n_records=10)
        curve = *claim.evidence.curve, (1.0, claim.risk)
        claims[trial] = min([1.0, *(r for at, r in curve if at <= level)])
        fresh_scale[trial] = noise.noise_scale
    fresh = rng.exponential(size=(trials, 1)) ** 2 * rng.normal(size=(trials, 2))
    needed = critical_scales(fresh, rng.laplace(size=fresh.shape), level)
    excess = (needed > fresh_scale) - claims
    assert excess.mean() < 4 * excess.std() / math.sqrt(trials)
    assert claims.mean() < np.mean(needed > fresh_scale) + 0.15


# A sensitivity that is known


@settings(derandomize=True, deadline=None)
@given(epsilon=levels, gamma=st.floats(0.01, 0.99), k=st.integers(1, 20))
def test_explicit_laplace_is_exact(epsilon, gamma, k):
    """Noise alone buys something for one output and a risk of 1/2 or more only."""
    level = known_level(2.0, epsilon=epsilon, gamma=gamma, n_outputs=k)
    shift = 2.0 / level.scale
    assert Laplace().exceedance(epsilon, shift if k == 1 else 0.0) <= gamma
    if k > 1 or gamma < 0.5:
        assert shift == pytest.approx(epsilon, rel=GRID)
        assert level.risk == 0
    else:
        assert shift == pytest.approx(epsilon - 2 * math.log(2 * (1 - gamma)), rel=GRID)
        assert Laplace().exceedance(epsilon, shift * 1.00001) > gamma * (1 - GRID)


@settings(derandomize=True, deadline=None)
@given(epsilon=levels, delta=st.floats(1e-12, 0.9), k=st.integers(1, 20))
def test_explicit_laplace_with_delta(epsilon, delta, k):
    level = known_level(2.0, epsilon=epsilon, gamma=0.1, delta=delta, n_outputs=k)
    shift = 2.0 / level.scale
    assert Laplace().profile(epsilon, shift) <= delta
    assert shift == pytest.approx(epsilon - 2 * math.log1p(-delta), rel=GRID)
    assert (level.risk, level.curve) == (0.0, None)


@pytest.mark.slow
@settings(derandomize=True, deadline=None)
@given(epsilon=levels, gamma=st.floats(1e-6, 0.99), k=st.integers(1, 20))
def test_explicit_gaussian_is_exact(epsilon, gamma, k):
    """a = z + sqrt(z^2 + 2 epsilon)."""
    level = known_level(2.0, law="gaussian", epsilon=epsilon, gamma=gamma, n_outputs=k)
    z = ndtri(gamma)
    shift = 2.0 / level.scale
    assert shift == pytest.approx(z + math.sqrt(z**2 + 2 * epsilon), rel=10 * GRID)
    assert norm.sf(epsilon, shift**2 / 2, shift) <= gamma
    assert level.risk == gamma
    for at, risk in level.curve:
        assert Gaussian().exceedance(at, shift) <= risk


def test_explicit_gaussian_with_delta_is_the_mechanism_for_it():
    level = known_level(1.0, law="gaussian", epsilon=1.0, gamma=0.5, delta=1e-5)
    assert level.scale == pytest.approx(3.730632, rel=1e-5)
    assert level.risk == 0


def test_curve_of_one_output_is_the_exact_law():
    level = known_level(1.0, epsilon=1.0, gamma=0.7)
    shift = 1 / level.scale
    for at, risk in level.curve:
        assert Laplace().exceedance(at, shift) <= risk
        if at < 0.99 * shift:
            assert Laplace().exceedance(at, shift) == pytest.approx(risk, abs=1e-5)
    assert level.curve[-1][1] == 0


def test_theorem_4_is_no_guarantee():
    """The paper's noise level for the target, whose true risk is above one half."""
    shift = dandekar_noise_epsilon(0.4, 0.6)
    assert shift == pytest.approx(0.797, abs=5e-4)
    assert Laplace().exceedance(0.4, shift) > 0.5


# What the grid costs


def discrete(continuous, steps):
    """Return draws of the discrete noise, coupled with continuous ones."""
    rng = np.random.default_rng(5)
    if continuous == "laplace":
        first, second = rng.exponential(steps, size=(2, 200_000))
        return np.floor(first) - np.floor(second), first - second
    x = rng.normal(0, steps, size=200_000)
    z = np.arange(-12 * steps, 12 * steps + 1)
    cdf = np.cumsum(np.exp(-(z**2) / (2 * steps**2)))
    # Quantile coupling; the tails of the normal law are symmetric.
    return z[np.searchsorted(cdf / cdf[-1], ndtr(x / steps))], x


def test_discrete_noise_is_within_a_step_of_continuous_noise():
    for law in ["laplace", "gaussian"]:
        for steps in [2, 5, 20]:
            z, x = discrete(law, steps)
            assert np.abs(z - x).max() <= 1
            assert np.abs(z - x).max() > 0.5
            near = np.bincount(np.abs(z).astype(int), minlength=4)[1:4]
            power = {"laplace": 1, "gaussian": 2}[law]
            law_of_z = np.exp(-(np.arange(1, 4) ** power) / (power * steps**power))
            np.testing.assert_allclose(near / near[0], law_of_z / law_of_z[0], rtol=0.1)


@pytest.mark.parametrize("steps", [20, 100])
def test_grid_moves_the_laplace_loss_by_three_steps_at_the_most(steps):
    """Noise within a step, the shift within a step: 3 / steps for each output."""
    z, x = discrete("laplace", steps)
    for shift in (0.3 * steps, 1.7 * steps, steps + 0.5):
        for rounded in (math.floor(shift), math.ceil(shift)):
            on_grid = (np.abs(z + rounded) - np.abs(z)) / steps
            plain = (np.abs(x + shift) - np.abs(x)) / steps
            assert np.abs(on_grid - plain).max() <= 3 / steps
            assert np.abs(on_grid - plain).max() > 1 / steps


@pytest.mark.parametrize("steps", [20, 100])
def test_grid_moves_the_gaussian_loss_by_the_shift_in_steps(steps):
    """At a whole shift: |d| / steps**2 for each output."""
    z, x = discrete("gaussian", steps)
    for d in (1, steps // 2, 3 * steps):
        on_grid = (2 * z * d + d**2) / (2 * steps**2)
        plain = (2 * x * d + d**2) / (2 * steps**2)
        assert np.abs(on_grid - plain).max() <= d / steps**2


@settings(derandomize=True)
@given(epsilon=st.floats(1e-3, 1e3), k=st.integers(1, 1000), shift=st.floats(1e-3, 50))
def test_steps_are_enough_for_the_share(epsilon, k, shift):
    for law in LAWS.values():
        reach = k ** (1 / law.norm)
        steps = grid.grid_steps(epsilon, reach, shift)
        longest, spent = law.on_grid(shift, k, steps)
        assert longest <= shift * (1 + 2.0**-19)
        assert spent + reach / steps <= epsilon * 2.0**-20 * (1 + 2.0**-19)
    # Noise within a step, at both ends, and a distance that is longer by a step each.
    assert 3 * k / grid.grid_steps(epsilon, k, epsilon) <= epsilon * 2.0**-20


def test_levels_too_small_for_a_grid_are_refused():
    with pytest.raises(ValueError, match=r"epsilon must be at least .* got 1e-12"):
        grid.grid_steps(1e-12, 1000, 1e-12)
    with pytest.raises(ValueError, match="epsilon must be larger for this many outp"):
        grid.grid_steps(1.0, 1, 0.0)
