"""Risk control, and order statistics, against what they are defined as."""

import math
from fractions import Fraction

import numpy as np
import pytest
from noise_plans import find_by_risks

from skparisk.core.calibrate import (
    Exchangeable,
    Target,
    Terms,
    certified_mean,
    control_risk,
)
from skparisk.core.laws import Gaussian
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.sensitivity import calibrate

CLOSE = 2.0**-38  # relative, more than what the search leaves


def terms_of(n_databases, gamma, n_neighbors=1, *, gains=False):
    target = Target(1.0, gamma, randomness="both")
    if gains:
        target = Target.of_advantage(gamma, 0.9)
    rule = Exchangeable(n_neighbors)
    return Terms(target, Gaussian(), "isotropic", rule, n_databases)


def control(distances, gamma, n_neighbors=1, n_still=0, **how):
    """Control the share of pairs whose distance is above the scale."""
    distances = np.array(distances, dtype=float)
    differences = distances[:, None].copy()
    differences[:n_still] = 0.0
    pairs = SampledPairs(differences, None, np.zeros(1), n_neighbors=n_neighbors)
    terms = terms_of(pairs.n_databases, gamma, n_neighbors, **how)
    assert 1 <= terms.order_index <= len(pairs)
    return control_risk(
        lambda scale: (distances > scale).astype(float), distances, pairs, terms
    )


def least_scale(distances, n_neighbors, most):
    """Return the least scale with so much above it at the most, in databases."""
    return min(
        d
        for d in distances
        if Fraction(sum(x > d for x in distances)) <= most * n_neighbors
    )


def test_the_scale_is_the_least_that_is_controlled():
    """And the one below it what all databases and a fresh one without risk allow."""
    for n_neighbors in [1, 2, 3]:
        for gamma in [0.13, 0.31, 0.55, 0.71]:
            rng = np.random.default_rng(n_neighbors)
            n = 12
            for n_zero, n_infinite in [(0, 0), (1, 0), (3, 1), (0, n_neighbors // 2)]:
                distances = rng.exponential(size=n * n_neighbors)
                distances[:n_zero] = 0
                distances[len(distances) - n_infinite :] = np.inf
                allowed = Fraction(gamma) * (n + 1) - 1
                if Fraction(n_infinite, n_neighbors) > allowed:
                    continue
                scale, below = control(distances, gamma=gamma, n_neighbors=n_neighbors)
                least = least_scale(distances, n_neighbors, allowed)
                assert least <= scale <= least * (1 + CLOSE)
                least = least_scale(distances, n_neighbors, allowed + 1)
                assert (
                    least * (1 - CLOSE) <= below <= least < scale or below == least == 0
                )


def test_what_is_read_off_below_is_below_where_sums_are_at_the_limit():
    """With a fresh pair without risk, 5 of the 10 are above the scale 4."""
    scale, below = control(range(1, 10), gamma=0.5)
    assert 4 * (1 - CLOSE) <= below <= 4
    assert 5 <= scale <= 6 * (1 + CLOSE)  # rounding may need one pair more


def test_all_pairs_may_be_needed_to_be_above():
    scale, below = control([1, 2, 3, 4], gamma=0.9)
    assert 1 <= scale <= 1 + CLOSE  # 3.5 of 4
    assert below == 0


@pytest.mark.parametrize("n_positive", [5, 6])
def test_there_is_nothing_below_if_all_that_move_are_allowed(n_positive):
    """(5 + 0) / 10 is gamma: no noise would be needed for these and a fresh one."""
    distances = np.append(np.arange(1.0, n_positive + 1), np.zeros(9 - n_positive))
    _, below = control(distances, gamma=0.5)
    assert (below > 0) == (n_positive > 5)
    if below:
        assert 1 - CLOSE <= below <= 1


def test_pairs_of_one_database_count_as_a_share_of_it():
    """8 pairs that move are 4 databases of 9, and 4.5 need no noise."""
    distances = [1.0] * 8 + [0.0] * 10
    with pytest.raises(CalibrationError, match=r"at gamma=0\.55 is 0") as error:
        control(distances, gamma=0.55, n_neighbors=2)
    assert error.value.target == 0.55
    assert error.value.best == pytest.approx(5 / 10)
    # Pairs that do not differ by more than rounding do not move.
    with pytest.raises(CalibrationError, match=r"at gamma=0\.55 is 0") as error:
        control([1.0] * 18, gamma=0.55, n_neighbors=2, n_still=10)
    assert error.value.best == pytest.approx(5 / 10)
    # But 9 have no answer, and these are 4.5.
    control([math.inf] * 8 + [1.0] * 10, gamma=0.55, n_neighbors=2)
    with pytest.raises(CalibrationError, match="10 of 18 sampled pairs") as error:
        control([math.inf] * 10 + [1.0] * 8, gamma=0.55, n_neighbors=2)
    assert error.value.best == pytest.approx(6 / 10)


def test_of_pairs_that_are_all_the_same_nothing_is_certified_but_0():
    with pytest.raises(CalibrationError, match=r"at gamma=0\.5 is 0") as error:
        control([0.0] * 9, gamma=0.5)
    assert error.value.best == 0


def test_no_scale_is_enough_if_pairs_without_an_answer_are_all_that_is_allowed():
    """The others count something at every scale: an error, and no endless search."""
    message = (
        r"^4 of 9 sampled pairs have a database without an answer, so no noise keeps "
        r"the risk within gamma=0\.5; the lowest risk "
    )
    with pytest.raises(CalibrationError, match=message) as error:
        control([math.inf] * 4 + [1.0] * 5, gamma=0.5)
    assert (error.value.target, error.value.best) == (0.5, 0.5)
    differences = np.ones((999, 1))
    differences[:49] = np.inf
    target = Target(0.5, 0.05, randomness="both")
    with pytest.raises(CalibrationError, match=r"^49 of 999 sampled pairs"):
        calibrate(differences, target, law="gaussian", n_records=100)
    # No noise is needed if no others move.
    with pytest.raises(CalibrationError, match=r"at gamma=0\.5 is 0"):
        control([math.inf] * 4 + [0.0] * 5, gamma=0.5)


def test_the_least_that_pairs_may_add_up_to():
    at_it = (1 + 2.0**-20) / 16
    assert terms_of(15, at_it).order_index == 15
    with pytest.raises(CalibrationError, match=r"it needs n_pairs >= 16\.$"):
        terms_of(15, at_it * (1 - 2.0**-50)).order_index  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(("n_pairs", "n_neighbors"), [(20, 1), (20, 4), (9000, 3)])
def test_levels_around_the_target_are_certified_for_a_fresh_database(
    n_pairs, n_neighbors
):
    distances = np.random.default_rng(0).uniform(1, 2, size=n_pairs)
    found = find_by_risks(distances, 1, 3.0, 0.4, n_neighbors)
    levels, certified = found.curve.T
    assert len(levels) == 256
    np.testing.assert_allclose(levels, 3 * 2.0 ** np.linspace(-8, 8, 256), rtol=1e-12)
    n = n_pairs // n_neighbors
    risks = Gaussian().risk(levels[:, None], distances / found.below)
    mean = (risks.sum(axis=1) / n_neighbors + 1) / (n + 1)
    assert (certified >= mean).all()
    np.testing.assert_allclose(certified, mean, rtol=1e-4)


def test_a_mean_counts_a_fresh_pair_as_one():
    assert certified_mean(3.0, 7) == pytest.approx(4 / 8)
    assert certified_mean(3.0, 14, 2) == pytest.approx(2.5 / 8)


# Order statistics


def least(scales, index, n_databases, n_still=0):
    """Return noise for the scale with this number, and what it is certified for."""
    scales = np.array(scales)
    rule = Exchangeable(len(scales) // n_databases)
    rounding = np.full(1, scales[n_still - 1] if n_still else 0.0)
    known = {"n_neighbors": rule.n_neighbors}
    pairs = SampledPairs(scales[:, None], None, rounding, **known)
    target = Target(1.0, rule.certify_risk(n_databases, index))
    noise, claim = calibrate(pairs, target, n_records=10)
    return pytest.approx(noise.noise_scale, rel=1e-5), claim.evidence.curve


@pytest.mark.parametrize("n_zero", [1, 2, 3, 4])
def test_a_scale_of_zero_is_never_returned(n_zero):
    scales = [0.0] * n_zero + [1.0] * (4 - n_zero)
    if n_zero < 2:
        assert least(scales, 2, 4)[0] == 1
        return
    with pytest.raises(CalibrationError) as error:
        least(scales, 2, 4)
    assert error.value.best == pytest.approx((4 - n_zero) / 5 if n_zero < 4 else 0.0)


def test_a_pair_that_is_still_needs_no_noise():
    scales = np.arange(1.0, 9.0)
    assert least(scales, 5, 4, n_still=4)[0] == 5
    with pytest.raises(CalibrationError):
        least(scales, 4, 4, n_still=4)


def test_other_levels_are_read_one_database_below():
    """The largest is that of the farthest pair; below the first there is none."""
    scales = np.arange(1.0, 9.0)
    for index, n_databases, below in [(3, 4, 1), (8, 8, 7), (5, 4, 3)]:
        _, curve = least(scales, index, n_databases)
        assert curve[-1, 0] == pytest.approx(8 / below, rel=1e-5)
    assert least(scales, 2, 4)[1] is None


@pytest.mark.parametrize("n_pairs", [7, 2048, 5000])
def test_each_level_is_certified_by_how_many_pairs_keep_it(n_pairs):
    scales = np.random.default_rng(0).permutation(np.arange(1.0, n_pairs + 1))
    _, curve = least(scales, 4, n_pairs)
    assert len(curve) == min(n_pairs, 2048)
    assert (np.diff(curve[:, 0]) > 0).all()
    counts = np.round(3 * curve[:, 0])  # so many pairs keep that level at the scale 3
    assert counts[[0, -1]].tolist() == [1, n_pairs]
    certified = (n_pairs + 1 - counts) / (n_pairs + 1)
    np.testing.assert_allclose(curve[:, 1], certified, rtol=1e-15)
