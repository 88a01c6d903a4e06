"""Noise for an advantage, and the advantage that is measured at any other noise."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from certificates import filed
from releases import RULES
from rows import risk_for_rows
from test_advantage import Bounded

from skparisk import (
    CalibrationError,
    FiledCertificate,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core import rounding as grid
from skparisk.core.calibrate import Target
from skparisk.core.compose import compose_basic
from skparisk.core.laws import Gaussian, Laplace
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.ledger import PrivacyLedger
from skparisk.queries import MeanQuery
from skparisk.sensitivity import calibrate

RNG = np.random.default_rng(0)
DIFFERENCES = RNG.standard_t(3, size=(499, 4))
X, Y = RNG.normal(size=(60, 2)), RNG.normal(size=60)
X_PUBLIC, Y_PUBLIC = RNG.normal(size=(300, 2)), RNG.normal(size=300)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
ASKED = 0.1
TARGET = Target.of_advantage(ASKED)
LAWS = {"laplace": Laplace(), "gaussian": Gaussian(), "bounded": Bounded()}


def find(target=TARGET, differences=DIFFERENCES, **how):
    return calibrate(differences, target, **({"n_records": 10} | how))


def gained(law, distances, scale):
    """Return the exact advantage of continuous noise."""
    shifts = np.asarray(distances) / scale
    return law.advantage(shifts, n_outputs=1, steps=2**52)


def mean_gained(law, distances, scale):
    return (1 + gained(law, distances, scale).sum()) / (1 + len(distances))


def norms(law, differences=DIFFERENCES):
    return np.linalg.norm(differences, law.norm, axis=1)


def sampler(**parameters):
    usual = {"query": MeanQuery(), "n_pairs": 199, "random_state": 0}
    return SensitivitySampler(**(usual | parameters))


# The target


def test_scale_is_the_least_that_keeps_the_mean():
    for law in LAWS.values():
        for asked in [0.01, 0.1, 0.5, 0.9]:
            noise, claim = find(Target.of_advantage(asked), law=law)
            distances, scale = norms(law), noise.noise_scale
            assert mean_gained(law, distances, scale) <= asked
            assert mean_gained(law, distances, scale * (1 - 1e-4)) > asked
            assert (claim.epsilon, claim.delta, claim.risk) == (0.0, 0.0, asked)
            assert claim.randomness == "both"
            assert claim.post_processed
            assert claim.loss is None
            gain = claim.advantage
            assert gain.mean == asked
            assert gain.risk == pytest.approx(0.05)
            k = claim.evidence.n_pairs - 24  # ceil(0.95 * 500)
            assert claim.evidence.sensitivity == np.sort(distances)[k - 1]
            quantile = gained(law, [claim.evidence.sensitivity], scale)[0]
            assert quantile <= gain.quantile <= quantile * (1 + 2e-5) + 1e-9


def test_units_do_not_matter():
    for units in (1e-200, 1e-9, 1e9, 1e200):
        noise, claim = find(differences=DIFFERENCES * units)
        plain, same = find()
        assert noise.noise_scale == pytest.approx(plain.noise_scale * units, rel=1e-9)
        assert claim.advantage == same.advantage


def test_targets_out_of_range_are_refused():
    for make, message in [
        (lambda: Target.of_advantage(0.0), r"advantage must be .*\(0, 1\), got 0.0"),
        (lambda: Target.of_advantage(1.0), r"advantage must be .*\(0, 1\), got 1.0"),
        (lambda: Target.of_advantage("0.1"), r"advantage must be .*\(0, 1\)"),
        (lambda: Target.of_advantage(0.1, gamma=0.0), r"gamma must be"),
        (lambda: Target(1.0, advantage=0.1), "epsilon and delta must be 0, and random"),
        (
            lambda: Target(0.0, delta=1e-6, randomness="both", advantage=0.1),
            "see Target.of_advantage; got 0.0, 1e-06 and 'both'",
        ),
        (lambda: Target(0.0), "epsilon must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def test_too_few_pairs_are_told_before_anything_is_drawn():
    asked = {"advantage": 0.05, "gamma": 0.5, "n_pairs": 19}
    with pytest.raises(CalibrationError, match="certify no mean advantage") as e:
        sampler(**asked).fit(X_PUBLIC)
    assert "advantage=0.05 was requested; it needs n_pairs >= 20" in str(e.value)
    assert (e.value.target, e.value.best) == (0.05, 0.05)
    sampler(**(asked | {"n_pairs": 20})).fit(X_PUBLIC)
    with pytest.raises(CalibrationError, match=r"gamma=0.05 was requested"):
        sampler(advantage=0.5, gamma=0.05, n_pairs=18).fit(X_PUBLIC)


def test_the_grid_takes_next_to_nothing_or_is_refused():
    for asked, k, m in [
        (0.1, 1, 100),
        (0.01, 10**4, 1000),
        (0.0500001, 3, 19),
        ((1 + 2.0**-32) / 100, 1, 99),
        ((1 + 1.1 * 2.0**-40) / 100, 1, 99),
    ]:
        steps = grid.advantage_steps(asked, k, m)
        spent = Fraction(9 * k, steps)
        assert spent <= asked * 2**-18 * (1 + 1e-9)
        assert m * spent <= (Fraction(asked) * (m + 1) - 1) / 2
        assert steps >= 2**40
    for too_many in ((1e-6, 10**7, 10**8), ((1 + 2.0**-41) / 100, 1, 99)):
        with pytest.raises(ValueError, match="advantage must be larger for this many"):
            grid.advantage_steps(*too_many)


def test_pairs_without_an_answer_count_as_given_away():
    differences = DIFFERENCES.copy()
    differences[:20] = np.inf
    noise, claim = find(differences=differences)
    distances = norms(Laplace(), differences)
    assert mean_gained(Laplace(), distances, noise.noise_scale) <= ASKED
    assert noise.noise_scale > find()[0].noise_scale
    assert "20 without an answer count as 1" in str(claim)
    differences[:60] = np.inf
    with pytest.raises(
        CalibrationError, match="keeps the mean advantage within adv"
    ) as e:
        find(differences=differences)
    assert e.value.best == 61 / 500
    # More than a share gamma of the pairs: nothing is said of single ones.
    differences[:60] = DIFFERENCES[:60]
    differences[:30] = np.inf
    claim = find(differences=differences)[1]
    assert claim.advantage.quantile == 1
    assert math.isinf(claim.evidence.sensitivity)
    document = json.loads(json.dumps(claim.to_dict()))
    assert FiledCertificate.from_dict(document) == filed(claim)


def test_answers_that_are_mostly_the_same_want_no_noise():
    differences = np.zeros((99, 1))
    differences[:5] = 1
    with pytest.raises(
        CalibrationError, match=r"at advantage=0.1 is 0.*smaller advant"
    ):
        find(differences=differences)
    differences[:10] = 1  # all of them, and the fresh one, might be given away
    claim = find(differences=differences)[1]
    assert claim.advantage.mean == 0.1


def test_what_differences_are_off_by_counts():
    shape = NoiseShape(np.ones(4))
    errors = np.full(4, 0.05)
    pairs = SampledPairs(DIFFERENCES, errors, np.zeros(4))
    noise, _ = find(differences=pairs, shape=shape)
    plain, _ = find(shape=shape)
    least = norms(Laplace()) + 0.2
    assert noise.noise_scale > plain.noise_scale
    assert mean_gained(Laplace(), least, noise.noise_scale) <= ASKED


# What is measured at other noise


def test_mean_is_read_one_pair_below():
    """At the scale that was found, the same pairs claim too little."""
    for rule in ["exchangeable", "pac", "dkw"]:
        for law in LAWS.values():
            differences = np.concatenate([DIFFERENCES] * 4)
            delta = 1e-4 if law.name == "gaussian" else 0.0
            noise, claim = find(
                Target(1.0, 0.1, delta), differences, law=law, rule=rule
            )
            evidence, distances = claim.evidence, norms(law, differences)
            m, k = len(distances), evidence.order_index
            ordered = np.sort(distances)
            below = noise.noise_scale * ordered[k - 2] / ordered[k - 1]
            mean = mean_gained(law, distances, below)
            measured = evidence.advantage
            assert mean * (1 - 1e-5) <= measured.mean <= mean * (1 + 2e-5)
            assert measured.mean >= mean_gained(law, distances, noise.noise_scale)
            (quantile,) = gained(law, [ordered[k - 1]], noise.noise_scale)
            assert measured.quantile == pytest.approx(quantile, rel=2e-5)
            assert measured.risk == pytest.approx(1 - k / (m + 1))
            assert claim.advantage.mean <= measured.mean


@pytest.mark.parametrize("law", [Laplace(), Gaussian()])
def test_mean_with_a_risk_over_the_noise(law):
    """The scales that are found by draws, or by exact risks, are below as well."""
    noise, claim = find(Target(1.0, 0.1, randomness="both"), law=law)
    distances, measured = norms(law), claim.evidence.advantage
    at = mean_gained(law, distances, noise.noise_scale)
    assert at <= measured.mean <= 1.2 * at
    (quantile,) = gained(law, [claim.evidence.sensitivity], noise.noise_scale)
    assert measured.quantile == pytest.approx(quantile, rel=2e-5)
    assert measured.risk == pytest.approx(0.1)


def test_measured_numbers_have_six_digits_and_are_at_most_one():
    """Also where every pair, and the fresh one, counts as certain."""
    measured = find(Target(1.0, 0.1))[1].evidence.advantage
    for number in (measured.mean, measured.quantile):
        assert 0 < number < 1
        assert number == float(f"{number:.6g}")
    certain = find(Target(1000.0, 0.1), np.ones((99, 1)))[1].evidence.advantage
    assert (certain.mean, certain.quantile) == (1.0, 1.0)


def test_without_a_scale_below_the_mean_is_what_the_level_says():
    """K is 1: there is no pair below."""
    claim = find(Target(1.0, 0.6), differences=[[1.0]])[1]
    measured = claim.evidence.advantage
    assert measured.mean == 1.0
    of = -math.expm1(-0.5)
    assert claim.advantage.mean == pytest.approx(0.5 * of + 0.5, rel=1e-5)


def test_choices_are_measured_by_their_bound():
    claim = find(Target(1.0, 0.1), law="exponential")[1]
    assert claim.advantage.quantile == pytest.approx(math.tanh(0.5), rel=1e-5)
    assert 0 < claim.advantage.mean < claim.advantage.quantile


# Samplers and estimators


def test_targets_are_exchanged_on_the_same_pairs():
    fitted = sampler().fit(X_PUBLIC)
    asked = fitted.calibrate(advantage=ASKED)
    assert asked.noise_scale_ == sampler(advantage=ASKED).fit(X_PUBLIC).noise_scale_
    assert fitted.advantage is None
    assert asked.calibrate(gamma=0.1).risk_ == ASKED
    assert asked.calibrate(epsilon=1.0).noise_scale_ == fitted.noise_scale_
    less = asked.calibrate(advantage=0.05)
    assert less.noise_scale_ > asked.noise_scale_
    with pytest.raises(
        ValueError, match="epsilon and advantage must not both be given"
    ):
        fitted.calibrate(epsilon=1.0, advantage=0.1)


def test_parameters_that_do_not_go_together_are_refused():
    for parameters, message in [
        ({"delta": 1e-6}, "delta must be 0 and epsilon finite with an advantage"),
        ({"epsilon": math.inf}, "delta must be 0 and epsilon finite with an advantage"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"advantage": 2.0}, "advantage must be"),
        ({"advantage": True}, "advantage must be"),
        ({"calibration": "pac"}, "calibration must be 'exchangeable'"),
        ({"law": "exponential"}, "advantage must be None"),
        ({"randomness": "explicit"}, "randomness must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            sampler(**({"advantage": ASKED} | parameters)).fit(X_PUBLIC)


def test_estimators_ask_for_it_by_their_sampler():
    source = SensitivitySampler(advantage=ASKED, n_pairs=199, random_state=0)
    ridge = PrivateRidge(epsilon=1.0, sensitivity=source).fit(X, Y, **PUBLIC)
    assert (ridge.epsilon_, ridge.risk_, ridge.gamma_) == (0.0, ASKED, 0.05)
    assert ridge.certificate_.advantage.mean == ASKED
    other = PrivateRidge(epsilon=9.0, sensitivity=source).fit(X, Y, **PUBLIC)
    assert other.noise_scale_ == ridge.noise_scale_
    again = PrivateRidge(epsilon=9.0, sensitivity=ridge.sampler_).fit(X, Y)
    assert again.noise_scale_ == ridge.noise_scale_
    assert again.certificate_.advantage.mean == ASKED
    nested = PrivateRidge().set_params(sensitivity__advantage=0.2)
    assert nested.fit(X, Y, **PUBLIC).risk_ == 0.2
    for fitted in (source, ridge.sampler_):
        with pytest.raises(ValueError, match="epsilon finite with an advantage"):
            PrivateRidge(epsilon=math.inf, sensitivity=fitted).fit(X, Y)


@pytest.mark.parametrize("asked", [{"advantage": ASKED}, {}])
def test_pairs_from_private_data_show_no_measured_numbers(asked):
    sampled = SensitivitySampler(noise_shape="isotropic", n_pairs=99, **asked)
    with pytest.warns(PrivacyLeakWarning):
        ridge = PrivateRidge(sensitivity=sampled).fit(X, Y)
    claim = ridge.certificate_
    assert claim.evidence.advantage is None
    assert claim.to_dict()["evidence"]["advantage"] is None
    assert "not counting what was released without noise" in str(claim)
    of = -math.expm1(-0.5)
    kept = math.floor(100 * risk_for_rows(0.05, len(X), 99)) / 100
    by_level = (1 - kept) * of + kept
    mean = claim.advantage.mean
    assert mean == (ASKED if asked else pytest.approx(by_level, rel=1e-3))
    shared = sampler(**asked).fit(X)
    with pytest.warns(PrivacyLeakWarning):
        shared.release(X)
    assert shared.certificate_.evidence.advantage is None


# Several releases


def test_means_add_up():
    claim = find()[1]
    together = compose_basic([claim] * 3)
    assert (together.epsilon, together.delta, together.risk) == (0, 0, 0.3)
    assert together.post_processed
    assert together.advantage.mean == pytest.approx(0.3)
    assert together.advantage.quantile == 1
    mixed = compose_basic([claim, 0.5])
    assert mixed.advantage.mean == pytest.approx(
        (math.expm1(0.5) + 2 * ASKED) / (math.exp(0.5) + 1)
    )
    # Two outcomes of each that tell with the probability ASKED: no more than the sum.
    assert together.advantage.mean >= 1 - (1 - ASKED) ** 3


def test_no_rule_of_composition_claims_less_than_one_release():
    for rule in RULES:
        claim = find()[1]
        try:
            together = RULES[rule]([claim, claim])
        except (ValueError, IncompatibleError):
            continue  # refused, as for any release of which no law of the loss is known
        parallel = rule in ("owner", "position", "value")
        assert together.advantage.mean >= (1 if parallel else 2) * ASKED * (1 - 1e-9)
        assert together.randomness == "both"


def test_ledgers_charge_the_risk():
    fitted = sampler(advantage=ASKED).fit(X_PUBLIC)
    with PrivacyLedger(1.0, gamma=0.25) as ledger:
        for _ in range(2):
            fitted.release(X_PUBLIC[::-1] + 1e-3)
        assert (ledger.spent.epsilon, ledger.spent.risk) == (0.0, 0.2)
        with pytest.raises(ValueError, match=r"risk|gamma"):
            fitted.release(X_PUBLIC[::-1] + 1e-3)
