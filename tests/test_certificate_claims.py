"""Claims about several releases: their sums, words and conditions."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from certificates import certificate, minted
from hypothesis import given, settings
from hypothesis import strategies as st

from skparisk import Certificate, IncompatibleError, SensitivitySampler
from skparisk._filed import filed
from skparisk._words import LEAKS, PROVISOS, VACUOUS, void_reasons
from skparisk.core.calibrate import Target
from skparisk.core.claim import (
    Advantage,
    Assumption,
    DominatingLoss,
    Doubt,
    Leak,
    as_certificate,
    as_certificates,
    remade,
)
from skparisk.core.compose import compose_basic
from skparisk.core.laws import Gaussian
from skparisk.core.rounding import exact_sum, round_up
from skparisk.mechanisms import (
    BernsteinMechanism,
    DiscreteMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)
from skparisk.sensitivity._terms import calibrate

# Sums, words and conditions of claims about several releases


levels = st.floats(min_value=1e-300, max_value=1e300)


@settings(deadline=None, max_examples=200)
@given(st.lists(levels, max_size=20))
def test_sums_are_those_of_the_decimal_numbers_and_never_below(numbers):
    total = exact_sum(numbers)
    assert total == exact_sum(sorted(numbers))
    rounded = round_up(total)
    assert Fraction(repr(rounded)) >= total
    below = math.nextafter(rounded, -math.inf)
    assert Fraction(repr(below)) < total or not total


def test_ten_releases_at_a_tenth_are_one():
    assert round_up(exact_sum([0.1] * 10)) == 1.0
    assert round_up(exact_sum([0.1] * 3)) == 0.3


# For two neighbors, or for any two.
TWO, ANY = "For two neighboring databases: ", "For any two neighboring databases: "
LEVEL = "the release is 1-differentially private for that pair, whatever the output."
PROBABLY, FRESH = "with probability at least", "a fresh pair and the sampled pairs"
BEYOND = "the privacy loss of the release exceeds 1 with probability at most"


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (minted(0.5), f"{ANY}the release is 0.5-differentially private."),
        (
            minted(0.5, 1e-5, relation="add-remove", n_releases=2),
            "For any two databases that differ by one added or removed record: the 2 "
            "releases together are (0.5, 1e-05)-differentially private.",
        ),
        (
            minted(1.0, 0.0, 0.05, randomness="implicit"),
            f"{TWO}{PROBABLY} 0.95 over {FRESH}, {LEVEL}",
        ),
        (
            minted(1.0, 0.0, 0.05, 0.01, randomness="implicit"),
            f"{TWO}{PROBABLY} 0.95 over a fresh pair, for all but a fraction 0.01 of "
            f"the samples of pairs, {LEVEL}",
        ),
        (
            minted(1.0, 0.0, 0.05, randomness="both"),
            f"{TWO}{BEYOND} 0.05 over a fresh pair, its noise and the sampled pairs.",
        ),
        (
            minted(1.0, 0.25, 0.5, randomness="both", n_releases=2),
            f"{TWO}the 2 releases together are (1, 0.75)-differentially private, on "
            f"average over {FRESH}.",
        ),
        (
            minted(1.0, 0.0, 0.5, randomness="explicit"),
            f"{ANY}{BEYOND} 0.5 over the noise.",
        ),
        (
            minted(1.0, 0.0, 0.5, randomness="both", post_processed=True),
            f"{TWO}the release is (1, 0.5)-differentially private, on average over "
            f"{FRESH}.",
        ),
        (
            minted(1.0, 0.0, 0.0, 0.1, randomness="implicit"),
            f"{TWO}{PROBABLY} 1 over a fresh pair, for all but a fraction 0.1 of the "
            f"samples of pairs, {LEVEL}",
        ),
        (
            minted(1.0, 0.0, 0.5, 0.1, randomness="explicit"),
            f"{ANY}{BEYOND} 0.5 over the noise, for all but a fraction 0.1 of the "
            "samples of pairs.",
        ),
        (
            minted(1.0, 0.25, 0.5, randomness="explicit"),
            f"{ANY}the release is (1, 0.75)-differentially private.",
        ),
    ],
)
def test_the_claim_in_words(given_, words):
    assert given_.guarantee == words
    assert str(given_).startswith(words)
    assert words in given_._repr_html_()
    assert given_.private
    assert given_.confidence == 1 - given_.risk


def test_what_voids_or_leaks_is_told_first():
    infinite = minted(math.inf)
    assert infinite.void
    assert "no noise was added" in infinite.guarantee
    codes = {"leaks": [Leak.CHOSEN], "assumptions": [Assumption.GIVEN_SHAPE]}
    leaking = minted(1.0, **codes)
    assert not leaking.private
    assert not leaking.void
    assert leaking.guarantee.endswith("not cover what was released without noise.")
    said = LEAKS[Leak.CHOSEN], PROVISOS[Assumption.GIVEN_SHAPE]
    assert str(leaking).endswith("Caveat: {}\nCaveat: {}".format(*said))
    assert all(text in leaking._repr_html_() for text in said)
    other = infinite.weaken(leaks=[Leak.SEEDED_DRAW])
    assert other.guarantee == f"There is no guarantee. {LEAKS[Leak.SEEDED_DRAW]}"


@pytest.mark.parametrize("leak", Leak)
def test_a_leak_is_never_private(leak):
    """And some of them leave no guarantee at all."""
    leaking = minted(0.5, leaks=[leak])
    assert not leaking.private
    assert leaking.void is leak.voids is (LEAKS[leak] in void_reasons(leaking))
    assert leaking.caveats == (LEAKS[leak],)
    assert {each for each in Leak if each.voids} == {
        Leak.SEEDED_NOISE,
        Leak.SEEDED_DRAW,
    }


@pytest.mark.parametrize("kind", [Leak, Assumption, Doubt])
def test_each_code_is_in_words(kind):
    """In one table each, and with a sentence or a condition of its own."""
    name = {Leak: "leaks", Assumption: "assumptions", Doubt: "doubts"}[kind]
    plain = minted(0.5)
    said = set()
    for code in kind:
        marked = minted(0.5, **{name: [code]})
        found = marked.caveats + marked.conditions
        assert found
        assert all(text in str(marked) for text in found)
        assert marked.to_dict()[name] == [str(code)]
        said.add(found)
    assert len(said) == len(kind)
    assert plain.caveats == plain.conditions == ()


def test_conditions_are_those_of_the_rule():
    alone = minted(1.0, 0.0, 0.1)
    assert minted(1.0).conditions == ()
    (public,) = alone.conditions
    assert public.startswith("the reference that neighboring databases were sampled")
    several = minted(1.0, 0.0, 0.1, n_releases=2, method="exact")
    assert len(several.conditions) == 4
    assert all(text in str(several) for text in several.conditions)
    every_pair = minted(
        1.0, 0.0, 0.1, n_releases=2, randomness="explicit", method="basic"
    )
    assert every_pair.conditions[0].startswith("each release sees a person's record")
    assert every_pair.conditions[1:] == (
        "the levels, or a limit on their sum, were fixed before the first release",
    )
    filtered = minted(1.0, n_releases=2, method="filter")
    assert "that limit is what all releases" in filtered.conditions[1]
    parallel = remade(alone, method="parallel").conditions
    assert "disjoint" in parallel[1]
    assert "sampled for that part alone" in parallel[2]


def test_risks_add_and_failures_of_samples_are_kept_apart_where_they_can_be():
    pac = minted(1.0, 0.0, 0.05, 0.01, randomness="implicit")
    average = minted(1.0, 0.0, 0.1, randomness="implicit")
    noise = minted(1.0, 0.0, 0.2, randomness="explicit")
    certain = minted(1.0)
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
    one, other = (minted(1.0, relation=name) for name in ("replace-one", "add-remove"))
    assert compose_basic([one, minted(1.0)]).relation == "replace-one"
    with pytest.raises(IncompatibleError, match=r"'add-remove', 'replace-one'"):
        compose_basic([one, other])


def test_numbers_are_rounded_up():
    assert minted(Fraction(1, 10**400)).epsilon == 5e-324
    third = minted(Fraction(1, 3)).epsilon
    assert third > Fraction(1, 3)
    assert compose_basic([minted(1.0, 0, Fraction(1, 3))] * 3).risk == 1.0
    assert minted(10**400).epsilon == math.inf
    long = np.longdouble(1) / 3
    assert minted(long).epsilon >= long


def test_what_others_call_a_certificate_is_checked():
    class Other:
        def __init__(self, says):
            self.as_certificate = lambda: says

    class Forged(Certificate):
        def __init__(self, level):
            vars(self)["epsilon"] = level

    assert as_certificate(Other(minted(0.9))) == minted(0.9)
    for wrong in ([0.9], 0.9, None, Forged(0.9), filed(minted(0.9))):
        with pytest.raises(
            ValueError, match="as_certificate must return a Certificate"
        ):
            as_certificate(Other(wrong))
    with pytest.raises(ValueError, match="a release must be a certificate"):
        as_certificate(filed(minted(0.9)))


def test_plain_numbers_are_releases():
    word = {"assumptions": [Assumption.DECLARED_LEVEL], "unit": None}
    assert as_certificate(0.5) == minted(0.5, **word)
    assert as_certificate((0.5, 1e-5, 0.1)) == minted(0.5, 1e-5, 0.1, **word)
    assert as_certificates([0.5, (1.0, 0.1)])[1] == minted(1.0, 0.1, **word)
    assert "were given as plain numbers" in as_certificate(0.5).conditions[0]
    for wrong in ("0.5", (), (1, 2, 3, 4), None, (0.5, "0"), True):
        with pytest.raises(ValueError, match="a release must be"):
            as_certificate(wrong)
    for wrong in ("0.5", 0.5, {"epsilon": 1}):
        with pytest.raises(ValueError, match="releases must be a list"):
            as_certificates(wrong)


def test_mechanisms_say_what_they_guarantee():
    laplace = LaplaceMechanism(1.0, 0.5, 3).as_certificate()
    assert (laplace.epsilon, laplace.delta, laplace.loss.law.name) == (
        0.5,
        0.0,
        "laplace",
    )
    assert laplace.loss.shift + laplace.loss.excess == pytest.approx(0.5, rel=1e-8)
    assert laplace.loss.shift == 0.5
    gaussian = GaussianMechanism(1.0, 0.5, 1e-5, 3).as_certificate()
    assert (gaussian.epsilon, gaussian.delta) == (0.5, 1e-5)
    loss = gaussian.loss
    delta = Gaussian().profile(0.5 - loss.excess, loss.shift)
    assert 1e-5 * (1 - 1e-4) <= delta <= 1e-5 * (1 + 1e-3)
    choice = ExponentialMechanism(1.0, 0.5).as_certificate()
    assert choice == minted(0.5, assumptions=[Assumption.DECLARED_SENSITIVITY])
    for declared in (laplace, gaussian, choice):
        assert declared.guarantee.endswith("the declared sensitivity is a true bound.")
    response = RandomizedResponse(epsilon=0.5)
    assert as_certificate(response).epsilon == response.epsilon
    coin = DiscreteMechanism([[0.75, 0.25], [0.25, 0.75]])
    assert as_certificate(coin).epsilon == pytest.approx(math.log(3))
    bernstein = BernsteinMechanism(1.0, 0.5, lattice_size=2)
    assert as_certificate(bernstein).epsilon == 0.5
    assert Assumption.DECLARED_SENSITIVITY in as_certificate(bernstein).assumptions
    for free in (
        LaplaceMechanism(1.0, math.inf),
        GaussianMechanism(1.0, math.inf, 1e-5),
    ):
        assert free.as_certificate().void
        assert free.as_certificate().loss is None


@pytest.mark.parametrize(
    ("parameters", "law"),
    [
        ({}, "laplace"),
        ({"law": "gaussian", "delta": 1e-5}, "gaussian"),
        ({"randomness": "both"}, None),
        ({"noise_random_state": 0}, "laplace"),
    ],
)
@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_certificates_are_what_composition_takes(parameters, law):
    public = np.random.default_rng(0).exponential(size=(200, 1))
    sampler = SensitivitySampler(np.mean, random_state=0, **parameters).fit(public)
    given_ = sampler.certificate_
    assert as_certificate(given_) is given_ is given_.as_certificate()
    assert (given_.loss and given_.loss.law.name) == law
    if law is not None:
        ratio = given_.loss.shift / given_.noise_epsilon
        assert 1 < ratio < 1 + 1e-5


def test_a_certificate_is_weakened_and_never_improved():
    """Codes are added; levels only grow, and what is known of less goes."""
    base = certificate(
        leaks=[Leak.CHOSEN],
        loss=DominatingLoss("laplace", 1.0, 1e-6),
        advantage=Advantage(0.1, 0.4, 0.05),
    )
    more = base.weaken(
        leaks=[Leak.CHOSEN, Leak.LEARNS_MORE],
        doubts=[Doubt.OUTLIER],
        assumptions=[Assumption.FROZEN_PARTS],
        relation="replace-one",
        for_new_people="not known",
    )
    assert more.leaks == {Leak.CHOSEN, Leak.LEARNS_MORE}
    assert more.doubts == {Doubt.OUTLIER}
    assert more.assumptions == base.assumptions | {Assumption.FROZEN_PARTS}
    assert more.evidence.for_new_people == "not known"
    assert more.loss == base.loss
    assert base.weaken() == base
    for epsilon in (0.6, 2.0):
        larger = base.weaken(epsilon=epsilon)
        assert (larger.epsilon, larger.delta) == (max(1.0, epsilon), base.delta)
        assert (larger.risk, larger.loss) == (base.risk, None)
        levels = np.maximum(base.points()[0], epsilon)
        np.testing.assert_array_equal(larger.points()[0], levels)
        gain = minted(epsilon).advantage
        assert larger.evidence.advantage.mean >= gain.mean
        assert larger.advantage.quantile == max(0.4, gain.quantile)
    for wrong in ("add-remove", "swap"):
        with pytest.raises(ValueError, match="relation must be 'replace-one', as it"):
            base.weaken(relation=wrong)
    with pytest.raises(ValueError, match="'made-up' is not a valid Leak"):
        base.weaken(leaks=["made-up"])


def test_what_is_told_of_a_release_without_its_evidence():
    base = certificate(leaks=[Leak.CHOSEN])
    bare = base.without_evidence()
    assert bare == remade(base, evidence=None)
    assert bare.leaks == base.leaks
    assert bare.assumptions == base.assumptions


@pytest.mark.parametrize(
    ("plan", "is_known"),
    [
        ({"epsilon": 1e-8}, True),
        ({"epsilon": 1e-8, "law": "gaussian", "delta": 1e-5}, True),
        ({"epsilon": 1e-6, "law": "gaussian", "delta": 1e-5, "k": 10_000}, False),
        ({"size": 1e-280}, True),
        ({"size": 1e-300}, False),
    ],
)
def test_where_the_grid_counts_only_the_level_is_known(plan, is_known):
    """Of noise on a coarse grid, no law of the loss is claimed."""
    plan = {"epsilon": 1.0, "size": 1.0, "law": "laplace", "delta": 0.0, "k": 1} | plan
    _, claim = calibrate(
        np.full((99, plan["k"]), plan["size"]),
        Target(plan["epsilon"], delta=plan["delta"]),
        law=plan["law"],
        n_records=10,
    )
    assert (claim.loss is not None) == is_known


# What attacks found


def test_the_probability_that_it_fails_is_in_the_words_of_every_claim():
    """Over the noise alone there are no samples to set apart; it adds to delta."""
    given_ = minted(0.5, 0.1, 0.2, 0.3, randomness="explicit")
    assert "the release is (0.5, 0.6)-differentially private" in given_.guarantee
    assert "(0.5, 0.6)-differentially private" in str(given_).partition("table")[0]
    tiny = minted(0.5, 1e-18, 0.05, randomness="explicit")
    assert "(0.5, 0.051)-differentially private" in tiny.guarantee


@pytest.mark.parametrize(
    "numbers",
    [
        {"risk": 1.0},
        {"delta": 1.0},
        {"failure_prob": 1.0},
        {"risk": 0.6, "failure_prob": 0.4},
        {"risk": 0.6, "delta": 0.4, "randomness": "both"},
        {"delta": 0.5, "failure_prob": 0.5, "randomness": "explicit"},
    ],
)
def test_what_adds_up_to_certainty_is_no_guarantee(numbers):
    """As if one of them were 1."""
    given_ = minted(0.5, **({"randomness": "implicit"} | numbers))
    assert void_reasons(given_) == (VACUOUS,)
    assert given_.guarantee.startswith("There is no guarantee. Risk and delta add")
    least = {name: x - 0.01 for name, x in numbers.items() if isinstance(x, float)}
    assert remade(given_, **least).private


def test_the_confidence_does_not_depend_on_the_decimals_of_the_caller():
    """It is never rounded up."""
    given_ = minted(0.5, risk=0.004, randomness="implicit")
    with decimal.localcontext() as context:
        context.prec = 2
        assert "with probability at least 0.996 over" in given_.guarantee
    tiny = minted(0.5, risk=1e-30, randomness="implicit")
    assert f"at least 0.{'9' * 30} over" in tiny.guarantee
