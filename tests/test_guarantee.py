"""What releases guarantee: the value that composition takes and returns."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skparisk import IncompatibleError, RiskCertificate, SensitivitySampler
from skparisk.composition import (
    METHODS,
    DominatingLoss,
    PrivacyGuarantee,
    as_guarantee,
    as_guarantees,
    compose_basic,
)
from skparisk.composition._sums import ceil_float, exact_sum
from skparisk.mechanisms import (
    BernsteinMechanism,
    DiscreteMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)
from skparisk.privacy_loss import gaussian_delta, gaussian_loss_exceedance

levels = st.floats(min_value=1e-300, max_value=1e300)


@settings(deadline=None, max_examples=200)
@given(st.lists(levels, max_size=20))
def test_sums_are_those_of_the_decimal_numbers_and_never_below(numbers):
    total = exact_sum(numbers)
    assert total == exact_sum(sorted(numbers))
    rounded = ceil_float(total)
    assert Fraction(repr(rounded)) >= total
    below = math.nextafter(rounded, -math.inf)
    assert Fraction(repr(below)) < total or not total


def test_ten_releases_at_a_tenth_are_one():
    assert ceil_float(exact_sum([0.1] * 10)) == 1.0
    assert ceil_float(exact_sum([0.1] * 3)) == 0.3


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("randomness", ["implicit", "both", "explicit"])
def test_a_guarantee_survives_json(method, randomness):
    guarantee = PrivacyGuarantee(
        0.1,
        1e-5,
        0.05,
        0.01,
        randomness,
        "add-remove",
        DominatingLoss("laplace", 0.1, 1e-9),
        method,
        3,
        leaks=("a leak",),
        provisos=("a proviso",),
    )
    document = json.loads(json.dumps(guarantee.to_dict()))
    assert PrivacyGuarantee.from_dict(document) == guarantee
    for name in document:
        left_out = {key: value for key, value in document.items() if key != name}
        with pytest.raises(ValueError, match="entries of a guarantee"):
            PrivacyGuarantee.from_dict(left_out)
    with pytest.raises(ValueError, match=r"do not follow.*'private'"):
        PrivacyGuarantee.from_dict(document | {"private": True})
    with pytest.raises(ValueError, match=r"is not a guarantee: delta must be"):
        PrivacyGuarantee.from_dict(document | {"delta": 2})
    unknown = dataclasses.replace(guarantee, loss=None)
    assert PrivacyGuarantee.from_dict(unknown.to_dict()) == unknown
    with pytest.raises(ValueError, match="must be a mapping"):
        PrivacyGuarantee.from_dict([])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": -1.0}, r"epsilon must be a number in \[0, inf\], got -1.0"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"epsilon": True}, "epsilon must be"),
        ({"delta": 1.5}, r"delta must be a number in \[0, 1\], got 1.5"),
        ({"risk": -0.1}, "risk must be"),
        ({"failure_prob": 2}, "failure_prob must be"),
        ({"randomness": "none"}, "randomness must be one of"),
        ({"relation": "equal"}, "relation must be one of"),
        ({"method": "magic"}, "method must be one of"),
        ({"loss": 0.5}, "loss must be None or a DominatingLoss"),
        ({"n_releases": -1}, "n_releases must be a whole number >= 0"),
        ({"leaks": "One sentence."}, "leaks must be a tuple of sentences"),
        ({"void_reasons": (1,)}, "void_reasons must be a tuple of sentences"),
        ({"group_size": 0}, "group_size must be a whole number >= 1"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        PrivacyGuarantee(**{"epsilon": 1.0} | parameters)


def test_a_level_is_not_above_the_largest_loss():
    with pytest.raises(ValueError, match="must be at most the largest loss"):
        PrivacyGuarantee(1.0, loss=DominatingLoss("laplace", 0.5, 0.1))
    PrivacyGuarantee(1.0, 1e-5, loss=DominatingLoss("gaussian", 0.01))


def test_a_dominating_loss_is_finite():
    with pytest.raises(ValueError, match="law must be one of"):
        DominatingLoss("cauchy", 1.0)
    with pytest.raises(ValueError, match="shift must be a finite number, got inf"):
        DominatingLoss("laplace", math.inf)
    with pytest.raises(ValueError, match=r"excess must be a number in \[0, inf\]"):
        DominatingLoss("laplace", 1.0, -1.0)


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (
            PrivacyGuarantee(0.5),
            "For any two neighboring databases: the release is "
            "0.5-differentially private.",
        ),
        (
            PrivacyGuarantee(0.5, 1e-5, relation="add-remove", n_releases=2),
            "For any two databases of which one has one record more: the 2 releases "
            "together are (0.5, 1e-05)-differentially private.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.05, randomness="implicit"),
            "For two neighboring databases: with probability at least 0.95 over the "
            "fresh pair and the sampled pairs, the release is 1-differentially private "
            "for that pair, whatever is released.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.05, 0.01, randomness="implicit"),
            "For two neighboring databases: with probability at least 0.95 over the "
            "fresh pair, in all but a share 0.01 of all samples of pairs, the release "
            "is 1-differentially private for that pair, whatever is released.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.05, randomness="both"),
            "For two neighboring databases: the privacy loss of the release exceeds 1 "
            "with probability at most 0.05 over the fresh pair and the noise and the "
            "sampled pairs.",
        ),
        (
            PrivacyGuarantee(1.0, 0.25, 0.5, randomness="both", n_releases=2),
            "For two neighboring databases: the 2 releases together are "
            "(1, 0.75)-differentially private, on average over the fresh pair and the "
            "sampled pairs.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.5, randomness="explicit"),
            "For any two neighboring databases: the privacy loss of the release "
            "exceeds 1 with probability at most 0.5 over the noise.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.5, randomness="both", post_processed=True),
            "For two neighboring databases: the release is "
            "(1, 0.5)-differentially private, on average over the fresh pair and the "
            "sampled pairs.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.0, 0.1, randomness="implicit"),
            "For two neighboring databases: with probability at least 1 over the fresh "
            "pair, in all but a share 0.1 of all samples of pairs, the release is "
            "1-differentially private for that pair, whatever is released.",
        ),
        (
            PrivacyGuarantee(1.0, 0.0, 0.5, 0.1, randomness="explicit"),
            "For any two neighboring databases: the privacy loss of the release "
            "exceeds 1 with probability at most 0.5 over the noise, in all but a share "
            "0.1 of all samples of pairs.",
        ),
        (
            PrivacyGuarantee(1.0, group_size=3),
            "For any two databases that are at most 3 neighbors apart: the release is "
            "1-differentially private.",
        ),
        (
            PrivacyGuarantee(1.0, group_size=2, relation="replace-one"),
            "For any two databases that differ in at most 2 records: the release is "
            "1-differentially private.",
        ),
        (
            PrivacyGuarantee(1.0, group_size=2, relation="add-remove"),
            "For any two databases that at most 2 added or removed records make equal: "
            "the release is 1-differentially private.",
        ),
        (
            PrivacyGuarantee(1.0, 0.25, 0.5, randomness="explicit"),
            "For any two neighboring databases: the release is "
            "(1, 0.75)-differentially private.",
        ),
    ],
)
def test_the_claim_in_words(guarantee, words):
    assert guarantee.guarantee == words
    assert str(guarantee).startswith(words)
    assert words in guarantee._repr_html_()
    assert guarantee.private
    assert guarantee.confidence == 1 - guarantee.risk


def test_what_voids_or_leaks_is_told_first():
    infinite = PrivacyGuarantee(math.inf)
    assert infinite.voided
    assert "no noise was added" in infinite.guarantee
    leaking = PrivacyGuarantee(1.0, leaks=("A & B.",), provisos=("If.",))
    assert not leaking.private
    assert not leaking.voided
    assert leaking.guarantee.endswith("apart from what was released without noise.")
    assert str(leaking).endswith("Caveat: A & B.\nCaveat: If.")
    assert "A &amp; B." in leaking._repr_html_()
    given = dataclasses.replace(infinite, void_reasons=("Other.",))
    assert given.guarantee == "There is no guarantee. Other."


def test_conditions_are_those_of_the_rule():
    alone = PrivacyGuarantee(1.0, 0.0, 0.1)
    assert alone.conditions == ()
    several = dataclasses.replace(alone, n_releases=2, method="exact")
    assert len(several.conditions) == 3
    assert all(text in str(several) for text in several.conditions)
    every_pair = dataclasses.replace(several, randomness="explicit", method="basic")
    assert every_pair.conditions[0].startswith("each release sees the record of a")
    assert every_pair.conditions[1:] == (
        "levels, or a limit of their sum, were fixed before the first release",
    )
    filtered = dataclasses.replace(several, method="filter", risk=0.0)
    assert "that limit is what all releases" in filtered.conditions[1]
    parallel, group, transferred = (
        dataclasses.replace(alone, method=method).conditions
        for method in ("parallel", "group", "transferred")
    )
    assert "disjoint" in parallel[0]
    assert "sampled as for that part" in parallel[1]
    assert group == (
        "each step from neighbor to neighbor in a group is as a sampled pair",
    )
    assert "divergence" in transferred[0]


def test_risks_add_and_failures_of_samples_are_kept_apart_where_they_can_be():
    pac = PrivacyGuarantee(1.0, 0.0, 0.05, 0.01, randomness="implicit")
    average = PrivacyGuarantee(1.0, 0.0, 0.1, randomness="implicit")
    noise = PrivacyGuarantee(1.0, 0.0, 0.2, randomness="explicit")
    certain = PrivacyGuarantee(1.0)
    two = compose_basic([pac, pac, certain])
    assert (two.risk, two.failure_prob) == (0.1, 0.02)
    mixed = compose_basic([pac, average])
    assert (mixed.risk, mixed.failure_prob) == (0.16, 0.0)
    assert mixed.randomness == "implicit"
    apart = compose_basic([pac, noise])
    assert (apart.risk, apart.failure_prob) == (0.25, 0.01)
    assert apart.randomness == "both"
    assert compose_basic([noise, certain]).randomness == "explicit"
    assert compose_basic([average] * 11).risk == 1.0
    assert compose_basic([]).n_releases == 0


def test_relations_do_not_mix():
    one, other = (
        PrivacyGuarantee(1.0, relation=name) for name in ("replace-one", "add-remove")
    )
    assert compose_basic([one, PrivacyGuarantee(1.0)]).relation == "replace-one"
    with pytest.raises(IncompatibleError, match=r"'add-remove', 'replace-one'"):
        compose_basic([one, other])


def test_groups_of_different_sizes_do_not_mix():
    pair, triple = (PrivacyGuarantee(1.0, group_size=size) for size in (2, 3))
    assert compose_basic([pair, pair]).group_size == 2
    with pytest.raises(IncompatibleError, match=r"groups of one size, got \[2, 3\]"):
        compose_basic([pair, triple])


def test_a_sum_that_is_too_large_says_so():
    overflow = PrivacyGuarantee(math.inf, method="basic", n_releases=2)
    assert overflow.void_reasons == ("epsilon is infinite: this is NOT private.",)


def test_numbers_are_rounded_up():
    assert PrivacyGuarantee(Fraction(1, 10**400)).epsilon == 5e-324
    third = PrivacyGuarantee(Fraction(1, 3)).epsilon
    assert third > Fraction(1, 3)
    assert compose_basic([PrivacyGuarantee(1.0, 0, Fraction(1, 3))] * 3).risk == 1.0
    assert PrivacyGuarantee(10**400).epsilon == math.inf
    long = np.longdouble(1) / 3
    assert PrivacyGuarantee(long).epsilon >= long


def test_a_risk_of_one_is_no_guarantee():
    for guarantee in (PrivacyGuarantee(0.1, 0.0, 1.0), PrivacyGuarantee(0.1, 1.0)):
        assert guarantee.guarantee.startswith(
            "There is no guarantee. The risk, or delta"
        )
    assert PrivacyGuarantee(0.1, 0.0, 0.999).private


def test_what_others_call_a_guarantee_is_checked():
    class Other:
        def __init__(self, says):
            self.as_guarantee = lambda: says

    class Fickle(PrivacyGuarantee):
        @property
        def risk_(self):
            return 0

    assert type(as_guarantee(Other(Fickle(0.9)))) is PrivacyGuarantee
    for wrong in ([0.9], 0.9, None):
        with pytest.raises(ValueError, match="must return a PrivacyGuarantee"):
            as_guarantee(Other(wrong))


def test_plain_numbers_are_releases():
    assert as_guarantee(0.5) == PrivacyGuarantee(0.5)
    assert as_guarantee((0.5, 1e-5, 0.1)) == PrivacyGuarantee(0.5, 1e-5, 0.1)
    assert as_guarantees([0.5, (1.0, 0.1)])[1] == PrivacyGuarantee(1.0, 0.1)
    for wrong in ("0.5", (), (1, 2, 3, 4), None, (0.5, "0"), True):
        with pytest.raises(ValueError, match="a release must be"):
            as_guarantee(wrong)
    for wrong in ("0.5", 0.5, {"epsilon": 1}):
        with pytest.raises(ValueError, match="releases must be a list"):
            as_guarantees(wrong)


def test_mechanisms_say_what_they_guarantee():
    laplace = LaplaceMechanism(1.0, 0.5, 3).as_guarantee()
    assert (laplace.epsilon, laplace.delta, laplace.loss.law) == (0.5, 0.0, "laplace")
    assert laplace.loss.shift + laplace.loss.excess == pytest.approx(0.5, rel=1e-8)
    assert laplace.loss.shift == 0.5
    gaussian = GaussianMechanism(1.0, 0.5, 1e-5, 3).as_guarantee()
    assert (gaussian.epsilon, gaussian.delta) == (0.5, 1e-5)
    loss = gaussian.loss
    delta = gaussian_delta(0.5 - loss.excess, loss.shift)
    assert 1e-5 * (1 - 1e-4) <= delta <= 1e-5 * (1 + 1e-3)
    assert ExponentialMechanism(1.0, 0.5).as_guarantee() == PrivacyGuarantee(0.5)
    response = RandomizedResponse(epsilon=0.5)
    assert as_guarantee(response).epsilon == response.epsilon
    coin = DiscreteMechanism([[0.75, 0.25], [0.25, 0.75]])
    assert as_guarantee(coin).epsilon == pytest.approx(math.log(3))
    bernstein = BernsteinMechanism(1.0, 0.5, lattice_size=2)
    assert as_guarantee(bernstein).epsilon == 0.5
    for free in (
        LaplaceMechanism(1.0, math.inf),
        GaussianMechanism(1.0, math.inf, 1e-5),
    ):
        assert free.as_guarantee().voided
        assert free.as_guarantee().loss is None


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "known"),
    [(1e-8, 1.0, True), (1e-10, 1.0, False), (1.0, 1e-280, True), (1.0, 1e-300, False)],
)
def test_where_the_grid_counts_only_the_level_is_known(epsilon, sensitivity, known):
    certificate = RiskCertificate(
        epsilon=epsilon,
        gamma=0.0,
        risk=0.0,
        sensitivity=sensitivity,
        noise_scale=sensitivity / epsilon,
        n_records=10,
        n_outputs=1,
        calibration="declared",
        randomness="explicit",
    )
    assert (certificate.as_guarantee().loss is not None) == known


@pytest.mark.parametrize(
    "claim",
    [
        {},
        {"mechanism": "gaussian", "delta": 1e-5},
        {"mechanism": "gaussian", "delta": 1e-5, "epsilon": 2.0},
        {"mechanism": "gaussian", "gamma": 0.1, "risk": 0.1},
    ],
)
def test_noise_that_a_document_makes_up_is_not_believed(claim):
    """The law is never that of less loss than the level and delta say."""
    claim = {"epsilon": 1.0, "gamma": 0.0, "risk": 0.0} | claim
    certificate = RiskCertificate(
        sensitivity=1e-9,
        noise_scale=1.0,
        n_records=10,
        n_outputs=1,
        calibration="declared",
        randomness="explicit",
        **claim,
    )
    loss = certificate.as_guarantee().loss
    if loss.law == "laplace":
        assert loss.shift >= 1.0
    else:
        delta = gaussian_delta(claim["epsilon"] - loss.excess, loss.shift)
        risk = gaussian_loss_exceedance(claim["epsilon"] - loss.excess, loss.shift)
        # Up to a level of 1 the noise may be the textbook's, which is larger.
        assert delta >= (4e-8 if claim["epsilon"] <= 1 else 0.999e-5)
        assert risk >= claim["risk"]


@pytest.mark.parametrize(
    ("parameters", "law"),
    [
        ({}, "laplace"),
        ({"mechanism": "gaussian", "delta": 1e-5}, "gaussian"),
        ({"randomness": "both"}, None),
        ({"noise_random_state": 0}, None),
        ({"randomness": "explicit", "sensitivity": 0.1, "gamma": 0.6}, "laplace"),
    ],
)
@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_certificates_become_guarantees(parameters, law):
    public = np.random.default_rng(0).exponential(size=(200, 1))
    sampler = SensitivitySampler(np.mean, random_state=0, **parameters).fit(public)
    certificate: RiskCertificate = sampler.certificate_
    guarantee = as_guarantee(certificate)
    assert guarantee.epsilon == certificate.epsilon
    assert guarantee.delta == certificate.delta
    assert guarantee.risk == certificate.risk
    assert guarantee.randomness == certificate.randomness
    assert guarantee.relation == certificate.relation
    assert guarantee.caveats == certificate.caveats
    assert guarantee.private == certificate.private
    assert (guarantee.loss and guarantee.loss.law) == law
    if law is not None:
        ratio = guarantee.loss.shift / certificate.noise_epsilon
        assert 1 < ratio < 1 + 1e-5
