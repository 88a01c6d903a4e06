"""Noise that is calibrated to differences which the caller has: `calibrate`."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from noise_plans import learned_shape

from skparisk.core.calibrate import (
    DKW,
    PAC,
    Exchangeable,
    Target,
    Terms,
    find_known,
    find_noise,
)
from skparisk.core.claim import Assumption, Doubt, Leak, Population, Unit
from skparisk.core.laws import Laplace
from skparisk.core.noise import Constant, NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.sensitivity import calibrate


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


def test_more_pairs_without_an_answer_than_the_risk_allows_are_refused():
    for plan in [
        {"target": Target(0.5, 0.1)},
        {"target": Target(0.5, 0.1, randomness="both")},
        {"target": Target(0.5, 0.1, randomness="both"), "law": "gaussian"},
    ]:
        differences = differences_of(999, 2)
        differences[:150] = np.inf
        message = (
            "^150 of 999 sampled pairs have a database without an answer, so no noise "
            r"keeps the risk within gamma=0\.1; the lowest risk that any noise"
        )
        with pytest.raises(CalibrationError, match=message) as refused:
            calibrate(differences, **plan, n_records=10, random_state=0)
        assert refused.value.target == 0.1
        assert refused.value.best == pytest.approx(151 / 1000)
    with pytest.raises(CalibrationError, match=r"^99 of 99 sampled pairs") as refused:
        calibrate(np.full((99, 2), np.inf), Target(0.5, 0.1), n_records=10)
    assert refused.value.best == 1


def test_sampled_pairs_have_all_of_an_answer_or_nothing():
    for values in [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, 1.0], [np.nan, np.nan]]:
        differences = differences_of(99, 2)
        differences[7] = values
        with pytest.raises(
            ValueError, match=r"^differences of SampledPairs must be without"
        ):
            calibrate(sampled(differences), Target(0.5, 0.1), n_records=10)


def test_differences_are_a_table_of_numbers():
    for differences, shape in [
        (np.ones(99), r"\(99,\)"),
        (np.ones((99, 0)), r"\(99, 0\)"),
        (np.ones((9, 9, 1)), r"\(9, 9, 1\)"),
        (np.full((99, 1), np.nan), r"\(99, 1\)"),
    ]:
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
        differences, target, relation="add-remove", reference="a census", **given
    )
    assert (plain.relation, told.relation) == ("replace-one", "add-remove")
    assert not plain.void
    assert plain.loss is not None
    assert told.evidence.reference == "a census" != plain.evidence.reference
    with pytest.raises(ValueError, match="relation must be"):
        calibrate(differences, target, relation="other", **given)


def test_what_the_pairs_are_of_is_on_the_certificate():
    known = {"population": Population.DECLARED, "rows_per_person": (1, 8)}
    pairs = SampledPairs(
        differences_of(297, 2),
        None,
        np.zeros(2),
        n_neighbors=3,
        unit=Unit.PERSON,
        **known,
    )
    target = Target(0.5, 0.1, 1e-5)
    _, claim = calibrate(pairs, target, law="gaussian", n_records=10)
    found = claim.evidence
    assert {name: getattr(found, name) for name in known} == known
    assert (found.n_neighbors, found.n_constant, found.norm) == (3, 0, "l2")
    assert claim.unit == Unit.PERSON
    assert claim.doubts == {Doubt.MADE_UP}
    with pytest.raises(ValueError, match="n_records must be a whole number >= 1"):
        calibrate(pairs, target, law="gaussian", n_records=0)


def test_a_shape_of_the_callers_own_is_on_the_certificate():
    given = Assumption.GIVEN_SHAPE
    for shape, expected in (
        (NoiseShape([1.0, 2.0]), True),
        (NoiseShape(), False),
        ("diagonal", False),
        ("isotropic", False),
    ):
        _, claim = calibrate(
            differences_of(99, 2), Target(0.5, 0.1), shape=shape, n_records=10
        )
        assert (given in claim.assumptions) == expected


@pytest.mark.parametrize(
    "plan",
    [
        {"target": Target(0.5, 0.1)},
        {"target": Target(0.5, 0.1, 1e-5), "law": "gaussian"},
        {"target": Target(0.5, 0.1, randomness="both")},
        {"target": Target(0.5, 0.1, randomness="both"), "law": "gaussian"},
    ],
)
def test_other_levels_are_told_where_they_say_something(plan):
    """Also beside pairs without an answer, which have no level, in many blocks."""
    differences = differences_of(5000, 2)
    differences[:9] = np.inf
    _, claim = calibrate(differences, **plan, n_records=10, random_state=0)
    levels, risks = claim.evidence.curve.T
    assert np.isfinite(levels).all()
    assert (risks < 1).all()
    assert claim.risk_at(0.4) > claim.risk > claim.risk_at(0.7) > claim.risk_at(5.0)


def test_there_is_no_other_level_where_all_databases_that_move_are_allowed():
    """Two of four, with two neighbors each, are 2.5 with a fresh one: half of 5."""
    differences = np.repeat([[1.0], [2.0], [0.0], [0.0]], 2, axis=0)
    pairs = SampledPairs(differences, None, np.zeros(1), n_neighbors=2)
    target = Target(1.0, 0.5, randomness="both")
    noise, claim = calibrate(pairs, target, law="gaussian", n_records=10)
    assert noise.noise_scale > 0
    assert claim.evidence.curve.tolist() == [[1.0, 0.5]]


def test_left_out_outputs_count_as_post_processing_where_the_noise_has_a_risk():
    left_out = Constant(np.array([1]), np.array([7.0]))
    for constant, randomness in itertools.product(
        (None, left_out), ("both", "implicit")
    ):
        pairs = SampledPairs(differences_of(99, 2), None, np.zeros(2))
        pairs.constant = constant
        target = Target(0.5, 0.1, randomness=randomness)
        _, claim = calibrate(pairs, target, n_records=10)
        expected = constant is not None and randomness == "both"
        assert claim.post_processed == expected


def test_a_margin_is_for_the_risk_over_pairs_and_for_choices_too():
    def margin(distances, shape, law, index, gamma):
        assert distances[index - 1] >= 0
        return 1.5

    for law, randomness, factor in (
        ("laplace", "implicit", 1.5),
        ("exponential", "implicit", 1.5),
        ("laplace", "both", 1.0),
    ):
        pairs = sampled(differences_of(99, 1) / 100)
        target = Target(0.5, 0.1, randomness=randomness)
        plain, _ = calibrate(pairs, target, law=law, n_records=10)
        pairs.margin = margin
        wider, claim = calibrate(pairs, target, law=law, n_records=10)
        assert claim.evidence.margin == factor
        assert wider.noise_scale == pytest.approx(factor * plain.noise_scale)
    pairs.margin = lambda *given: 1 / 0  # without noise nobody asks
    calibrate(pairs, Target(math.inf, 0.1), n_records=10)


def test_answers_that_are_off_are_refused_beside_how_far_they_move():
    """In the norm of the law: by 2 e for both outputs, or the root of that."""
    differences = np.full((99, 2), 0.05)
    for law, norm in (("laplace", 2.0), ("gaussian", math.sqrt(2))):
        target = Target(0.5, 0.1, 1e-5 if law == "gaussian" else 0.0)
        distance = 0.05 * norm
        for share, refused in ((0.13, True), (0.115, True), (0.1, False)):
            errors = np.full(2, share * distance / norm)
            pairs = SampledPairs(differences, errors, np.zeros(2))
            if not refused:
                noise, _ = calibrate(pairs, target, law=law, n_records=10)
                assert noise.noise_scale > 0
                continue
            with pytest.raises(CalibrationError, match="are off") as caught:
                calibrate(pairs, target, law=law, n_records=10)
            assert caught.value.best == 1
            assert math.isnan(caught.value.target)
    still = SampledPairs(np.zeros((99, 2)), np.ones(2), np.zeros(2))
    with pytest.raises(CalibrationError):
        calibrate(still, Target(0.5, 0.1), n_records=10)


def test_terms_are_for_as_many_databases_as_there_are():
    terms = Terms(Target(0.5, 0.1), Laplace(), "isotropic", Exchangeable(), 99)
    found = find_noise(sampled(differences_of(999)), terms)
    assert found.found.order_index == Exchangeable().order_index(999, 0.1)
    about = {"n_records": 10, "relation": "replace-one", "reference": None}
    assert found.certify(**about, leaks=[Leak.CHOSEN]).leaks == {Leak.CHOSEN}


def test_a_shape_stays_without_noise():
    shape = NoiseShape([1.0, 2.0])
    noise, _ = calibrate(
        differences_of(99, 2), Target(math.inf, 0.1), shape=shape, n_records=10
    )
    assert (noise.steps, noise.shape) == (0, shape)


def test_noise_for_a_known_sensitivity_is_of_its_own_targets():
    with pytest.raises(ValueError, match="randomness must be 'implicit' or 'both' for"):
        find_known(1.0, Target(1.0))
    with pytest.raises(ValueError, match="scale that is too large or too small"):
        find_known(5e-324, Target(99.0, 0.0, 1e-5, "explicit"), law="gaussian")
    target = Target(1.0, 0.1, 1e-5, "explicit")
    _, claim = find_known(1.0, target, law="gaussian", unit=Unit.PERSON)
    assert (claim.evidence.gamma, claim.unit) == (0.0, Unit.PERSON)
    silent, _ = find_known(1.0, Target(math.inf, randomness="explicit"))
    assert (silent.steps, silent.noise_scale) == (0, 0.0)


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


def test_it_rests_on_the_word_of_the_caller_and_not_on_the_rule():
    for rule in (Exchangeable(), PAC(0.01), DKW()):
        _, certificate = calibrate(
            differences_of(2000), Target(0.5, 0.1), rule=rule, n_records=10
        )
        assert certificate.assumptions == {
            Assumption.GIVEN_PAIRS,
            Assumption.PUBLIC_REFERENCE,
        }


@pytest.mark.parametrize("law", ["laplace", "exponential"])
def test_an_infinite_level_needs_no_noise(law):
    noise, certificate = calibrate(
        differences_of(99), Target(math.inf, 0.1), law=law, n_records=10
    )
    assert noise.noise_scale == 0
    assert math.isinf(certificate.epsilon)


@pytest.mark.parametrize("weights", [None, np.eye(3)])
def test_a_shape_is_learned_as_from_so_many_independent_pairs(weights):
    """Those that calibrate nothing, of which rows of a table tell the same."""
    rng = np.random.default_rng(0)
    differences = np.repeat(rng.normal(size=(60, 3)) @ np.tri(3), 4, axis=0)
    known = {"weights": weights, "n_independent": 40}
    pairs = SampledPairs(differences, None, np.zeros(3), **known)
    target = Target(0.5, 0.1)
    noise, _ = calibrate(pairs, target, shape="whitened", n_records=10)
    expected = learned_shape("whitened", differences[:120], **known)
    np.testing.assert_allclose(noise.shape.factor, expected.factor)


def test_a_shape_leaves_what_a_known_risk_over_the_noise_needs():
    """Of 62 pairs half would leave 31, which control no risk of 1/32 itself."""
    target = Target(1.0, 1 / 32, randomness="both")
    noise, claim = calibrate(
        differences_of(62, 2), target, law="gaussian", shape="auto", n_records=10
    )
    assert noise.noise_scale > 0
    assert claim.evidence.n_shape_pairs is None


def test_pairs_may_be_infinitely_far_apart_in_noise_scales():
    """Warnings are errors here. All of their attackers gain, whatever the noise."""
    for plan in [
        {},
        {"rule": "pac"},
        {"rule": "dkw"},
        {"target": Target(0.5, 0.5, 1e-6), "law": "gaussian"},
        {"target": Target(0.5, 0.5, randomness="both"), "law": "gaussian"},
        {"target": Target(0.5, 0.5, randomness="both")},
        {"target": Target.of_advantage(0.5)},
    ]:
        differences = np.array([[1e-300]] * 70 + [[1e300]] * 29)
        noise, claim = calibrate(
            differences, **({"target": Target(0.5, 0.5)} | plan), n_records=10
        )
        assert 1e-302 < noise.noise_scale < 1e-298
        assert 0.3 <= claim.evidence.advantage.mean <= 0.6


@pytest.mark.parametrize("k", [1, 3])
def test_noise_for_a_small_level_has_a_fine_grid(k):
    """Of so many steps that rounding is paid for, sampled or known."""
    epsilon = 1e-7
    differences = differences_of(99, k)
    made = [(calibrate(differences, Target(epsilon, 0.1), n_records=10)[0], k)]
    choice, _ = calibrate(
        differences, Target(epsilon, 0.1), law="exponential", n_records=10
    )
    made.append((choice, 1))
    for delta in (0.0, 1e-9):
        target = Target(epsilon, 0.6, delta, randomness="explicit")
        made.append((find_known(1.0, target, n_outputs=k)[0], k))
    for noise, n_outputs in made:
        assert noise.steps >= 4 * n_outputs * 2**20 / epsilon > 2**40
    target = Target(epsilon, 0.1, 1e-9)
    explicit = Target(epsilon, 0.0, 1e-9, randomness="explicit")
    at_risk = Target(epsilon, 1e-9, randomness="explicit")
    for noise, sensitivity in (
        (
            calibrate(differences, target, law="gaussian", n_records=10)[0],
            np.sort(np.linalg.norm(differences, axis=1))[89],
        ),
        (find_known(1.0, explicit, law="gaussian", n_outputs=k)[0], 1.0),
        (find_known(1.0, at_risk, law="gaussian", n_outputs=k)[0], 1.0),
    ):
        a = sensitivity / noise.noise_scale
        assert (
            noise.steps * (1 + 1e-9) >= math.sqrt(k) * max(a / epsilon, 1 / a) * 2**20
        )
        assert noise.steps > 2**40


def test_a_known_risk_is_for_as_many_outputs_as_there_are():
    """The smallest level that a grid for one output is fine enough for."""
    target = Target(2.5 * 2.0**-29, 0.6, randomness="explicit")
    noise, claim = find_known(1.0, target)
    assert noise.noise_scale > 0
    assert claim.risk == 0.6
    with pytest.raises(ValueError, match=r"^epsilon must be at least 8\.38e-09 for"):
        find_known(1.0, target, n_outputs=2)
    with pytest.raises(ValueError, match=r"^epsilon must be larger for this many"):
        find_known(1.0, replace(target, epsilon=5e-324))


def test_why_pairs_have_no_answer_is_added_to_the_error():
    differences = differences_of(99)
    differences[:30] = np.inf
    failed = SampledPairs(differences, None, np.zeros(1), "KeyError: 'age'")
    plain = SampledPairs(differences, None, np.zeros(1))
    messages = {}
    for name, pairs in (("failed", failed), ("plain", plain)):
        with pytest.raises(CalibrationError) as caught:
            calibrate(pairs, Target(0.5, 0.1), n_records=10)
        messages[name] = str(caught.value)
        assert caught.value.target == 0.1
        assert caught.value.best == pytest.approx(31 / 100)
    why = " The reason for the missing answers: KeyError: 'age'."
    assert messages["failed"] == messages["plain"] + why
