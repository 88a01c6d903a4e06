"""The Gaussian privacy loss against normal laws, quadrature, mpmath and simulation."""

import math

import laws
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from skparisk.core.laws import Gaussian, Laplace
from skparisk.core.losses import largest_shift

gaussian_risk = Gaussian().risk
gaussian_delta = Gaussian().profile
gaussian_loss_exceedance = Gaussian().exceedance
gaussian_shift = Gaussian().largest_shift
gaussian_explicit_shift = Gaussian().shift_at_risk
gaussian_delta_epsilon = Gaussian().level


def gaussian_risk_shift(epsilon, gamma):
    return largest_shift(lambda a: gaussian_risk(epsilon, a), gamma)


INF = math.inf
LAWS = [gaussian_loss_exceedance, gaussian_risk, gaussian_delta]
INVERSES = [
    (gaussian_explicit_shift, gaussian_loss_exceedance),
    (gaussian_risk_shift, gaussian_risk),
    (gaussian_shift, gaussian_delta),
]
EXTREME_LEVELS = [1e-12, 1e-3, 1.0, 20.0, 700.0, 1e6]
EXTREME_TARGETS = [1e-300, 1e-100, 1e-12, 0.3, 0.9, 0.99]

derandomized = settings(derandomize=True, deadline=None, max_examples=60)
levels = st.floats(1e-6, 50.0)
shifts = st.floats(1e-6, 50.0)
targets = st.floats(1e-12, 0.999)


def simulated_loss(shift, n_draws, n_outputs=5):
    """Draw losses at outputs with Gaussian noise, from the densities themselves."""
    rng = np.random.default_rng(0)
    difference = rng.normal(size=n_outputs)
    difference *= shift / np.linalg.norm(difference)
    noise = rng.normal(size=(n_draws, n_outputs))
    own = stats.norm.logpdf(noise).sum(axis=1)
    return own - stats.norm.logpdf(noise + difference).sum(axis=1)


def exact_delta(epsilon, shift):
    """Return Theorem 8 of Balle and Wang, with as many digits as it cancels."""
    e, a = mpmath.mpf(epsilon), mpmath.mpf(shift)
    return mpmath.ncdf(a / 2 - e / a) - mpmath.exp(e) * mpmath.ncdf(-a / 2 - e / a)


def shift_for(epsilon, x):
    """Return the shift where epsilon / shift - shift / 2 is x."""
    norm = math.sqrt(x * x + 2 * epsilon)
    return norm - x if x < 0 else 2 * epsilon / (norm + x)


# The law


def test_loss_is_normal():
    """Mean half the squared shift, standard deviation the shift, in both tails."""
    for shift in [1e-6, 0.1, 1.0, 3.0, 40.0]:
        normal = stats.norm(shift**2 / 2, shift)
        loss = normal.isf([1 - 1e-15, 0.99, 0.5, 0.4, 0.01, 1e-20, 1e-200])
        np.testing.assert_allclose(
            gaussian_loss_exceedance(loss, shift), normal.sf(loss), rtol=1e-11
        )
        epsilon = loss[loss >= 0]
        np.testing.assert_allclose(
            gaussian_risk(epsilon, shift),
            normal.sf(epsilon) + normal.cdf(-epsilon),
            rtol=1e-11,
        )


def test_loss_of_simulated_outputs_has_the_law():
    """Log ratios of densities fit the law, and refuse shifts 10 % off on both sides."""
    loss = simulated_loss(1.0, 50_000)
    laws.assert_law(loss, lambda c: 1 - gaussian_loss_exceedance(c, 1.0))
    for wrong in (0.9, 1.1):
        assert laws.rejects_law(
            loss, lambda c, a=wrong: 1 - gaussian_loss_exceedance(c, a)
        )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_risk_and_delta_are_those_of_simulated_outputs(epsilon):
    """Exceedances, and E[max(0, 1 - exp(epsilon - C))], within five errors."""
    loss = simulated_loss(1.2, 200_000)
    for law, values in (
        (gaussian_loss_exceedance, loss > epsilon),
        (gaussian_risk, np.abs(loss) > epsilon),
        (gaussian_delta, np.maximum(0, -np.expm1(epsilon - loss))),
    ):
        allowed = 5 * np.std(values) / math.sqrt(len(loss))
        assert abs(np.mean(values) - law(epsilon, 1.2)) < allowed
        for wrong in (1.08, 1.32):
            assert abs(np.mean(values) - law(epsilon, wrong)) > allowed


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (
            gaussian_loss_exceedance,
            [[0, 0.5, 0.5, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]],
        ),
        (gaussian_risk, [[0, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]),
        (gaussian_delta, [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]),
    ],
)
def test_ends(law, expected):
    """At zero and infinity the laws have their limits, without a warning."""
    table = law([[0.0], [1.0], [INF]], [0.0, 5e-324, 1e-300, 1e200, INF])
    np.testing.assert_allclose(table, expected, atol=1e-299)
    assert np.all((table >= 0) & (table <= 1))


def test_exceedance_of_losses_below_zero():
    """Nothing below zero without a shift; all above minus infinity."""
    law = gaussian_loss_exceedance
    assert law([-INF, -1e-300, 0.0], 0.0).tolist() == [1, 1, 0]
    assert law([-INF, -1.0, 1.0, INF], INF).tolist() == [1, 1, 1, 0]
    assert law([-INF, INF], 1.0).tolist() == [1, 0]


@derandomized
@given(epsilon=levels, shift=shifts, factor=st.floats(1.001, 3.0))
def test_laws_are_monotone(epsilon, shift, factor):
    """All fall with epsilon and grow with the shift, up to the last digits."""
    for law in LAWS:
        value = law(epsilon, shift)
        assert 0 <= value <= 1
        assert law(epsilon * factor, shift) <= value * (1 + 1e-12)
        assert value <= law(epsilon, shift * factor) * (1 + 1e-12)
    delta, risk = gaussian_delta(epsilon, shift), gaussian_risk(epsilon, shift)
    assert delta <= gaussian_loss_exceedance(epsilon, shift) <= risk
    below = gaussian_loss_exceedance(epsilon - 5, shift)
    assert below >= gaussian_loss_exceedance(epsilon, shift)


# Delta


def test_delta_has_all_its_digits():
    """Theorem 8 in high precision, from shifts of 1e-14 to deltas of 1e-300.

    What one rounding of the shift moves is allowed, not more: a delta of 1e-100
    moves by 1e-13.
    """
    for epsilon in [0, 1e-12, 1e-3, 0.1, 1, 10, 700, 1e4]:
        with mpmath.workdps(50):
            for x in [-6, -2, -0.5, -0.1, 0.01, 0.3, 1, 2, 4, 8, 15, 21, 30, 36]:
                if epsilon == 0 and x >= 0:
                    continue
                shift = shift_for(epsilon, x)
                exact = exact_delta(epsilon, shift)
                digits = 4e-15 + 2e-16 * abs(x) * (abs(x) + shift)
                error = float(abs(gaussian_delta(epsilon, shift) / exact - 1))
                assert error <= digits
                assert error <= 1e-13 or exact < 1e-100


def test_delta_has_all_its_digits_where_its_form_changes():
    """Both forms agree with high precision around a shift of one half."""
    for epsilon in [0.0, 1e-3, 1.0, 10.0]:
        with mpmath.workdps(50):
            for shift in [1e-8, 0.1, 0.3, math.nextafter(0.5, 0), 0.5, 0.6]:
                exact = exact_delta(epsilon, shift)
                if exact < 1e-300:
                    continue
                assert gaussian_delta(epsilon, shift) == pytest.approx(
                    float(exact), rel=1e-14 + 2e-16 * (epsilon / shift) ** 2, abs=0
                )


@pytest.mark.parametrize("shift", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
def test_delta_is_the_hockey_stick_by_quadrature(epsilon, shift):
    """The integral of max(0, p - exp(epsilon) q) over the outputs."""

    def stick(x):
        return stats.norm.pdf(x) - math.exp(epsilon) * stats.norm.pdf(x + shift)

    start = epsilon / shift - shift / 2  # p is the larger one from here on
    area, error = integrate.quad(stick, start, max(start, 0) + 12, epsabs=1e-14)
    assert error < 1e-9
    delta = gaussian_delta(epsilon, shift)
    assert delta == pytest.approx(area, rel=1e-8, abs=1e-13)


def test_delta_without_a_level_is_the_total_variation():
    """At epsilon zero delta is erf(shift / √8)."""
    shift = np.geomspace(1e-200, 10, 300)
    exact = [math.erf(a / math.sqrt(8)) for a in shift]
    np.testing.assert_allclose(gaussian_delta(0.0, shift), exact, rtol=1e-14)


def test_delta_does_not_overflow():
    """Exponentials of the level are never formed."""
    assert gaussian_delta(700.0, 30.0) == pytest.approx(9.5e-18, rel=0.01)
    assert gaussian_delta([1e4, 1e300], 1e-3).tolist() == [0, 0]
    assert gaussian_delta(1e4, [1e3, 1e5]).tolist() == [1, 1]


# The inverses in the shift


@pytest.mark.parametrize(("inverse", "law"), INVERSES)
@derandomized
@given(epsilon=levels, target=targets)
def test_shift_is_safe_and_tight(inverse, law, epsilon, target):
    """The target holds at the result, and not at 1.001 of it."""
    shift = inverse(epsilon, target)
    assert shift > 0
    assert law(epsilon, shift) <= target
    assert law(epsilon, shift) == pytest.approx(target, rel=1e-10)
    assert law(epsilon, 1.001 * shift) > target
    assert inverse(epsilon, target) == shift


def test_shift_is_safe_and_tight_far_out():
    """From targets of 1e-300 on, and levels up to a million."""
    for inverse, law in INVERSES:
        for epsilon in EXTREME_LEVELS:
            for target in EXTREME_TARGETS:
                shift = inverse(epsilon, target)
                assert law(epsilon, shift) <= target < law(epsilon, 1.001 * shift)


@pytest.mark.parametrize(("inverse", "law"), INVERSES)
def test_no_shift_is_rounded_to_the_optimistic_side(inverse, law):
    """Over a dense table, and up to the ends of the floats."""
    for target in np.linspace(0.003, 0.997, 60):
        assert law(0.8, inverse(0.8, float(target))) <= target
    for epsilon in (5e-324, 1e-300, 1e300, 1.7e308):
        for target in (5e-324, 0.5, math.nextafter(1, 0)):
            shift = inverse(epsilon, target)
            assert 0 <= shift < INF
            assert law(epsilon, shift) <= target


@pytest.mark.slow
@derandomized
@given(epsilon=levels, target=targets, factor=st.floats(1.001, 3.0))
def test_shifts_are_monotone_and_in_order(epsilon, target, factor):
    """More shift for a higher level or target; least for two sides, most for delta."""
    for inverse, _ in INVERSES:
        shift = inverse(epsilon, target)
        assert inverse(epsilon * factor, target) > shift
        assert inverse(epsilon, min(target * factor, 0.9999)) > shift
    one_side, two_sides, analytic = (f(epsilon, target) for f, _ in INVERSES)
    assert two_sides <= one_side * (1 + 1e-14)
    assert one_side <= analytic * (1 + 1e-14)


def test_shifts_have_twelve_digits():
    """The roots in high precision, and the closed form of the explicit one."""
    for epsilon in [1e-6, 0.5, 3.0, 100.0]:
        for target in [1e-100, 1e-10, 0.01, 0.5, 0.9]:
            with mpmath.workdps(200):
                z = -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(target))
                closed = z + mpmath.sqrt(z**2 + 2 * mpmath.mpf(epsilon))
                explicit = gaussian_explicit_shift(epsilon, target)
                assert explicit == pytest.approx(float(closed), rel=1e-12)

                def excess(a):
                    return mpmath.log(exact_delta(epsilon, a) / mpmath.mpf(target))

                found = gaussian_shift(epsilon, target)
                bracket = (found * (1 - 1e-6), found * (1 + 1e-6))
                root = mpmath.findroot(excess, bracket, tol=1e-20)
                assert found == pytest.approx(float(root), rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "scale"),
    [
        (0.01, 1e-12, 578.9978670613),
        (1.0, 1e-5, 3.7306316348),
        (20.0, 1e-8, 0.3437766670),
    ],
)
def test_scale_is_the_one_of_another_library(epsilon, delta, scale):
    """The scales that dp-accounting 0.6 gives for sensitivity one."""
    assert 1 / gaussian_shift(epsilon, delta) == pytest.approx(scale, rel=1e-9)


def test_promise_of_the_explicit_shift_holds_in_simulation():
    """Losses exceed the level as rarely as promised; with 10 % less noise not."""
    n_draws, gamma = 200_000, 0.05
    shift = gaussian_explicit_shift(1.0, gamma)
    for factor, holds in ((1.0, True), (1.1, False)):
        violations = int(np.sum(simulated_loss(factor * shift, n_draws) > 1.0))
        assert laws.exceeds(violations, n_draws, gamma) is not holds


# The inverse in epsilon


@pytest.mark.slow
@derandomized
@given(delta=targets, shift=shifts)
def test_epsilon_is_safe_and_tight(delta, shift):
    """The delta holds at the level, and not at 0.999 of it unless the level is 0."""
    epsilon = gaussian_delta_epsilon(delta, shift)
    assert gaussian_delta(epsilon, shift) <= delta
    if epsilon == 0:
        assert gaussian_delta(0.0, shift) <= delta
    else:
        assert gaussian_delta(0.999 * epsilon, shift) > delta
    assert gaussian_delta_epsilon(delta, shift) == epsilon


def test_epsilon_of_many_shifts_at_once():
    """Thousands of shifts, each as if it were alone, all on the safe side."""
    shift = np.geomspace(1e-6, 100, 5000)
    epsilon = gaussian_delta_epsilon(1e-5, shift)
    assert np.all(gaussian_delta(epsilon, shift) <= 1e-5)
    assert np.all(np.diff(epsilon) >= 0)
    for i in range(0, 5000, 250):
        alone = gaussian_delta_epsilon(1e-5, float(shift[i]))
        assert alone == pytest.approx(epsilon[i], rel=1e-14)


def test_epsilon_ends():
    """No shift costs nothing, no noise everything; infinite where floats end."""
    for delta in (1e-9, 0.5):
        table = gaussian_delta_epsilon(delta, [0.0, 1e-300, 1e200, INF])
        assert table.tolist() == [0, 0, INF, INF]
    assert gaussian_delta_epsilon(0.3, 0.7) == 0 < gaussian_delta(0.0, 0.7) < 0.3
    for delta in (5e-324, 1e-300, math.nextafter(1, 0)):
        for shift in (1e-9, 1.0, 1e9):
            epsilon = gaussian_delta_epsilon(delta, shift)
            assert gaussian_delta(epsilon, shift) <= delta


def test_epsilon_of_tiny_shifts_is_tight():
    """It is of the size of the shift then, not of the bracket it is looked for in."""
    for shift in [1e-200, 1e-25, 1e-18, 1e-12, 1e-6]:
        delta = 0.01 * gaussian_delta(0.0, shift)
        epsilon = gaussian_delta_epsilon(delta, shift)
        assert gaussian_delta(epsilon, shift) <= delta
        assert gaussian_delta(0.999 * epsilon, shift) > delta


# What goes in, what comes out


def test_bad_input_is_refused_with_name_value_and_range():
    """Each message has the name, the value and what is allowed."""
    for call, message in [
        (
            lambda: gaussian_loss_exceedance(math.nan, 1),
            r"epsilon must be in \[-inf, inf\].*nan",
        ),
        (lambda: gaussian_risk(-0.1, 1), r"epsilon must be in \[0, inf\], got -0.1"),
        (lambda: gaussian_delta(-0.1, 1), r"epsilon must be in \[0, inf\], got -0.1"),
        *(
            (call, message)
            for law in LAWS
            for call, message in [
                (lambda f=law: f(1, [1, -2]), r"shift must be in .*, got \[1, -2\]"),
                (lambda f=law: f(1, math.nan), r"shift must be in \[0, inf\], got nan"),
                (lambda f=law: f("1", 1), r"epsilon must be in .*inf\], got '1'"),
            ]
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_without_a_delta_only_the_bound_of_the_loss_is_a_level():
    assert Gaussian().level(0.0, [1.0, 2.0]).tolist() == [INF, INF]
    assert Laplace().level(0.0, [1.0, 2.0]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("k", [1, 4])
def test_what_the_grid_adds_is_never_rounded_down(k):
    """Distances and losses are those of thm-advantage; noise and risks pay for them."""
    law, reach = Gaussian(), math.sqrt(k)
    longest, spent = law.on_grid([1.0], k, 2**40)
    assert longest[0] > 1 + reach / 2**40
    assert spent[0] >= 8 * reach / 2**40
    for epsilon in (1.0, 1e-6):  # a level so small that the grid is made finer
        unit = law.unit_noise(epsilon, 1e-9, k)
        most = law.largest_shift(epsilon * (1 - 2.0**-20), 1e-9)
        assert 1 / unit.scale + reach / unit.steps <= most * (1 + 1e-15)
    unit, _, (levels, risks) = law.noise_at_risk(1.0, 0.05, k)
    longest, _ = law.on_grid(law.shift_at_risk(1 - 2.0**-20, 0.05), k, unit.steps)
    paid = levels - longest * reach / unit.steps
    some = paid > 0
    assert (risks[some] >= law.exceedance(paid[some], float(longest))).all()
