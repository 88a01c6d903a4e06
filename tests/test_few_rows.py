"""Noise from a table is calibrated as to no more pairs than it has rows for."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_plans import learned_shape
from rows import risk_for_rows

from skparisk import PrivateRidge, SecretSample, SensitivitySampler
from skparisk.core.calibrate import DKW, PAC, Exchangeable, Target, Terms
from skparisk.core.claim import Doubt
from skparisk.core.laws import Gaussian, Laplace
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError, ReferenceWarning
from skparisk.neighbors import n_own
from skparisk.queries import MeanQuery, RidgeQuery
from skparisk.reference import CallableReference, SchemaReference, TableReference
from skparisk.sensitivity import calibrate

RNG = np.random.default_rng(5)
PUBLIC = RNG.normal(size=(300, 2))
TARGETS = PUBLIC @ [1.0, -2.0] + RNG.normal(size=300)
PRIVATE = RNG.normal(size=(300, 2))

RULES = {"exchangeable": Exchangeable(), "pac": PAC(0.05), "dkw": DKW()}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


LAPLACE = Laplace()


def make_terms(
    n_pairs, gamma=0.05, *, rule=None, target=None, law=LAPLACE, n_neighbors=1, **how
):
    target = Target(1.0, gamma) if target is None else target
    rule = Exchangeable(n_neighbors) if rule is None else rule
    return Terms(target, law, "isotropic", rule, n_pairs // n_neighbors, **how)


def make_sampler(**parameters):
    usual = {"query": MeanQuery(), "noise_shape": "isotropic", "random_state": 0}
    return SensitivitySampler(**(usual | parameters))


# The terms


def test_the_fresh_pair_is_one_more_of_the_independent_ones():
    """Of M pairs (M + 1) gamma - 1 may be above the noise, and that share of any m."""
    for gamma in [0.3, 0.05, 0.01]:
        for n_independent in [150, 450, 999]:
            terms = make_terms(1000, gamma).for_rows(n_independent)
            exact = Fraction(gamma) - (1 - Fraction(gamma)) / n_independent
            of_few = ((n_independent + 1) * Fraction(gamma) - 1) / n_independent
            assert exact == of_few
            assert terms.risk == pytest.approx(float(exact), rel=1e-14)
            least = min(k for k in range(1, 1001) if Fraction(1001 - k, 1001) <= exact)
            assert terms.order_index == least
            assert Fraction(1000 - terms.order_index, 1000) <= of_few
            assert terms.target.gamma == gamma


def test_more_rows_than_pairs_change_nothing():
    for rule in RULES.values():
        for n_independent in [None, 2000, 2001, 10**9]:
            terms = make_terms(2000, rule=rule)
            assert terms.risk == 0.05
            assert terms.for_rows(n_independent) is terms
            fewer = terms.for_rows(1999)
            assert fewer.risk == risk_for_rows(0.05, 1999, 2000, n_own=1) < 0.05


def test_where_nothing_is_left_the_largest_pair_counts():
    for rule in RULES.values():
        for n_independent in [0, 1, 2, 19]:
            terms = make_terms(2000, rule=rule)
            fewest = terms.for_rows(n_independent)
            assert fewest.order_index == 2000 > terms.order_index
            certified = rule.certify_risk(2000, 2000)
            assert fewest.risk == (
                1 / 2000 if type(rule) is Exchangeable else certified
            )
            assert certified <= fewest.risk < 0.05


@every_rule
def test_where_less_is_left_than_the_pairs_certify_the_largest_counts(rule):
    wanted = float(rule.certify_risk(2000, 2000)) * 0.9
    n_independent = math.floor(0.95 / (0.05 - wanted))
    assert 0 < 0.05 - 0.95 / n_independent <= wanted
    assert make_terms(2000, rule=rule).for_rows(n_independent).order_index == 2000


def test_the_risk_for_one_pair_of_rows_is_that_of_one_more():
    """Of two pairs either may be the larger: gamma counts twice, but for the fresh."""
    terms = make_terms(1000, 0.7)
    assert terms.for_rows(1).risk == pytest.approx(0.4)
    assert terms.for_rows(0).risk == pytest.approx(0.4)
    assert make_terms(1000, 0.5).for_rows(1).risk == 1 / 1000  # nothing is left


def test_a_known_risk_over_the_noise_is_not_made_one_that_no_pairs_control():
    """As 1/4 is by 3 pairs, which is what two pairs of rows leave of 1/2."""
    both = Target(1.0, 0.5, randomness="both")
    terms = make_terms(3, target=both, law=Gaussian()).for_rows(2)
    assert terms.risk == 1 / 3
    pairs = SampledPairs(np.ones((3, 1)), None, np.zeros(1), n_independent=2)
    noise, claim = calibrate(pairs, both, law="gaussian", n_records=10)
    assert noise.noise_scale > 0
    assert claim.risk == 1 / 3


def test_pairs_that_are_just_enough_stay_as_they_are():
    """The largest of 19 is all that there is, from however few rows."""
    terms = make_terms(19)
    assert terms.order_index == 19
    assert terms.for_rows(1) is terms


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    rule=st.sampled_from(list(RULES.values())),
    n_pairs=st.integers(1, 3000),
    gamma=st.floats(1e-3, 0.9),
    rows=st.lists(st.integers(0, 3000), min_size=2, max_size=2).map(sorted),
)
def test_fewer_rows_never_ask_for_less(rule, n_pairs, gamma, rows):
    try:
        terms = make_terms(n_pairs, gamma, rule=rule)
        assert terms.order_index
    except CalibrationError:
        return
    few, more = (terms.for_rows(n) for n in rows)
    assert n_pairs >= few.order_index >= more.order_index >= terms.order_index
    assert few.risk <= gamma
    assert rule.certify_risk(n_pairs, few.order_index) <= few.risk


@pytest.mark.parametrize("n_independent", [70, 399])
def test_pairs_of_one_database_count_each(n_independent):
    """100 databases with 4 neighbors: 400 pairs, and so many rows are too few."""
    terms = make_terms(400, 0.1, n_neighbors=4)
    assert terms.for_rows(400) is terms
    fewer = terms.for_rows(n_independent)
    stricter = risk_for_rows(0.1, n_independent, 400, n_own=1)
    assert fewer.risk == stricter
    assert fewer.order_index == Exchangeable(4).order_index(100, stricter)
    assert terms.for_rows(1).order_index == 400


def test_advantages_stay_as_they_are():
    terms = make_terms(1000, target=Target.of_advantage(0.1))
    assert terms.for_rows(150) is terms


# Noise


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_rows_of_a_table_are_counted(relation):
    """300 rows are 150 pairs of two records, or 300 of one."""
    sampler = make_sampler(
        reference=TableReference(PUBLIC), relation=relation, n_records=100, n_pairs=700
    ).fit(PRIVATE[:100])
    stricter = risk_for_rows(0.05, 300, 700, n_own=n_own(relation))
    index = Exchangeable().order_index(700, stricter)
    assert sampler.certificate_.evidence.order_index == index
    assert sampler.sensitivity_ == np.sort(sampler.sensitivities_)[index - 1]
    assert sampler.risk_ == pytest.approx(1 - index / 701)
    assert sampler.risk_ <= stricter
    assert sampler.gamma == sampler.certificate_.evidence.gamma == 0.05


@pytest.mark.parametrize(
    "reference",
    [
        TableReference(RNG.normal(size=(2000, 2)), sampling="split"),
        CallableReference(lambda n, rng: rng.normal(size=(n, 2))),
        SchemaReference([(0, 1), (0, 1)]),
    ],
    ids=["split", "callable", "schema"],
)
def test_pairs_that_are_independent_are_counted_as_they_are(reference):
    sampler = make_sampler(reference=reference, n_records=9, n_pairs=150)
    sampler.fit(PRIVATE[:9])
    index = Exchangeable().order_index(150, 0.05)
    assert sampler.certificate_.evidence.order_index == index


def test_a_secret_sample_is_counted_as_it_is():
    """All that are no members may replace one: few, and yet what it claims is exact."""
    sampler = make_sampler(query=None, n_pairs=400, reference=SecretSample(0.5))
    evidence = PrivateRidge(sensitivity=sampler).fit(PUBLIC, TARGETS).certificate_
    index = Exchangeable().order_index(400, 0.05)
    assert evidence.evidence.order_index == index


@pytest.mark.parametrize("calibration", RULES)
def test_noise_is_more_than_without_the_rows(calibration):
    sampler = make_sampler(calibration=calibration, n_pairs=2000).fit(PUBLIC)
    plain, claim = calibrate(
        sampler.differences_, Target(1.0), rule=calibration, n_records=300
    )
    assert sampler.noise_scale_ > plain.noise_scale
    assert sampler.risk_ < claim.risk <= 0.05


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_risks_over_the_noise_are_stricter_as_well(law):
    def find(n_independent):
        pairs.n_independent = n_independent
        return calibrate(pairs, Target(1.0, randomness="both"), law=law, n_records=300)

    pairs = SampledPairs(RNG.normal(size=(400, 2)), None, np.zeros(2))
    (plain, claim), (same, _), (fewer, stricter) = map(find, (None, 400, 150))
    assert same.noise_scale == plain.noise_scale < fewer.noise_scale
    asked = risk_for_rows(0.05, 300, 400)
    assert asked - 1 / 401 < stricter.risk <= asked < claim.risk <= 0.05
    assert law == "laplace" or (stricter.risk, claim.risk) == (asked, 0.05)


def test_without_noise_the_risk_is_that_of_few_rows():
    both = {"epsilon": math.inf, "randomness": "both", "law": "gaussian"}
    sampler = make_sampler(n_pairs=400, **both).fit(PUBLIC)
    assert sampler.noise_scale_ == 0
    assert sampler.risk_ == risk_for_rows(0.05, 300, 400)


# Errors


@pytest.mark.parametrize("again", ["calibrate", "estimator"])
def test_a_smaller_risk_than_that_of_the_fit_is_said_to_be_unseen(again):
    """By fifteen pairs of rows, as by a fit for it; a risk that they show is not."""
    table = TableReference(PUBLIC[:30], TARGETS[:30])
    given = {"reference": table, "n_records": 15, "n_pairs": 1000}
    sampler = make_sampler(query=RidgeQuery(1.0), gamma=0.2, **given)
    sampler.fit(PUBLIC, TARGETS)

    def at(gamma):
        if again == "calibrate":
            return sampler.calibrate(gamma=gamma).certificate_
        model = PrivateRidge(1.0, gamma=gamma, sensitivity=sampler)
        return model.fit(PRIVATE[:15], TARGETS[15:30]).certificate_

    assert not sampler.certificate_.doubts
    assert not at(0.1).doubts
    assert at(0.1).private
    words = "15 pairs without a row in common, .* which takes 100 of them"
    with pytest.warns(ReferenceWarning, match=words):
        small = at(0.01)
    assert small.doubts == {Doubt.THIN}
    assert not small.private


# What is agreed on before anything is drawn: how many pairs, and what for


LARGE = np.random.default_rng(0).normal(size=(20_000, 2))
BOTH = {"randomness": "both", "law": "gaussian"}


def evidence_of(n_pairs, gamma=0.05, **how):
    usual = {"noise_shape": "isotropic", "n_records": 9, "random_state": 0}
    sampler = SensitivitySampler(
        MeanQuery(), gamma=gamma, n_pairs=n_pairs, **usual | how
    )
    return sampler.fit(LARGE).certificate_.evidence


def test_a_risk_over_noise_that_is_known_needs_one_pair_more():
    """Each pair has some risk: 1 / (m + 1) itself cannot be reached."""
    with pytest.raises(CalibrationError, match=r"no risk of 0\.001 or below"):
        evidence_of(999, 0.001, **BOTH)
    assert evidence_of(1000, 0.001, **BOTH).n_pairs == 1000
    assert evidence_of("auto", 0.001, **BOTH).n_pairs == 5 * 1000
    assert evidence_of("auto", 0.001).n_pairs == 5 * 999


def test_a_shape_takes_one_database_at_least_and_leaves_some():
    for r, least, gamma in [(1, 4, 0.4), (2, 4, 0.6), (3, 6, 0.6)]:
        how = {"noise_shape": "diagonal", "neighbors_per_database": r}
        evidence = evidence_of(least, gamma, **how)
        assert evidence.n_shape_pairs >= 1
        assert evidence.n_pairs >= 1
        for few in (least - 1, least - r):
            with pytest.raises(ValueError, match=rf"^n_pairs must .*\b{least}\b"):
                evidence_of(few, gamma, **how)
        alone = evidence_of(2 * r, 0.6, neighbors_per_database=r)
        assert alone.n_shape_pairs is None


@pytest.mark.parametrize("r", [2, 3])
def test_too_few_databases_are_told_what_they_are_counted_as(r):
    message = (
        rf"^n_pairs=10 pairs certify no risk below .*; it needs n_pairs >= 19\. Pairs "
        rf"of one database, {r} here, count as one: it needs n_pairs >= {19 * r} in "
        r"all\.$"
    )
    with pytest.raises(CalibrationError, match=message):
        evidence_of(10 * r, neighbors_per_database=r)
    assert evidence_of(19 * r, neighbors_per_database=r).n_pairs == 19 * r


def test_what_does_not_go_together():
    differences, given = np.ones((99, 2)), {"n_records": 10}
    with pytest.raises(ValueError, match="see KnownSensitivity"):
        calibrate(differences, Target(1.0, 0.05, randomness="explicit"), **given)
    given["law"] = "exponential"
    for shape in ("auto", "isotropic", NoiseShape()):
        _, claim = calibrate(differences, Target(1.0), shape=shape, **given)
        assert claim.evidence.n_shape_pairs is None
    for shape in ("diagonal", NoiseShape(np.ones(2))):
        with pytest.raises(ValueError, match="noise_shape must be 'isotropic'"):
            calibrate(differences, Target(1.0), shape=shape, **given)


# The shape that costs least


def errors_of(name, differences, law, gamma, weights, n_independent):
    """Return what noise of a shape adds to the errors that outputs are for."""
    half = len(differences) // 2
    known = {"weights": weights, "n_independent": n_independent}
    shape = learned_shape(name, differences[:half], **known)
    coordinates = shape.whiten(differences[half:])
    order = {"laplace": 1, "gaussian": 2}[law]
    lengths = np.linalg.norm(coordinates, ord=order, axis=1)
    size = np.quantile(lengths, 1 - gamma)
    factor = size * shape.color(np.eye(differences.shape[1]))
    covariance = factor.T @ factor
    if weights is not None:
        return np.trace(covariance @ weights)
    scales = learned_shape("diagonal", differences).color(np.eye(len(covariance)))
    return np.sum(np.diag(covariance) / np.diag(scales) ** 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("weighed", [False, True])
def test_auto_takes_the_shape_that_adds_least_to_the_errors(law, weighed):
    rng = np.random.default_rng(0)
    taken = set()
    for gamma in (0.05, 0.3):
        target = Target(1.0, gamma, 1e-3 if law == "gaussian" else 0.0)
        for n_rows in [20, 41] * 12:
            mixed = np.eye(3) + rng.uniform(0, 0.6) * rng.normal(size=(3, 3))
            differences = rng.standard_t(4, size=(n_rows, 3)) @ mixed
            differences *= 10.0 ** rng.integers(-2, 3, size=3)
            weights = None
            if weighed:
                root = rng.normal(size=(3, 3)) / differences.std(axis=0)[:, None]
                weights = root @ root.T
            known = {"weights": weights, "n_independent": int(rng.integers(45, 60))}
            twice = np.concatenate([differences, differences])
            pairs = SampledPairs(twice, None, np.zeros(3), **known)
            costs = {
                name: errors_of(name, differences, law, gamma, **known)
                for name in ("whitened", "diagonal")
            }
            best = min(costs, key=costs.get)
            noise, _ = calibrate(pairs, target, law=law, shape="auto", n_records=10)
            assert noise.shape.name == best
            taken.add(best)
    assert len(taken) == 2
