"""The certificate says what holds, no more, and at which levels."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from certificate_cases import AUDIT, CASES, PAC, assert_plain, both, known
from certificates import CURVE, certificate, filed
from hypothesis import given, settings
from hypothesis import strategies as st

from skparisk import Certificate, FiledCertificate
from skparisk.core import words
from skparisk.core.calibrate import Exchangeable, Target
from skparisk.core.claim import (
    Advantage,
    Assumption,
    DominatingLoss,
    Doubt,
    Evidence,
    Leak,
    Method,
    Population,
    Scope,
    Unit,
    claim_with_audit,
    mint,
    over_private_records,
)
from skparisk.core.compose import compose_basic
from skparisk.core.rounding import ceil_text
from skparisk.mechanisms import Exponential

LEAKS, NO_NOISE, PROVISOS = words().LEAKS, words().NO_NOISE, words().PROVISOS

derandomized = settings(derandomize=True, deadline=None, max_examples=200)

# The object


def test_certificate_is_a_frozen_value():
    """It cannot be changed; copies are equal, hashable and picklable."""
    for given_ in CASES.values():
        with pytest.raises(dataclasses.FrozenInstanceError):
            given_.risk = 0.0
        for other in (pickle.loads(pickle.dumps(given_)), copy.deepcopy(given_)):
            assert other == given_
            assert hash(other) == hash(given_)
        assert len({*CASES.values()}) == len(CASES)


def test_nobody_makes_one_by_hand():
    """Nor another one of one that was made; what is filed is no certificate."""
    made = certificate()
    fields = {item.name: getattr(made, item.name) for item in dataclasses.fields(made)}
    for make in (
        lambda: Certificate(1.0),
        lambda: Certificate(**fields),
        lambda: Certificate(**fields, mint=object()),
        lambda: dataclasses.replace(made, epsilon=0.5),
        lambda: dataclasses.replace(made),
    ):
        with pytest.raises(TypeError, match="made by a release or by composition"):
            make()
    assert FiledCertificate(**fields) == filed(made) != made
    assert not hasattr(filed(made), "as_certificate")


def test_called_twice_the_same():
    """All that it says is the same each time."""
    for given_ in CASES.values():
        assert str(given_) == str(given_)
        assert given_._repr_html_() == given_._repr_html_()
        assert given_.to_dict() == given_.to_dict()


@pytest.mark.parametrize("kind", [Certificate, Evidence, DominatingLoss])
def test_every_field_is_documented(kind):
    """The docstring names each parameter."""
    title = "Attributes" if kind is Certificate else "Parameters"
    text = kind.__doc__.partition(title)[2]
    for item in dataclasses.fields(kind):
        assert item.name in text


def test_derived_numbers():
    """Confidence and noise level follow from the fields."""
    assert certificate().confidence == 1 - 0.049967
    assert certificate(noise_scale=0.5).noise_epsilon == 0.5
    assert CASES["no noise"].noise_epsilon == math.inf
    with pytest.raises(AttributeError, match="no evidence of a single release"):
        _ = CASES["several"].noise_epsilon


def test_numpy_numbers_become_plain():
    """NumPy's own numbers compare equal, and leave as Python's."""
    numpy = certificate(
        epsilon=np.float64(1), risk=np.float32(0.5), curve=np.array(CURVE)
    )
    assert numpy == certificate(risk=0.5)
    assert_plain(numpy.to_dict())
    assert hash(numpy) == hash(certificate(risk=0.5))


def test_codes_are_members_and_numbers_are_pythons_own():
    """Also where they were given as texts, or numbers of NumPy."""
    made = mint(
        epsilon=1.0,
        risk=0.1,
        randomness="implicit",
        unit="person",
        method="basic",
        n_releases=np.int64(2),
    )
    assert made.randomness is Scope.PAIR
    assert made.unit is Unit.PERSON
    assert made.method is Method.BASIC
    assert type(made.n_releases) is int
    assert type(Target(0, advantage=0.1, randomness="both").epsilon) is float


def test_a_weaker_level_leaves_the_risks_of_larger_ones():
    weaker = certificate().weaken(epsilon=1.2)
    assert (weaker.risk_at(1.2), weaker.risk_at(1.5)) == (0.049967, 0.01)
    assert weaker.risk_at(1.1) == 1


def test_an_audit_that_contradicts_adds_a_doubt_to_others():
    declared = certificate(population=Population.DECLARED, doubts=[Doubt.MADE_UP])
    audited = claim_with_audit(declared, CONTRADICTED)
    assert audited.doubts == {Doubt.MADE_UP, Doubt.CONTRADICTED}


@pytest.mark.parametrize("n_candidates", [None, 2000])
def test_claims_over_private_records_say_nothing_that_is_measured_on_them(n_candidates):
    """Of a secret draw, an advantage was asked for and not measured."""
    gain = Advantage(0.1, 0.35, 0.05)
    claim = over_private_records(
        certificate(advantage=gain, for_new_people="unknown"),
        reference="the private records",
        n_candidates=n_candidates,
        leaks=[] if n_candidates else [Leak.PRIVATE_REFERENCE],
        curve=np.array(CURVE),
    )
    found, secret = claim.evidence, n_candidates is not None
    assert found.advantage == (gain if secret else None)
    assert found.population == Population("candidates" if secret else "private")
    assert found.reference == "the private records"
    assert found.for_new_people is found.n_unanswered is None
    np.testing.assert_array_equal(found.curve, CURVE)
    assert claim.private == secret


def test_what_follows_from_a_secret_draw_is_no_public_reference():
    """Nor where composition has left the numbers behind it out."""
    secret = certificate(population=Population.CANDIDATES, n_candidates=2000)
    for claim in (secret, compose_basic([secret])):
        assert Assumption.SECRET_DRAW in claim.assumptions
        assert Assumption.PUBLIC_REFERENCE not in claim.assumptions


def test_what_makes_no_certificate_is_refused():
    """A value out of its range, or parts that do not fit, are refused by name."""
    for changes, message in [
        ({"epsilon": -1.0}, r"epsilon must be a number in \[0, inf\], got -1\.0"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"gamma": -0.1}, r"gamma must be a number in \[0, 1\], got -0\.1"),
        ({"gamma": True}, "gamma must be a number"),
        ({"risk": 1.1}, r"risk must be a number in \[0, 1\], got 1\.1"),
        ({"risk": math.nan}, "risk must be a number"),
        ({"risk": None}, "risk must be a number"),
        ({"delta": 2}, "delta must be a number"),
        ({"failure_prob": 2}, "failure_prob must be a number"),
        ({"sensitivity": -1}, r"sensitivity must be a number in \[0, inf\], got -1"),
        ({"noise_scale": -1}, "noise_scale must be a number"),
        ({"noise_scale": 0}, "noise_scale must be above 0 with a finite epsilon"),
        ({"n_records": 0}, "n_records must be a whole number >= 1, got 0"),
        ({"n_outputs": 1.5}, "n_outputs must be a whole number"),
        ({"calibration": ""}, "calibration must be one of 'exchangeable', .*; got ''"),
        ({"calibration": ["pac"]}, r"calibration must be one of .*; got \['pac'\]"),
        ({"calibration": "own"}, "calibration must be one of .*; got 'own'"),
        ({"calibration": "bound"}, "calibration must be one of .* for a known sens"),
        ({"calibration": "pac"}, "failure_prob must be above 0 with calibration='p"),
        ({"relation": "swap"}, "relation must be one of 'replace-one', 'add-remove'"),
        ({"randomness": "all"}, "'all' is not a valid Scope"),
        ({"randomness": "explicit"}, "n_pairs must be given unless randomness='expl"),
        ({"n_unanswered": -1}, "n_unanswered must be a whole number >= 0"),
        (
            {"law": "cauchy", "norm": "l3"},
            "norm must be one of 'l1', 'l2', 'sup', 'trace'; got",
        ),
        ({"law": ""}, "law must be a name, got ''"),
        ({"norm": "l2"}, "norm must be 'l1' with law='laplace', got 'l2'"),
        ({"law": "gaussian"}, "delta must be above 0 for gaussian noise"),
        ({"law": "exponential", "delta": 0.1}, "law='exponential' has no"),
        ({"noise_shape": None}, "noise_shape must be a name, got None"),
        (
            {"noise_shape": "whitened", "n_shape_pairs": 0},
            "n_shape_pairs must be a whole number",
        ),
        ({"n_shape_pairs": 5}, "n_shape_pairs must be None with noise_shape='isotr"),
        ({"n_pairs": None}, "order_index must be None without n_pairs"),
        ({"order_index": None}, "order_index must be given unless randomness='both'"),
        ({"order_index": 0}, "order_index must be a whole number >= 1, got 0"),
        ({"order_index": 1501}, "order_index must be at most 1500, got 1501"),
        ({"method": ""}, "'' is not a valid Method"),
        ({"n_releases": -1}, "n_releases must be a whole number >= 0"),
        ({"leaks": "chosen"}, "'c' is not a valid Leak"),
        ({"leaks": ["made-up"]}, "'made-up' is not a valid Leak"),
        ({"doubts": [1]}, "1 is not a valid Doubt"),
        ({"assumptions": [""]}, "'' is not a valid Assumption"),
        ({"population": "us"}, "'us' is not a valid Population"),
        ({"n_candidates": 2000}, "n_candidates must be given if population is 'cand"),
        ({"population": "candidates"}, "n_candidates must be given if population"),
        ({"margin": 0.5}, "margin must be at least 1, got 0.5"),
        ({"n_constant": 99, "n_outputs": 99}, "n_constant must be below n_outputs=99"),
        ({"curve": ((1, 2),)}, r"curve must have levels in \[0, inf\] and risks"),
        ({"curve": ((-1, 0.5),)}, r"curve must have levels in \[0, inf\] and risks"),
        ({"curve": (1.0, 0.5)}, r"curve must be of shape \(n_points, 2\), got \(2,\)"),
        ({"curve": np.empty((0, 2))}, r"curve must be of shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            filed(certificate(**changes))


def test_order_index_without_pairs_is_refused():
    """A known sensitivity has no order statistic."""
    with pytest.raises(ValueError, match="must be None without n_pairs"):
        filed(known("declared", order_index=3))


def test_what_is_no_risk_over_pairs_and_noise_is_refused():
    """A claim over both sources has no delta, and an order statistic or an average."""
    for changes, message in [
        ({"delta": 1e-6}, "delta must be 0 with randomness='both', got 1e-06"),
        ({"order_index": None}, "order_index must be given with law='laplace' unless"),
        ({"law": "exponential"}, "law='exponential' has no delta, .*='both'"),
        *(
            (
                {"order_index": None, "law": "gaussian", "calibration": rule},
                "order_index must be given unless .* calibration='exchangeable'",
            )
            for rule in ("pac", "dkw")
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            filed(both(**changes))


def test_a_known_sensitivity_has_a_risk_or_a_delta():
    """Not both, and one of them for noise without a bounded loss."""
    with pytest.raises(ValueError, match="gamma must be 0 with a delta"):
        filed(known(delta=1e-6, gamma=0.05))
    with pytest.raises(ValueError, match="delta must be above 0 for gaussian noise"):
        filed(known(law="gaussian"))
    with pytest.raises(ValueError, match=r"calibration must be one of .* got 'pac'"):
        filed(known("pac"))
    assert filed(known(law="gaussian", delta=1e-6, noise_scale=1.25)).private


def test_evidence_and_loss_have_their_types():
    """Nothing that only looks like them is taken."""
    with pytest.raises(ValueError, match="evidence must be None or Evidence, got 3"):
        FiledCertificate(1.0, evidence=3)
    with pytest.raises(ValueError, match="loss must be None or a DominatingLoss"):
        FiledCertificate(1.0, loss=0.5)
    for wrong in ("", 3, "logistic"):
        with pytest.raises(ValueError, match="law must be one of"):
            DominatingLoss(wrong, 1.0)
    with pytest.raises(ValueError, match="law must say how it composes"):
        DominatingLoss(Exponential(), 1.0)
    with pytest.raises(ValueError, match="shift must be a finite number, got inf"):
        DominatingLoss("laplace", math.inf)
    with pytest.raises(ValueError, match=r"excess must be a number in \[0, inf\]"):
        DominatingLoss("laplace", 1.0, -1.0)


def test_a_level_is_not_above_the_largest_loss():
    """A law that never reaches the level would contradict it."""
    with pytest.raises(ValueError, match="must be at most the largest loss"):
        FiledCertificate(1.0, loss=DominatingLoss("laplace", 0.5, 0.1))
    FiledCertificate(1.0, 1e-5, loss=DominatingLoss("gaussian", 0.01))


# What it guarantees, and what voids it


def test_caveats():
    """Each defect has its caveat; secret noise, proof and reference make it private."""
    for case, caveats, private, void in [
        ("exchangeable", (), True, False),
        ("dkw", (), True, False),
        ("pac", (), True, False),
        ("bound", (), True, False),
        ("approximate", (), True, False),
        ("declared", (PROVISOS[Assumption.DECLARED_SENSITIVITY],), True, False),
        ("private reference", (LEAKS[Leak.PRIVATE_REFERENCE],), False, False),
        ("private classes", (LEAKS[Leak.PRIVATE_CLASSES],), False, False),
        ("private classes, bound", (LEAKS[Leak.PRIVATE_CLASSES],), False, False),
        ("seeded", (LEAKS[Leak.SEEDED_NOISE],), False, True),
        ("no noise", (NO_NOISE,), False, True),
    ]:
        given_ = CASES[case]
        assert given_.caveats == caveats
        assert given_.private is private
        assert given_.guarantee.startswith("There is no guarantee. ") is void
        assert given_.void is void
        if void:
            assert given_.guarantee == f"There is no guarantee. {caveats[0]}"
            assert "differentially private" not in given_.guarantee


def test_caveats_add_up():
    """All defects are named together, the worst first."""
    worst = certificate(
        epsilon=math.inf,
        leaks=[Leak.PRIVATE_CLASSES, Leak.PRIVATE_REFERENCE, Leak.SEEDED_NOISE],
    )
    assert worst.seeded
    assert worst.reference_is_private
    assert worst.caveats == (
        LEAKS[Leak.SEEDED_NOISE],
        NO_NOISE,
        LEAKS[Leak.PRIVATE_REFERENCE],
        LEAKS[Leak.PRIVATE_CLASSES],
    )
    assert not worst.private
    assert all(f"Caveat: {text}" in str(worst) for text in worst.caveats)


def test_guarantee_over_pairs():
    """The claim names relation, records, reference, confidence and level."""
    assert certificate().guarantee == (
        "For two databases that differ in one record (900 records, the public "
        "table): with probability at least 0.95 over a fresh pair and the "
        "sampled pairs, the release is 1-differentially private for that pair, "
        "whatever the output."
    )
    assert CASES["dkw"].guarantee == certificate().guarantee
    assert "differ by one added or removed record (900" in (
        CASES["add-remove"].guarantee
    )
    pac = CASES["pac"].guarantee
    assert (
        "over a fresh pair, for all but a fraction 0.05 of the samples of pairs" in pac
    )


def test_guarantee_of_a_known_sensitivity():
    """Without sampling the claim is for all neighbors, and says on what it rests."""
    assert known().guarantee == (
        "For any two databases that differ in one record (900 records): the release "
        "is 1-differentially private."
    )
    assert "(1 record):" in known(n_records=1).guarantee
    declared = CASES["declared"].guarantee
    assert declared.endswith("provided that the declared sensitivity is a true bound.")


def test_guarantee_is_for_neighbors_with_the_same_classes_where_these_are_private():
    """Others differ in the classes, which are released without noise."""
    assert CASES["private classes, bound"].guarantee.startswith(
        "For any two databases that differ in one record and have the same classes "
        "(900 records): the release is 1-differentially private"
    )
    assert CASES["private classes"].guarantee.startswith(
        "For two databases that differ in one record and have the same classes (900 "
        "records, the public table): with probability"
    )
    assert "classes" not in certificate().guarantee


def test_guarantee_names_delta():
    """A relaxed claim is not written as a pure one."""
    assert "is (1, 1e-06)-differentially private" in CASES["approximate"].guarantee
    assert "is (1, 1e-06)-diff" in known(delta=1e-6).guarantee


@derandomized
@given(risk=st.floats(1e-9, 0.999), epsilon=st.floats(1e-6, 1e6))
def test_printed_numbers_are_on_the_safe_side(risk, epsilon):
    """The printed risk and level are not below the true ones, and close to them."""
    given_ = certificate(
        risk=risk,
        epsilon=epsilon,
        noise_scale=0.25 / epsilon,
        n_pairs=10**9,
        order_index=10**9,
        curve=None,
    )
    lines = dict(line.strip().split(": ", 1) for line in str(given_).splitlines()[1:])
    printed = float(lines["risk"].split()[0])
    assert risk <= printed <= risk * (1 + 1e-5)
    level = float(lines["privacy level epsilon"])
    assert epsilon <= level <= epsilon * (1 + 1e-5)
    words = given_.guarantee.partition("at least ")[2].partition(" over")[0]
    assert 1 - 1.1 * risk - 1e-15 <= float(words) <= 1 - risk + 1e-15
    claimed = given_.guarantee.partition("release is ")[2].partition("-diff")[0]
    assert epsilon <= float(claimed) <= epsilon * 1.01


# Risks at other levels


def test_risk_at_with_a_curve():
    """The best certified point at or below the level counts."""
    given_ = certificate()
    levels = [0.4, 0.5, 0.79, 0.8, 0.999, 1.0, 1.4, 1.5, 100, math.inf]
    expected = [1, 0.4, 0.4, 0.2, 0.2, 0.049967, 0.049967, 0.01, 0.01, 0.01]
    assert [given_.risk_at(level) for level in levels] == expected


def test_epsilon_at_with_a_curve():
    """The least certified level at or below the risk counts."""
    given_ = certificate()
    gammas = [0.001, 0.01, 0.04, 0.049967, 0.05, 0.1, 0.2, 0.4, 0.99]
    expected = [math.inf, 1.5, 1.5, 1, 1, 1, 0.8, 0.5, 0.5]
    assert [given_.epsilon_at(gamma) for gamma in gammas] == expected


@pytest.mark.parametrize(
    "given_", [certificate(curve=None), known()], ids=["m", "known"]
)
def test_other_levels_without_a_curve(given_):
    """Only what is released is certified."""
    assert given_.risk_at(1.0) == given_.risk_at(math.inf) == given_.risk
    assert given_.risk_at(math.nextafter(1, 0)) == 1
    assert given_.epsilon_at(0.5) == 1
    assert given_.epsilon_at(1e-9) == (1 if given_.risk == 0 else math.inf)


@derandomized
@given(
    losses=st.lists(st.floats(0.005, 5), min_size=1, max_size=30),
    level=st.floats(0.01, 6),
    gamma=st.floats(0.01, 0.99),
    share=st.floats(0, 1),
)
def test_other_levels_are_the_sample_read_backwards(losses, level, gamma, share):
    """On a full curve, risk_at counts the sampled losses, and all is monotone."""
    rule, m, order = Exchangeable(), len(losses), sorted(losses)
    index = max(1, round(share * m))
    risk = rule.certify_risk(m, index)
    epsilon = order[index - 1]
    curve = tuple((loss, rule.certify_risk(m, k + 1)) for k, loss in enumerate(order))
    given_ = certificate(
        epsilon=epsilon,
        risk=risk,
        noise_scale=0.25 / epsilon,
        n_pairs=m,
        order_index=index,
        curve=curve,
    )
    assert given_.risk_at(epsilon) <= risk
    within = sum(loss <= level for loss in losses)
    assert given_.risk_at(level) == (rule.certify_risk(m, within) if within else 1)
    assert given_.risk_at(level) >= given_.risk_at(2 * level)
    assert given_.epsilon_at(gamma) >= given_.epsilon_at((1 + gamma) / 2)
    if given_.epsilon_at(gamma) > 0:
        assert given_.risk_at(given_.epsilon_at(gamma)) <= max(gamma, risk)
    if 0 < given_.risk_at(level) < 1:
        assert given_.epsilon_at(given_.risk_at(level)) <= level


def test_bad_levels_and_risks_are_refused():
    """Levels outside (0, inf] and risks outside (0, 1) are refused by name."""
    for value in [0, -1, math.nan, True, "1", None]:
        with pytest.raises(
            ValueError, match=r"^epsilon must be a number in \(0, inf\]"
        ):
            certificate().risk_at(value)
        with pytest.raises(
            ValueError, match=r"^gamma must be a number in \(0, 1\), got"
        ):
            certificate().epsilon_at(value)


# What contradicts its own evidence


GROUPS = {"n_pairs": 1600, "n_neighbors": 16, "order_index": 1519}
EXACT = {
    "law": "gaussian",
    "order_index": None,
    "curve": [(1.0, 0.0195)],
    "advantage": Advantage(0.1, 0.4, 0.05),
}
OWN_LAW = {"law": "own", "assumptions": [Assumption.GIVEN_NOISE]}
CONTRADICTIONS = [
    # The hard level of noise that is bounded.
    (certificate, {"epsilon": 0.99}, "epsilon=0.99 takes a delta of at least 0.004"),
    (certificate, {"sensitivity": math.inf}, "takes a delta of at least 1"),
    (certificate, {"law": "exponential", "epsilon": 0.99}, "takes a delta"),
    (known, {"epsilon": 0.99}, "takes a delta of at least"),
    (known, {"law": "wishart", "norm": "trace", "epsilon": 0.99}, "takes a delta"),
    # A delta.
    (certificate, {"epsilon": 0.99, "delta": 0.004}, "takes a delta of at least"),
    (certificate, {"law": "gaussian", "delta": 0.126}, "of at least 0.126937"),
    (known, {"law": "gaussian", "delta": 0.126}, "of at least 0.126937"),
    # A risk over the noise.
    (
        known,
        {"law": "gaussian", "risk": 0.308, "gamma": 0.308},
        r"risk must be at least 0\.308538",
    ),
    (known, {"epsilon": 0.5, "risk": 0.61, "n_outputs": 1}, "at least 0.6106"),
    (known, {"sensitivity": math.inf, "risk": 0.9}, "risk must be at least 1"),
    (
        known,
        {"law": "wishart", "norm": "trace", "epsilon": 0.5, "risk": 0.6, "gamma": 0.6},
        "risk must be at least 1",
    ),
    # A risk over pairs.
    (certificate, {"risk": 0.0499666}, r"risk must be at least 0\.0499667"),
    (certificate, {"risk": 0.0499666, "calibration": "dkw"}, "risk must be at least"),
    (both, {"risk": 0.0499666}, "risk must be at least"),
    (certificate, GROUPS | {"risk": 0.0599}, "risk must be at least 0.0600248"),
    (certificate, PAC | {"order_index": 1439}, "is exceeded by the 1439-th of 1500"),
    (both, PAC | {"order_index": 1439}, "is exceeded by the 1439-th of 1500 pairs"),
    (certificate, PAC | {"failure_prob": 0.03}, "and failure_prob is 0.03"),
    (certificate, {"n_unanswered": 75}, "order_index must be at most 1425"),
    (
        both,
        {"law": "gaussian", "order_index": None, "n_unanswered": 75},
        "risk must be at least 0.050633",
    ),
    # Other levels.
    (both, {"epsilon": 0.8, "curve": [(1.0, 0.0507)]}, "and of 0.8 it has none.$"),
    (both, {"curve": None}, "and of 1.0 it has none.$"),
    (both, {"curve": [(0.4, 0.4), (1.0, 0.0522)]}, "most 0.051.* 1.0 it has 0.0522"),
    # More releases than one.
    (certificate, {"n_releases": 2}, "evidence must be None unless n_releases is"),
]


def test_a_claim_against_its_own_evidence_is_refused():
    """By the class, and so from a document; unless it claims nothing."""
    for make, changes, message in CONTRADICTIONS:
        with pytest.raises(ValueError, match=message):
            filed(make(**changes))
        if "n_releases" not in changes:
            void = filed(make(**changes, leaks=[Leak.SEEDED_NOISE]))
            assert void.void
            document = void.to_dict(curve=True) | {"leaks": []}
            with pytest.raises(ValueError, match=message):
                FiledCertificate.from_dict(document | {"version": "0", "private": True})


def test_what_the_evidence_carries_is_claimed():
    """At the numbers themselves, rounded as they are here."""
    for make, changes in [
        (certificate, {"epsilon": 0.99, "delta": 0.005}),
        (certificate, {"law": "exponential"}),
        (certificate, {"law": "gaussian", "delta": 0.12694}),
        (known, {"law": "gaussian", "risk": 0.30854, "gamma": 0.30854}),
        (known, {"epsilon": 0.5, "risk": 0.6107, "n_outputs": 1}),
        (both, EXACT | {"risk": 0.0195}),
        (certificate, {"risk": 0.0499667}),
        (certificate, GROUPS | {"risk": 0.06003}),
        (certificate, PAC),
        (certificate, {"n_unanswered": 74}),
        (certificate, {"curve": [(0.99, 0.04997), (2.0, 0.00067)]}),
        (certificate, PAC | {"curve": [(0.99, 1.0), (1.5, 0.05)]}),
        (known, {"n_outputs": 1, "curve": [(1.0, 0.0), (0.5, 0.6107)]}),
        (both, {"epsilon": 0.89, "curve": [(0.4, 0.4), (1.0, 0.0507)]}),
        (certificate, {"advantage": Advantage(0.03, 0.3935, 0.05)}),
        # On the caller's word, which it says.
        (certificate, OWN_LAW | {"epsilon": 0.1}),
        (known, OWN_LAW | {"risk": 0.1, "curve": [(0.1, 0.2)]}),
    ]:
        claim = filed(make(**changes))
        assert claim.private
        assert FiledCertificate.from_dict(claim.to_dict(curve=True)) == claim


def test_less_noise_than_none_is_no_advantage_that_is_checked():
    """Of no noise nothing was measured; its certificate is void."""
    gain = Advantage(0.1, 0.35, 0.05)
    silent = {"epsilon": math.inf, "noise_scale": 0.0, "curve": None}
    assert filed(certificate(advantage=gain, **silent)).advantage.mean == 1


SUPPORTED = dataclasses.replace(AUDIT, upper=0.05)
CONTRADICTED = dataclasses.replace(AUDIT, lower=0.06, upper=0.1)
FOLLOW = [
    (known, {"calibration": "declared"}, "assumptions", "declared-sensitivity"),
    (certificate, {}, "assumptions", "public-reference"),
    (
        certificate,
        {"population": Population.CANDIDATES, "n_candidates": 2000},
        "assumptions",
        "secret-draw",
    ),
    (certificate, OWN_LAW, "assumptions", "given-noise"),
    (
        certificate,
        {"population": Population.PRIVATE, "leaks": [Leak.PRIVATE_REFERENCE]},
        "leaks",
        "private-reference",
    ),
    (
        certificate,
        {"population": Population.DECLARED, "doubts": [Doubt.MADE_UP]},
        "doubts",
        "made-up",
    ),
    (
        certificate,
        {"audit": CONTRADICTED, "doubts": [Doubt.CONTRADICTED]},
        "doubts",
        "contradicted",
    ),
]


def test_a_document_cannot_leave_out_what_follows():
    """Nor any of the codes that composition adds."""
    for make, changes, name, code in FOLLOW:
        document = make(**changes).to_dict()
        assert code in document[name]
        assert FiledCertificate.from_dict(document) == filed(make(**changes))
        document |= {name: [], "version": "0.0.1", "private": True}
        with pytest.raises(ValueError, match=f"must have what follows from.*{code}"):
            FiledCertificate.from_dict(document)


def test_a_document_cannot_leave_out_conditions_of_composition():
    for method in Method:
        together = mint(epsilon=1.0, risk=0.1, n_releases=2, method=method)
        assert filed(together) == FiledCertificate.from_dict(together.to_dict())
        for code in together.assumptions:
            kept = together.assumptions - {code}
            with pytest.raises(ValueError, match=f"must have what follows.*{code}"):
                dataclasses.replace(filed(together), assumptions=kept)


def test_an_audit_that_supports_a_declared_law_settles_the_doubt():
    """Not one with noise that can be repeated, of a larger risk, or unsure."""
    law = {"population": Population.DECLARED}
    assert filed(certificate(**law, audit=SUPPORTED)).private
    for changes in ({"seeded": True}, {"upper": 0.06}, {"confidence": 0.94}):
        audit = dataclasses.replace(SUPPORTED, **changes)
        with pytest.raises(ValueError, match=r"must have what follows .*made-up"):
            filed(certificate(**law, audit=audit))


def test_a_probability_next_to_one_is_not_rounded_to_one():
    assert [ceil_text(x) for x in (0.9999999, 1.0)] == ["0.9999999", "1"]
