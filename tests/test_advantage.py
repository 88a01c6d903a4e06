"""What an attacker gains: bounds of laws, of claims, and what they say of both."""

import math
import re

import numpy as np
import pytest
from certificate_cases import every_case
from certificates import certificate, minted
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from skparisk._text import guesses_text, people_text
from skparisk.core.claim import Advantage, DominatingLoss, remade
from skparisk.core.exact import sample_discrete_laplace
from skparisk.core.laws import Gaussian, Laplace, Law
from skparisk.mechanisms import Exponential

LAWS = {"laplace": (Laplace(), stats.laplace), "gaussian": (Gaussian(), stats.norm)}
every_law = pytest.mark.parametrize(("law", "density"), LAWS.values(), ids=LAWS)
FINE = {"n_outputs": 1, "steps": 2**52}


class Bounded(Law):
    """A law of which nothing is known but that its loss is bounded."""

    name = "bounded"
    deviation = math.sqrt(2)

    def sample(self, scale, size, source):
        return sample_discrete_laplace(scale, size, source)


# Laws


@pytest.mark.sampled(4)
@every_law
@pytest.mark.parametrize("shift", [1e-6, 0.1, 1.0, 3.0, 20.0])
def test_advantage_is_the_total_variation(law, density, shift):
    """Of one output it is half the integral of the difference of the densities."""

    def apart(z):
        return abs(density.pdf(z) - density.pdf(z - shift)) / 2

    points = [0, shift / 2, shift]
    exact = quad(apart, -40, 60, points=points, limit=500, epsabs=1e-13)[0]
    (bound,) = law.advantage([shift], **FINE)
    assert exact * (1 - 1e-9) <= bound <= exact * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("law", [Bounded(), Exponential()])
def test_loss_that_is_bounded_bounds_what_attackers_gain(law):
    shifts = np.array([0.0, 0.3, 2.0, 127.0])
    bound = law.advantage(shifts, **FINE)
    assert bound == pytest.approx(np.tanh(shifts / 2), rel=1e-5, abs=1e-12)


class Far(Bounded):
    """Like noise with heavy tails: answers far apart are still not told for sure."""

    def profile(self, epsilon, shift):
        return shift / (1 + np.asarray(shift))


def test_beyond_so_many_scales_an_attacker_is_certain():
    """Whatever a profile says there: a pair without an answer is infinitely far."""
    found = Far().advantage([1.0, 127.0, 128.0, math.inf], **FINE)
    assert found[:2] == pytest.approx([0.5, 127 / 128])
    assert found[2:].tolist() == [1, 1]


@every_law
def test_a_bound_is_rounded_up(law, density):
    for steps in (2**20, 2**52):
        longest, spent = law.on_grid(np.array([0.1, 2.0]), 1, steps)
        found = law.advantage([0.1, 2.0], n_outputs=1, steps=steps)
        assert (found > (law.profile(0.0, longest) + spent) * (1 + 2**-41)).all()


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.sampled_from([Laplace(), Gaussian(), Bounded()]),
    st.lists(st.floats(0, 1e3) | st.just(math.inf), min_size=2, max_size=5),
    st.integers(1, 50),
)
def test_bounds_are_probabilities_that_rise_with_the_distance(law, shifts, k):
    shifts = np.sort(shifts)
    grid = {"n_outputs": k, "steps": 2**40}
    gained = law.advantage(shifts, **grid)
    assert ((gained >= 0) & (gained <= 1)).all()
    assert (np.diff(gained) >= 0).all()
    assert (gained[np.isinf(shifts)] == 1).all()
    np.testing.assert_array_equal(gained, law.advantage(shifts, **grid))


def on_the_grid(law, scale, reach):
    """Return the probabilities of discrete noise of a small scale."""
    z = np.arange(-reach, reach + 1)
    power = -np.abs(z) / scale if law.name == "laplace" else -(z**2) / 2 / scale**2
    weights = np.exp(power)
    return weights / weights.sum()


def apart(probabilities, distance):
    """Return two laws on a grid whose distance is so many steps."""
    none = np.zeros(abs(distance))
    return np.append(probabilities, none), np.append(none, probabilities)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("scale", [1, 2, 7, 40])
@pytest.mark.parametrize("distance", [1, 2, 3, 8, 25])
@every_law
def test_the_grid_is_paid_for(law, density, scale, distance):
    """All that discrete noise shows is within the bound; the continuous one is not.

    Answers are a step closer than their rounded ones are, which is the worst case.
    """
    p, q = apart(on_the_grid(law, scale, 60 * scale), distance)
    exact = np.abs(p - q).sum() / 2
    grid = {"n_outputs": 1, "steps": scale}
    shift = [(distance - 1) / scale]
    (bound,) = law.advantage(shift, **grid)
    assert exact <= bound + 1e-12
    if law.name == "laplace" and distance % 2:  # tight: sech is all but paid exactly
        closed = 1 - math.exp(-distance / 2 / scale) / math.cosh(1 / 2 / scale)
        assert exact == pytest.approx(closed, abs=1e-12)
        assert exact > law.advantage([distance / scale], **FINE)[0]
        assert bound - exact < 9 / scale + 0.04 / scale**3


@pytest.mark.parametrize("scale", [2, 5])
@every_law
def test_the_grid_is_paid_for_with_two_outputs(law, density, scale):
    """The distance of all outputs together counts; rounding moves each by a step."""
    noise = on_the_grid(law, scale, 40 * scale)
    for first, second in [(1, 1), (3, 2), (5, 1)]:
        (p, q), (r, s) = apart(noise, first), apart(noise, second)
        exact = np.abs(np.outer(p, r) - np.outer(q, s)).sum() / 2
        closest = np.array([first - 1, second - 1]) / scale
        shift = np.linalg.norm(closest, law.norm)
        (bound,) = law.advantage([shift], n_outputs=2, steps=scale)
        assert exact <= bound + 1e-12


def test_oracle_of_another_package():
    """riskcal computes what Gaussian noise leaves to attackers."""
    riskcal = pytest.importorskip("riskcal")
    shifts = np.array([0.1, 0.5, 1.0, 2.0])
    own = Gaussian().advantage(shifts, **FINE)
    others = [riskcal.analysis.get_advantage_from_gdp(mu=shift) for shift in shifts]
    assert own == pytest.approx(others, rel=1e-6)


# Numbers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": 1.2}, r"mean must be a number in \[0, 1\], got 1.2"),
        ({"risk": -0.1}, r"risk must be a number in \[0, 1\]"),
        ({"quantile": math.nan}, r"quantile must be a number in"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes, message):
    values = {"mean": 0.3, "quantile": 0.5, "risk": 0.05}
    with pytest.raises(ValueError, match=message):
        Advantage(**(values | changes))


# Claims


def levels(certificate_):
    gain = certificate_.advantage
    return gain.mean, gain.quantile, gain.risk


def private(epsilon, delta=0.0):
    return (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0, 800.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.2])
def test_gain_of_a_level_is_the_largest_there_is(epsilon, delta):
    """Attained by randomized response that tells all with probability delta."""
    gain = minted(epsilon, delta).advantage
    told = 1 / (1 + math.exp(-epsilon))
    p = np.array([delta, (1 - delta) * told, (1 - delta) * (1 - told), 0])
    apart_ = np.abs(p - p[::-1]).sum() / 2
    assert gain.mean == gain.quantile == pytest.approx(apart_, rel=1e-9)
    assert gain.mean >= apart_ * (1 - 1e-15)
    assert gain.risk == 0


def test_gain_by_what_the_risk_is_over():
    """Outside the risk a bound holds or does not; or the risk is a part of delta."""
    of = private(1.0)
    implicit = minted(1.0, risk=0.05, randomness="implicit")
    assert levels(implicit) == pytest.approx((0.95 * of + 0.05, of, 0.05))
    both = minted(1.0, risk=0.05)
    assert levels(both) == pytest.approx((private(1.0, 0.05), 1.0, 0.05))
    assert levels(both)[0] == pytest.approx(levels(implicit)[0])  # the same number
    explicit = minted(1.0, risk=0.05, randomness="explicit")
    assert levels(explicit) == pytest.approx((*[private(1.0, 0.05)] * 2, 0.0))
    for over in ("implicit", "both", "explicit"):
        failing = minted(1.0, risk=0.04, failure_prob=0.01, randomness=over)
        whole = minted(1.0, risk=0.05, randomness=over)
        assert levels(failing) == pytest.approx(levels(whole))


def test_law_of_the_loss_says_more_than_the_level():
    laplace = DominatingLoss("laplace", 1.0, 1e-6)
    of = -math.expm1(-0.5) + 1e-6
    assert minted(1.0, loss=laplace).advantage.mean == pytest.approx(of)
    claim = minted(1.0, risk=0.05, randomness="implicit", loss=laplace)
    assert levels(claim) == pytest.approx((0.95 * of + 0.05, of, 0.05))
    # Each step is rounded up, by more than it may be off.
    by_law = Laplace().advantage([1.0], **FINE)[0] + 1e-6
    assert claim.advantage.quantile > by_law * (1 + 2**-41)
    mixed = 0.95 * claim.advantage.quantile + 0.05
    assert claim.advantage.mean > mixed * (1 + 2**-41)
    gaussian = DominatingLoss("gaussian", 0.3)
    claim = minted(1.0, 1e-5, loss=gaussian)
    assert claim.advantage.mean == pytest.approx(2 * stats.norm.cdf(0.15) - 1)
    at_risk = remade(claim, delta=0.0, risk=0.01, randomness="explicit")
    assert at_risk.advantage.mean == pytest.approx(2 * stats.norm.cdf(0.15) - 1)
    # A share of samples fails: the level is all that is left.
    failing = remade(at_risk, failure_prob=0.01)
    assert failing.advantage.mean == pytest.approx(private(1.0, 0.02))
    no_loss = minted(0.0, loss=DominatingLoss("laplace", 0.0))
    assert no_loss.advantage.mean == 0


@every_case
def test_every_claim_says_what_attackers_gain(given_):
    gain = given_.advantage
    assert gain == given_.advantage
    if given_.void:
        assert levels(given_) == (1, 1, 0)
    assert 0 <= gain.mean <= 1
    row = re.search(r"what an attacker gains: (.*)", str(given_))[1]
    assert "what an attacker gains" in given_._repr_html_()
    if given_.void:
        assert row == "nothing is guaranteed"
        return
    assert f"at most {guesses_text(gain.mean)} times in 100 instead of 50" in row
    assert ("on average" in row) is (gain.risk > 0)
    assert ("people at most" in row) is (gain.risk > 0 and gain.quantile < 1)
    assert ("not counting what was released without noise" in row) is bool(given_.leaks)


MEASURED = Advantage(0.0712, 0.21, 0.049967)


def measured(**changes):
    return certificate(**({"advantage": MEASURED, "noise_scale": 1.25} | changes))


def test_less_is_said_where_both_numbers_hold():
    """With draws of the noise only what was measured holds for every sample."""
    loose = Advantage(0.9, 0.95, 0.049967)
    mean = certificate().advantage.mean
    assert measured(advantage=loose).advantage.mean == mean < 0.9
    assert measured(advantage=loose).advantage.quantile == 0.95
    exact = {"randomness": "both", "order_index": None, "law": "gaussian"}
    assert measured(advantage=loose, **exact).advantage.mean < 0.9
    drawn = {"randomness": "both"}
    assert measured(advantage=loose, **drawn).advantage == loose


def test_numbers_in_words_are_rounded_to_the_safe_side():
    assert guesses_text(0.0) == "50"
    assert guesses_text(0.1) == "55"
    assert guesses_text(math.nextafter(0.1, 1)) == "55.1"
    assert guesses_text(1.0) == "100"
    assert people_text(0.05) == "95"
    assert people_text(math.nextafter(0.05, 1)) == "94.9"
    assert people_text(1e-9) == "99.9"
