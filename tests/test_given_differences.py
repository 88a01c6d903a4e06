"""Noise that is calibrated to differences which the caller has: `calibrate`."""

import math

import numpy as np
import pytest

from skparisk.calibration import DKW, PAC, Exchangeable, Target, calibrate
from skparisk.calibration._attackers import _tidy
from skparisk.calibration._order import as_curve
from skparisk.calibration._pairs import SampledPairs
from skparisk.calibration._rules import rule_proviso
from skparisk.exceptions import CalibrationError

GIVEN = (
    "The differences were supplied by the caller, and it has not been checked that "
    "they are those of independent pairs of neighboring databases.",
)


def differences_of(n_pairs, n_outputs=1):
    return np.random.default_rng(0).laplace(size=(n_pairs, n_outputs))


def sampled(differences):
    return SampledPairs(differences, None, np.zeros(differences.shape[1]))


def test_the_sensitivity_is_the_order_statistic_that_the_rule_chose():
    differences = differences_of(5000)
    _, certificate = calibrate(differences, Target(0.5, 0.1), n_records=10)
    evidence = certificate.evidence
    assert evidence.order_index == Exchangeable().order_index(5000, 0.1)
    in_order = np.sort(np.abs(differences[:, 0]))
    assert evidence.sensitivity == in_order[evidence.order_index - 1]


@pytest.mark.parametrize("wrap", [np.asarray, sampled])
def test_pairs_without_an_answer_count_as_infinitely_far_apart(wrap):
    """Where the risk allows them; the others are used as they are."""
    differences = differences_of(999, 3)
    noise, certificate = calibrate(differences, Target(0.5, 0.1), n_records=10)
    far = np.argsort(np.abs(differences).sum(axis=1))[-50:]
    differences[far] = np.inf
    same, missing = calibrate(wrap(differences), Target(0.5, 0.1), n_records=10)
    assert same == noise
    assert (certificate.evidence.n_unanswered, missing.evidence.n_unanswered) == (0, 50)
    assert missing.risk == certificate.risk


@pytest.mark.parametrize(
    "plan",
    [
        {"target": Target(0.5, 0.1)},
        {"target": Target(0.5, 0.1, randomness="both"), "n_draws": 3},
        {"target": Target(0.5, 0.1, randomness="both"), "law": "gaussian"},
    ],
)
def test_more_pairs_without_an_answer_than_the_risk_allows_are_refused(plan):
    """Each is counted once, however many draws it is tried with."""
    differences = differences_of(999, 2)
    differences[:150] = np.inf
    message = "^150 of 999 sampled pairs have a database without an answer, so no noise"
    with pytest.raises(CalibrationError, match=message) as refused:
        calibrate(differences, **plan, n_records=10, random_state=0)
    assert refused.value.target == 0.1
    assert refused.value.best == pytest.approx(151 / 1000)


@pytest.mark.parametrize(
    "values", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, 1.0], [np.nan, np.nan]]
)
def test_sampled_pairs_have_all_of_an_answer_or_nothing(values):
    differences = differences_of(99, 2)
    differences[7] = values
    with pytest.raises(
        ValueError, match=r"^differences of SampledPairs must be without"
    ):
        calibrate(sampled(differences), Target(0.5, 0.1), n_records=10)


@pytest.mark.parametrize(
    ("differences", "shape"),
    [
        (np.ones(99), r"\(99,\)"),
        (np.ones((99, 0)), r"\(99, 0\)"),
        (np.ones((9, 9, 1)), r"\(9, 9, 1\)"),
        (np.full((99, 1), np.nan), r"\(99, 1\)"),
    ],
)
def test_differences_are_a_table_of_numbers(differences, shape):
    message = (
        rf"^differences must be a table of shape .* without NaN, got shape {shape}"
    )
    with pytest.raises(ValueError, match=message):
        calibrate(differences, Target(0.5, 0.1), n_records=10)


def test_a_delta_is_claimed_only_where_it_is_used():
    """Not over pairs and noise together: there it is a part of the risk."""
    differences, delta = differences_of(999), 1e-3
    for randomness, claimed in (("implicit", delta), ("both", 0.0)):
        target = Target(0.5, 0.1, delta, randomness)
        _, certificate = calibrate(
            differences, target, law="gaussian", n_records=10, random_state=0
        )
        assert certificate.delta == claimed


def test_what_is_said_of_pairs_is_on_the_certificate():
    """Neighbors differ as the caller says."""
    differences = np.random.default_rng(0).laplace(size=(99, 2))
    target, given = Target(0.5, 0.1), {"n_records": 10}
    _, plain = calibrate(differences, target, **given)
    _, told = calibrate(
        differences,
        target,
        relation="add-remove",
        reference="a census",
        for_new_people="It is one.",
        **given,
    )
    assert (plain.relation, told.relation) == ("replace-one", "add-remove")
    assert not plain.void
    assert plain.loss is not None
    assert told.evidence.reference == "a census" != plain.evidence.reference
    assert told.evidence.for_new_people == "It is one."
    with pytest.raises(ValueError, match="relation must be"):
        calibrate(differences, target, relation="other", **given)


def test_the_seed_is_that_of_the_noise_pairs_are_tried_with():
    differences = np.random.default_rng(0).laplace(size=(99, 3))
    scales = [
        calibrate(
            differences, Target(0.5, 0.1, randomness="both"), n_records=10, **seed
        )[0].noise_scale
        for seed in [{"random_state": 1}] * 2 + [{"random_state": 2}]
    ]
    assert scales[0] == scales[1] != scales[2]
    with pytest.raises(ValueError, match=r"^random_state must be"):
        calibrate(differences, Target(0.5, 0.1), n_records=10, random_state="1")


def test_our_rules_are_no_proviso():
    for rule in (Exchangeable(), PAC(0.01), DKW()):
        assert rule_proviso(rule) == ()
        _, certificate = calibrate(
            differences_of(2000), Target(0.5, 0.1), rule=rule, n_records=10
        )
        assert certificate.provisos == GIVEN


def test_points_of_a_curve_say_something():
    """A risk of 1 says nothing, nor does an infinite level."""
    assert as_curve([1.0, np.inf, 2.0], [1.0, 0.1, 0.5]).tolist() == [[2.0, 0.5]]
    assert as_curve([1.0, 2.0], [1.0, 1.5]) is None


def test_short_floats_are_calibrated_like_long_ones():
    differences = differences_of(999).astype(np.float32)
    for law in ("laplace", "gaussian", "exponential"):
        target = Target(0.5, 0.1, 1e-3 if law == "gaussian" else 0.0)
        short, long = (
            calibrate(given, target, law=law, n_records=10)
            for given in (differences, differences.astype(np.float64))
        )
        assert short == long


@pytest.mark.parametrize("law", ["laplace", "exponential"])
def test_an_infinite_level_needs_no_noise(law):
    noise, certificate = calibrate(
        differences_of(99), Target(math.inf, 0.1), law=law, n_records=10
    )
    assert noise.noise_scale == 0
    assert math.isinf(certificate.epsilon)


def test_what_an_attacker_gains_is_rounded_up_to_at_most_one():
    assert _tidy(1 + 2.0**-40) == 1.0
    assert _tidy(0.1234561) == 0.123457
