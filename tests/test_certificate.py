"""The certificate says what holds, no more, and cannot be edited into saying more."""

import copy
import dataclasses
import decimal
import html
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from certificates import CURVE, OF_THE_EVIDENCE, certificate
from hypothesis import given, settings
from hypothesis import strategies as st

import skparisk
from skparisk import Certificate, IncompatibleError, SensitivitySampler
from skparisk.calibration import Exchangeable
from skparisk.certificate import METHODS, DominatingLoss, Evidence, as_certificate
from skparisk.certificate import _claim as texts
from skparisk.certificate._certificate import as_certificates
from skparisk.certificate._rounding import exact_sum, round_up
from skparisk.composition import compose_basic
from skparisk.mechanisms import (
    BernsteinMechanism,
    DiscreteMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)
from skparisk.papers import DandekarTheorem5
from skparisk.privacy_loss import gaussian_delta

PLAIN = (str, int, float, bool, type(None))
THEOREM_5 = DandekarTheorem5()

derandomized = settings(derandomize=True, deadline=None, max_examples=200)


def known(calibration="bound", **changes):
    """Return a certificate of a sensitivity that was not sampled."""
    values = {"gamma": 0.0, "risk": 0.0, "n_pairs": None, "order_index": None}
    values |= {"calibration": calibration, "reference": None, "curve": None}
    values |= {"randomness": "explicit", "n_unanswered": None}
    return certificate(**(values | changes))


def both(**changes):
    """Return a certificate of a risk over pairs and noise."""
    return certificate(**({"randomness": "both", "n_draws": 1} | changes))


def of_theorem_5(**changes):
    """Return a certificate by a rule that guarantees nothing."""
    reasons = {"calibration": THEOREM_5.name, "void_reasons": THEOREM_5.void_reasons}
    return certificate(**(reasons | changes))


CASES = {
    "exchangeable": certificate(),
    "dkw": certificate(calibration="dkw"),
    "pac": certificate(calibration="pac", failure_prob=0.05),
    "theorem 5": of_theorem_5(),
    "add-remove": certificate(relation="add-remove"),
    "seeded": certificate(void_reasons=(texts.SEEDED,)),
    "no noise": certificate(epsilon=math.inf, noise_scale=0.0, curve=None),
    "private reference": certificate(leaks=(texts.PRIVATE_REFERENCE,), curve=None),
    "private classes": certificate(leaks=(texts.PRIVATE_CLASSES,)),
    "private classes, bound": known(leaks=(texts.PRIVATE_CLASSES,)),
    "approximate": certificate(delta=1e-6),
    "bound": known(),
    "declared": known("declared"),
    "both": both(),
    "both, pac": both(calibration="pac", failure_prob=0.05),
    "whitened": both(noise_shape="whitened", n_shape_pairs=1500),
    "draws": both(n_draws=3, order_index=4200),
    "unanswered": certificate(n_unanswered=7),
    "gaussian": certificate(
        mechanism="gaussian", delta=1e-6, loss=DominatingLoss("gaussian", 1.5, 1e-9)
    ),
    "risk control": both(mechanism="gaussian", n_draws=0, order_index=None),
    "known, gaussian": known("declared", mechanism="gaussian", risk=0.05, gamma=0.05),
    "several": Certificate(0.5, 1e-5, 0.05, method="basic", n_releases=2),
}
OF_ONE_RELEASE = {name: case for name, case in CASES.items() if case.evidence}
every_case = pytest.mark.parametrize("given_", CASES.values(), ids=CASES)


def assert_plain(value):
    """Assert that a document holds nothing but JSON's own types."""
    if type(value) is dict:
        assert all(type(key) is str for key in value)
        value = list(value.values())
    if type(value) is list:
        for item in value:
            assert_plain(item)
    else:
        assert type(value) in PLAIN


# The object


@every_case
def test_certificate_is_a_frozen_value(given_):
    """It cannot be changed; copies are equal, hashable and picklable."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        given_.risk = 0.0
    for other in (
        pickle.loads(pickle.dumps(given_)),
        copy.deepcopy(given_),
        dataclasses.replace(given_),
    ):
        assert other == given_
        assert hash(other) == hash(given_)
    assert len({*CASES.values()}) == len(CASES)


@every_case
def test_called_twice_the_same(given_):
    """All that it says is the same each time."""
    assert str(given_) == str(given_)
    assert given_._repr_html_() == given_._repr_html_()
    assert given_.to_dict() == given_.to_dict()


@pytest.mark.parametrize("kind", [Certificate, Evidence, DominatingLoss])
def test_every_field_is_documented(kind):
    """The docstring names each parameter."""
    text = kind.__doc__.partition("Parameters")[2]
    for item in dataclasses.fields(kind):
        assert item.name in text


def test_derived_numbers():
    """Confidence and noise level follow from the fields."""
    assert certificate().confidence == 1 - 0.049967
    assert certificate(noise_scale=0.125).noise_epsilon == 2
    assert CASES["no noise"].noise_epsilon == math.inf
    with pytest.raises(AttributeError, match="no evidence of a single release"):
        _ = CASES["several"].noise_epsilon


def test_numpy_numbers_become_plain():
    """NumPy's own numbers compare equal, and leave as Python's."""
    numpy = certificate(
        epsilon=np.float64(1),
        risk=np.float32(0.5),
        n_records=np.int64(900),
        n_pairs=np.int32(1500),
        order_index=np.int64(1426),
        curve=np.array(CURVE),
    )
    assert numpy == certificate(risk=0.5)
    assert_plain(numpy.to_dict())
    assert hash(numpy) == hash(certificate(risk=0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
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
        ({"calibration": ""}, "calibration must be a name, got ''"),
        ({"calibration": ["pac"]}, "calibration must be a name"),
        ({"calibration": "bound"}, "calibration must be one of .* for a known sens"),
        ({"calibration": "pac"}, r"failure_prob must be a number in \(0, 1\), got 0"),
        ({"relation": "swap"}, "relation must be one of 'replace-one', 'add-remove'"),
        ({"randomness": "all"}, "randomness must be one of 'implicit', 'both', 'expl"),
        (
            {"randomness": "both"},
            "n_draws must be given if and only if randomness='both'",
        ),
        ({"randomness": "explicit"}, "n_pairs must be given unless randomness='expl"),
        ({"n_draws": 1}, "n_draws must be given if and only if randomness='both'"),
        ({"n_unanswered": -1}, "n_unanswered must be a whole number >= 0"),
        ({"mechanism": "cauchy"}, "mechanism must be one of 'laplace', 'gaussian'"),
        ({"mechanism": "gaussian"}, "delta must be above 0 for gaussian noise"),
        ({"mechanism": "exponential", "delta": 0.1}, "mechanism='exponential' has no"),
        ({"noise_shape": "round"}, "noise_shape must be one of 'isotropic'"),
        ({"noise_shape": "whitened"}, "n_shape_pairs must be a whole number"),
        ({"n_shape_pairs": 5}, "n_shape_pairs must be None with noise_shape='isotr"),
        ({"n_pairs": None}, "order_index, n_draws, .* must be None without n_pairs"),
        ({"order_index": None}, "order_index must be a whole number >= 1, got None"),
        ({"order_index": 1501}, "order_index must be at most 1500, got 1501"),
        ({"method": ""}, "method must be a name, got ''"),
        ({"loss": 0.5}, "loss must be None or a DominatingLoss"),
        ({"n_releases": -1}, "n_releases must be a whole number >= 0"),
        ({"leaks": "One sentence."}, "leaks must be a tuple of sentences"),
        ({"void_reasons": (1,)}, "void_reasons must be a tuple of sentences"),
        ({"provisos": ("",)}, "provisos must be a tuple of sentences"),
        ({"group_size": 0}, "group_size must be a whole number >= 1"),
        ({"curve": ((1, 2),)}, r"curve must have levels in \[0, inf\] and risks"),
        ({"curve": ((-1, 0.5),)}, r"curve must have levels in \[0, inf\] and risks"),
        ({"curve": (1.0, 0.5)}, r"curve must be of shape \(n_points, 2\), got \(2,\)"),
        ({"curve": np.empty((0, 2))}, r"curve must be of shape"),
    ],
)
def test_what_makes_no_certificate_is_refused(changes, message):
    """A value out of its range, or parts that do not fit, are refused by name."""
    with pytest.raises(ValueError, match=message):
        certificate(**changes)


def test_order_index_without_pairs_is_refused():
    """A known sensitivity has no order statistic."""
    with pytest.raises(ValueError, match="must be None without n_pairs"):
        known("declared", order_index=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 1e-6}, "delta must be 0 with randomness='both', got 1e-06"),
        ({"n_draws": 0}, "n_draws must be at least 1 unless mechanism='gaussian' and"),
        ({"n_draws": 0, "order_index": None}, "n_draws must be at least 1 unless"),
        ({"n_draws": 2, "order_index": 3001}, "order_index must be at most 3000"),
    ],
)
def test_what_is_no_risk_over_pairs_and_noise_is_refused(changes, message):
    """A claim over both sources has no delta, and draws or the exact risk."""
    with pytest.raises(ValueError, match=message):
        both(**changes)


def test_a_known_sensitivity_has_a_risk_or_a_delta():
    """Not both, and one of them for noise without a bounded loss."""
    with pytest.raises(ValueError, match="gamma must be 0 with a delta"):
        known(delta=1e-6, gamma=0.05)
    with pytest.raises(ValueError, match="delta must be above 0 for gaussian noise"):
        known(mechanism="gaussian")
    with pytest.raises(ValueError, match=r"calibration must be one of .* got 'pac'"):
        known("pac")
    assert known(mechanism="gaussian", delta=1e-6).private


def test_evidence_and_loss_have_their_types():
    """Nothing that only looks like them is taken."""
    with pytest.raises(ValueError, match="evidence must be None or Evidence, got 3"):
        Certificate(1.0, evidence=3)
    with pytest.raises(ValueError, match="law must be one of"):
        DominatingLoss("cauchy", 1.0)
    with pytest.raises(ValueError, match="shift must be a finite number, got inf"):
        DominatingLoss("laplace", math.inf)
    with pytest.raises(ValueError, match=r"excess must be a number in \[0, inf\]"):
        DominatingLoss("laplace", 1.0, -1.0)


def test_a_level_is_not_above_the_largest_loss():
    """A law that never reaches the level would contradict it."""
    with pytest.raises(ValueError, match="must be at most the largest loss"):
        Certificate(1.0, loss=DominatingLoss("laplace", 0.5, 0.1))
    Certificate(1.0, 1e-5, loss=DominatingLoss("gaussian", 0.01))


# What it guarantees, and what voids it


@pytest.mark.parametrize(
    ("case", "caveats", "private", "void"),
    [
        ("exchangeable", (), True, False),
        ("dkw", (), True, False),
        ("pac", (), True, False),
        ("bound", (), True, False),
        ("approximate", (), True, False),
        ("declared", (texts.DECLARED,), True, False),
        ("private reference", (texts.PRIVATE_REFERENCE,), False, False),
        ("private classes", (texts.PRIVATE_CLASSES,), False, False),
        ("private classes, bound", (texts.PRIVATE_CLASSES,), False, False),
        ("seeded", (texts.SEEDED,), False, True),
        ("no noise", (texts.NO_NOISE,), False, True),
        ("theorem 5", THEOREM_5.void_reasons, False, True),
    ],
)
def test_caveats(case, caveats, private, void):
    """Each defect has its caveat; secret noise, proof and reference make it private."""
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
        void_reasons=(texts.SEEDED, *THEOREM_5.void_reasons),
        leaks=(texts.PRIVATE_REFERENCE, texts.PRIVATE_CLASSES),
    )
    assert worst.seeded
    assert worst.reference_is_private
    assert worst.classes_are_private
    assert worst.caveats == (
        texts.SEEDED,
        *THEOREM_5.void_reasons,
        texts.NO_NOISE,
        texts.PRIVATE_REFERENCE,
        texts.PRIVATE_CLASSES,
    )
    assert not worst.private
    assert all(f"Caveat: {text}" in str(worst) for text in worst.caveats)


def test_guarantee_over_pairs():
    """The claim names relation, records, reference, confidence and level."""
    assert certificate().guarantee == (
        "For two databases that differ in one record (900 records, the public "
        "table): with probability at least 0.950033 over a fresh pair and the "
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
    given_ = certificate(risk=risk, epsilon=epsilon, curve=None)
    lines = dict(line.strip().split(": ", 1) for line in str(given_).splitlines()[1:])
    printed = float(lines["risk"].split()[0])
    assert risk <= printed <= risk * (1 + 1e-5)
    level = float(lines["privacy level epsilon"])
    assert epsilon <= level <= epsilon * (1 + 1e-5)
    words = given_.guarantee.partition("at least ")[2].partition(" over")[0]
    assert float(words) == pytest.approx(1 - printed, abs=1e-15)
    claimed = given_.guarantee.partition("release is ")[2].partition("-diff")[0]
    assert float(claimed) == level


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
    losses=st.lists(st.floats(0, 5), min_size=1, max_size=30),
    level=st.floats(0.01, 6),
    gamma=st.floats(0.01, 0.99),
    share=st.floats(0, 1),
)
def test_other_levels_are_the_sample_read_backwards(losses, level, gamma, share):
    """On a full curve, risk_at counts the sampled losses, and all is monotone."""
    rule, m, order = Exchangeable(), len(losses), sorted(losses)
    index = max(1, round(share * m))
    risk = rule.certify_risk(m, index)
    epsilon = max(order[index - 1], 0.005)
    curve = tuple((loss, rule.certify_risk(m, k + 1)) for k, loss in enumerate(order))
    given_ = certificate(
        epsilon=epsilon, risk=risk, n_pairs=m, order_index=index, curve=curve
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


@pytest.mark.parametrize("value", [0, -1, math.nan, True, "1", None])
def test_bad_levels_and_risks_are_refused(value):
    """Levels outside (0, inf] and risks outside (0, 1) are refused by name."""
    with pytest.raises(ValueError, match=r"^epsilon must be a number in \(0, inf\]"):
        certificate().risk_at(value)
    with pytest.raises(ValueError, match=r"^gamma must be a number in \(0, 1\), got"):
        certificate().epsilon_at(value)


# Documents


def strict_json(document):
    """Write a document as strict JSON, which knows no infinity, and read it."""
    return json.loads(json.dumps(document, allow_nan=False))


@every_case
@pytest.mark.parametrize("curve", [False, True])
def test_documents_are_plain_and_return(given_, curve):
    """A document holds strict JSON's types only, and gives back the certificate."""
    document = given_.to_dict(curve=curve)
    assert_plain(document)
    assert Certificate.from_dict(document) == given_
    read = strict_json(document)
    assert read == document
    again = Certificate.from_dict(read)
    assert again == given_
    assert again.to_dict(curve=curve) == document
    assert again.guarantee == given_.guarantee
    assert str(again) == str(given_)
    if curve:
        np.testing.assert_array_equal(again.points(), given_.points())


@every_case
def test_a_document_is_small(given_):
    """It fits on a page: the curve is written only if asked for."""
    assert len(json.dumps(given_.to_dict())) < 2000


def test_document_entries():
    """A document has the fields, and what follows from them."""
    names = {item.name for item in dataclasses.fields(Certificate)}
    derived = {"private", "guarantee", "conditions"}
    document = certificate().to_dict()
    assert set(document) == names | derived | {"schema", "schema_version", "version"}
    assert document["schema"] == "skparisk.certificate"
    assert document["schema_version"] == 1
    assert document["version"] == skparisk.__version__
    assert document["private"] is True
    assert set(document["evidence"]) == OF_THE_EVIDENCE - {"curve"}
    with_curve = certificate().to_dict(curve=True)["evidence"]
    assert with_curve["curve"] == [list(point) for point in CURVE]
    assert known().to_dict(curve=True) == known().to_dict()
    infinite = CASES["no noise"].to_dict()
    assert infinite["epsilon"] == "inf"


def test_whole_numbers_may_stand_for_floats():
    """A writer that drops the ".0" does no harm."""
    document = certificate().to_dict() | {"epsilon": 1, "delta": 0}
    assert Certificate.from_dict(document) == certificate()


def edited(document, changes):
    """Return a document with changes, those of the evidence inside of it."""
    of_evidence = {k: v for k, v in changes.items() if k in OF_THE_EVIDENCE}
    others = {k: v for k, v in changes.items() if k not in OF_THE_EVIDENCE}
    return document | others | {"evidence": document["evidence"] | of_evidence}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"risk": 0.001}, "guarantee"),
        ({"private": False}, "private"),
        ({"epsilon": 0.5}, "guarantee"),
        ({"guarantee": "Perfectly private."}, "guarantee"),
        ({"conditions": []}, "conditions"),
        ({"void_reasons": [texts.SEEDED]}, "private"),
        ({"leaks": [texts.PRIVATE_CLASSES]}, "private"),
        ({"leaks": [texts.PRIVATE_CLASSES]}, "guarantee"),
        ({"relation": "add-remove"}, "guarantee"),
        ({"reference": "another table"}, "guarantee"),
        ({"n_records": 10}, "guarantee"),
        ({"delta": 0.5}, "guarantee"),
        ({"risk": 1}, "void_reasons"),
        ({"epsilon": "inf"}, "void_reasons"),
        ({"version": "another"}, None),
    ],
)
def test_edited_documents_are_refused(changes, wrong):
    """Where one entry was changed, those that follow from it are named."""
    document = edited(certificate().to_dict(), changes)
    if wrong is None:
        assert Certificate.from_dict(document) == certificate()
        return
    message = r"^document has entries that do not follow from the rest: \[.*'{}'"
    with pytest.raises(ValueError, match=message.format(wrong)):
        Certificate.from_dict(document)


def test_words_of_another_version_may_differ():
    """They are not compared; whether it is private is."""
    words = {"version": "0.0.1", "guarantee": "As it was put then.", "conditions": []}
    document = certificate().to_dict() | words
    assert Certificate.from_dict(document) == certificate()
    with pytest.raises(ValueError, match=r"do not follow from the rest: .'private'"):
        Certificate.from_dict(document | {"private": False})


@pytest.mark.parametrize("case", [name for name in CASES if not CASES[name].private])
def test_a_document_cannot_be_made_private(case):
    """The flag cannot be set."""
    document = CASES[case].to_dict()
    with pytest.raises(ValueError, match="do not follow from the rest"):
        Certificate.from_dict(document | {"private": True})


@pytest.mark.parametrize(
    "name", [n for n in certificate().to_dict() if not n.startswith("schema")]
)
def test_a_missing_entry_is_refused(name):
    """Each entry must be there, also one that has a default or follows."""
    document = certificate().to_dict()
    del document[name]
    with pytest.raises(ValueError, match=f"missing: .'{name}'., unknown: ..\\.$"):
        Certificate.from_dict(document)


def test_another_schema_is_refused():
    """What is no certificate, or of a later schema, is not read as one."""
    for schema in ({"schema": "a.letter"}, {"schema_version": 2}):
        document = certificate().to_dict() | schema
        with pytest.raises(ValueError, match="document must be a certificate with"):
            Certificate.from_dict(document)
    with pytest.raises(ValueError, match="document must be a certificate with"):
        Certificate.from_dict({})


@pytest.mark.parametrize("part", [None, "evidence", "loss"])
def test_an_unknown_entry_is_refused(part):
    """What is not understood is not passed over."""
    document = CASES["gaussian"].to_dict()
    (document if part is None else document[part])["signature"] = "x"
    message = r"missing: \[\], unknown: \['signature'\]\.$"
    with pytest.raises(ValueError, match=message):
        Certificate.from_dict(document)


@pytest.mark.parametrize(
    "document", [None, 3, "text", [], [("epsilon", 1.0)]], ids=repr
)
def test_what_is_no_mapping_is_refused(document):
    """A document is a mapping."""
    with pytest.raises(ValueError, match=r"^document must be a mapping, got "):
        Certificate.from_dict(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"curve": 3},
        {"curve": [1.0]},
        {"epsilon": "1.0"},
        {"relation": "none"},
        {"n_pairs": None},
        {"risk": math.nan},
        {"loss": 3},
        {"evidence": "none"},
        {"leaks": None},
    ],
    ids=repr,
)
def test_documents_of_no_certificate_are_refused(changes):
    """Entries that make no certificate are one kind of error, which says so."""
    document = certificate().to_dict()
    document = (
        document | changes if "evidence" in changes else edited(document, changes)
    )
    with pytest.raises(ValueError, match=r"^document is not a certificate: .*"):
        Certificate.from_dict(document)


# Text


@every_case
def test_text_has_what_matters(given_):
    """Level, risk, relation, sizes, pairs, reference and caveats are all printed."""
    text, evidence = str(given_), given_.evidence
    assert text.startswith(given_.guarantee)
    assert f"privacy level epsilon: {given_.epsilon:g}\n" in text
    assert "risk: " in text
    assert f"relation: {given_.relation or 'not stated'}\n" in text
    assert f"delta: {given_.delta:g}\n" in text
    for caveat in given_.caveats:
        assert f"\nCaveat: {caveat}" in text
    assert text.count("Caveat") == len(given_.caveats)
    for condition in given_.conditions:
        assert f"taken on the caller's word: {condition}" in text
    share = f"fails for a fraction of the samples of pairs: {given_.failure_prob:g}\n"
    assert (share in text) is (given_.failure_prob > 0)
    if evidence is None:
        assert f"releases: {given_.n_releases}\n" in text
        assert f"composition: {METHODS[given_.method]}" in text
        return
    assert (f"(asked for: {evidence.gamma:g})" in text) is (evidence.gamma > 0)
    assert "records, outputs: 900, 6\n" in text
    assert f"noise: {evidence.mechanism}, scale " in text
    if evidence.n_pairs is not None:
        assert "reference: the public table" in text
        assert f"calibration: {evidence.calibration}, " in text
    elif evidence.calibration == "declared":
        assert "declared by the caller" in text
    else:
        assert "a proven bound" in text


ON_PAIRS = (
    "(1, 0.049967)-differentially private, on average over a fresh pair and the sampled"
    " pairs"
)
FROM_SHAPE = "scale 0.25, whitened using 1500 other sampled pairs"


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        (
            "exchangeable",
            [
                "pair of neighboring databases, for all outputs",
                "sensitivity number 1426 of 1500 sampled",
            ],
        ),
        ("bound", ["nothing: the level holds for every pair and output"]),
        ("both", ["the noise together", "critical scale number 1426 of", ON_PAIRS]),
        ("draws", ["number 4200 of 1500 sampled pairs with 3 draws of the noise each"]),
        ("risk control", ["average of the exact risks of 1500 sampled pairs"]),
        ("whitened", [FROM_SHAPE]),
        ("unanswered", ["1500 sampled; 7 without an answer count as infinite"]),
        ("known, gaussian", ["the noise, for every pair", "(1, 0.05)-differentially"]),
    ],
)
def test_text_says_what_the_risk_is_over_and_how_it_came_about(case, rows):
    """Calibration, source of the risk, shape, and what post-processing leaves."""
    for row in rows:
        assert row in str(CASES[case])


@pytest.mark.parametrize(
    ("mechanism", "norm"),
    [("laplace", "l1 norm"), ("gaussian", "l2 norm"), ("exponential", "sup norm")],
)
def test_text_says_in_which_norm_the_sensitivity_is(mechanism, norm):
    """A number without its norm may be any of them."""
    given_ = certificate(mechanism=mechanism, delta=1e-6 * (mechanism == "gaussian"))
    assert f"sensitivity: 0.25 ({norm})\n" in str(given_)
    assert f"0.25 ({norm})" in given_._repr_html_()


def test_guarantee_over_pairs_and_noise():
    """A bounded loss, not differential privacy for all outputs."""
    assert both().guarantee == (
        "For two databases that differ in one record (900 records, the public "
        "table): the privacy loss of the release exceeds 1 with probability at most "
        "0.049967 over a fresh pair, its noise and the sampled pairs."
    )
    assert (
        "over a fresh pair and its noise, for all but a fraction 0.05 of the sam"
        in (CASES["both, pac"].guarantee)
    )
    assert CASES["known, gaussian"].guarantee == (
        "For any two databases that differ in one record (900 records): the privacy "
        "loss of the release exceeds 1 with probability at most 0.05 over the noise, "
        "provided that the declared sensitivity is a true bound."
    )


def test_printed_risk_is_rounded_up():
    """The seventh digit is never lost downward."""
    assert "risk: 0.0123457 " in str(certificate(risk=0.01234561))
    assert "risk: 0.07 " in str(certificate(risk=0.07))
    assert "at least 0.93 over" in str(certificate(risk=0.07))
    assert "privacy level epsilon: 1.00001\n" in str(certificate(epsilon=1.000001))
    assert "privacy level epsilon: inf\n" in str(CASES["no noise"])


def test_html_escapes_and_says_the_same():
    """No text of the caller is taken as HTML, and nothing of the text is left out."""
    given_ = certificate(
        reference="<script>alert('x')</script> & co",
        leaks=(texts.PRIVATE_REFERENCE,),
    )
    page = given_._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; co" in page
    assert page.count(texts.PRIVATE_REFERENCE) == 1
    assert texts.PRIVATE_CLASSES in CASES["private classes"]._repr_html_()
    assert texts.PRIVATE_CLASSES not in page
    for line in str(certificate()).splitlines()[1:]:
        name, _, value = line.strip().partition(": ")
        if name == "taken on the caller's word":  # not that it is public
            continue
        assert html.escape(name) in page
        assert name == "reference" or value in page


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


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (
            Certificate(0.5),
            "For any two neighboring databases: the release is "
            "0.5-differentially private.",
        ),
        (
            Certificate(0.5, 1e-5, relation="add-remove", n_releases=2),
            "For any two databases that differ by one added or removed record: the 2 "
            "releases together are (0.5, 1e-05)-differentially private.",
        ),
        (
            Certificate(1.0, 0.0, 0.05, randomness="implicit"),
            "For two neighboring databases: with probability at least 0.95 over a "
            "fresh pair and the sampled pairs, the release is 1-differentially private "
            "for that pair, whatever the output.",
        ),
        (
            Certificate(1.0, 0.0, 0.05, 0.01, randomness="implicit"),
            "For two neighboring databases: with probability at least 0.95 over a "
            "fresh pair, for all but a fraction 0.01 of the samples of pairs, the "
            "release is 1-differentially private for that pair, whatever the output.",
        ),
        (
            Certificate(1.0, 0.0, 0.05, randomness="both"),
            "For two neighboring databases: the privacy loss of the release exceeds 1 "
            "with probability at most 0.05 over a fresh pair, its noise and the "
            "sampled pairs.",
        ),
        (
            Certificate(1.0, 0.25, 0.5, randomness="both", n_releases=2),
            "For two neighboring databases: the 2 releases together are "
            "(1, 0.75)-differentially private, on average over a fresh pair and the "
            "sampled pairs.",
        ),
        (
            Certificate(1.0, 0.0, 0.5, randomness="explicit"),
            "For any two neighboring databases: the privacy loss of the release "
            "exceeds 1 with probability at most 0.5 over the noise.",
        ),
        (
            Certificate(1.0, 0.0, 0.5, randomness="both", post_processed=True),
            "For two neighboring databases: the release is "
            "(1, 0.5)-differentially private, on average over a fresh pair and the "
            "sampled pairs.",
        ),
        (
            Certificate(1.0, 0.0, 0.0, 0.1, randomness="implicit"),
            "For two neighboring databases: with probability at least 1 over a fresh "
            "pair, for all but a fraction 0.1 of the samples of pairs, the release is "
            "1-differentially private for that pair, whatever the output.",
        ),
        (
            Certificate(1.0, 0.0, 0.5, 0.1, randomness="explicit"),
            "For any two neighboring databases: the privacy loss of the release "
            "exceeds 1 with probability at most 0.5 over the noise, for all but a "
            "fraction 0.1 of the samples of pairs.",
        ),
        (
            Certificate(1.0, group_size=3),
            "For any two databases that are at most 3 neighbors apart: the release is "
            "1-differentially private.",
        ),
        (
            Certificate(1.0, group_size=2, relation="replace-one"),
            "For any two databases that differ in at most 2 records: the release is "
            "1-differentially private.",
        ),
        (
            Certificate(1.0, group_size=2, relation="add-remove"),
            "For any two databases that differ by at most 2 added or removed records: "
            "the release is 1-differentially private.",
        ),
        (
            Certificate(1.0, 0.25, 0.5, randomness="explicit"),
            "For any two neighboring databases: the release is "
            "(1, 0.75)-differentially private.",
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
    infinite = Certificate(math.inf)
    assert infinite.void
    assert "no noise was added" in infinite.guarantee
    leaking = Certificate(1.0, leaks=("A & B.",), provisos=("If.",))
    assert not leaking.private
    assert not leaking.void
    assert leaking.guarantee.endswith("not cover what was released without noise.")
    assert str(leaking).endswith("Caveat: A & B.\nCaveat: If.")
    assert "A &amp; B." in leaking._repr_html_()
    other = dataclasses.replace(infinite, void_reasons=("Other.",))
    assert other.guarantee == "There is no guarantee. Other."


def test_conditions_are_those_of_the_rule():
    alone = Certificate(1.0, 0.0, 0.1)
    assert Certificate(1.0).conditions == ()
    (public,) = alone.conditions
    assert public.startswith("the reference that neighboring databases were sampled")
    several = dataclasses.replace(alone, n_releases=2, method="exact")
    assert len(several.conditions) == 4
    assert all(text in str(several) for text in several.conditions)
    every_pair = dataclasses.replace(several, randomness="explicit", method="basic")
    assert every_pair.conditions[0].startswith("each release sees a person's record")
    assert every_pair.conditions[1:] == (
        "the levels, or a limit on their sum, were fixed before the first release",
    )
    filtered = dataclasses.replace(several, method="filter", risk=0.0)
    assert "that limit is what all releases" in filtered.conditions[1]
    parallel, group, transferred = (
        dataclasses.replace(alone, method=method).conditions
        for method in ("parallel", "group", "transferred")
    )
    assert "disjoint" in parallel[1]
    assert "sampled for that part alone" in parallel[2]
    assert group[1:] == (
        "each step from neighbor to neighbor in a group is distributed like a sampled "
        "pair",
    )
    assert "divergence" in transferred[1]


def test_risks_add_and_failures_of_samples_are_kept_apart_where_they_can_be():
    pac = Certificate(1.0, 0.0, 0.05, 0.01, randomness="implicit")
    average = Certificate(1.0, 0.0, 0.1, randomness="implicit")
    noise = Certificate(1.0, 0.0, 0.2, randomness="explicit")
    certain = Certificate(1.0)
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
        Certificate(1.0, relation=name) for name in ("replace-one", "add-remove")
    )
    assert compose_basic([one, Certificate(1.0)]).relation == "replace-one"
    with pytest.raises(IncompatibleError, match=r"'add-remove', 'replace-one'"):
        compose_basic([one, other])


def test_groups_of_different_sizes_do_not_mix():
    pair, triple = (Certificate(1.0, group_size=size) for size in (2, 3))
    assert compose_basic([pair, pair]).group_size == 2
    with pytest.raises(
        IncompatibleError, match=r"groups of the same size, got \[2, 3\]"
    ):
        compose_basic([pair, triple])


def test_a_sum_that_is_too_large_says_so():
    overflow = Certificate(math.inf, method="basic", n_releases=2)
    assert overflow.void_reasons == (texts.INFINITE,)


def test_numbers_are_rounded_up():
    assert Certificate(Fraction(1, 10**400)).epsilon == 5e-324
    third = Certificate(Fraction(1, 3)).epsilon
    assert third > Fraction(1, 3)
    assert compose_basic([Certificate(1.0, 0, Fraction(1, 3))] * 3).risk == 1.0
    assert Certificate(10**400).epsilon == math.inf
    long = np.longdouble(1) / 3
    assert Certificate(long).epsilon >= long


def test_a_risk_of_one_is_no_guarantee():
    for given_ in (Certificate(0.1, 0.0, 1.0), Certificate(0.1, 1.0)):
        assert given_.guarantee.startswith("There is no guarantee. Risk and delta add")
    assert Certificate(0.1, 0.0, 0.999).private


def test_what_others_call_a_certificate_is_checked():
    class Other:
        def __init__(self, says):
            self.as_certificate = lambda: says

    class Fickle(Certificate):
        @property
        def risk_(self):
            return 0

    assert type(as_certificate(Other(Fickle(0.9)))) is Certificate
    for wrong in ([0.9], 0.9, None):
        with pytest.raises(
            ValueError, match="as_certificate must return a Certificate"
        ):
            as_certificate(Other(wrong))


def test_plain_numbers_are_releases():
    assert as_certificate(0.5) == Certificate(0.5)
    assert as_certificate((0.5, 1e-5, 0.1)) == Certificate(0.5, 1e-5, 0.1)
    assert as_certificates([0.5, (1.0, 0.1)])[1] == Certificate(1.0, 0.1)
    for wrong in ("0.5", (), (1, 2, 3, 4), None, (0.5, "0"), True):
        with pytest.raises(ValueError, match="a release must be"):
            as_certificate(wrong)
    for wrong in ("0.5", 0.5, {"epsilon": 1}):
        with pytest.raises(ValueError, match="releases must be a list"):
            as_certificates(wrong)


def test_mechanisms_say_what_they_guarantee():
    laplace = LaplaceMechanism(1.0, 0.5, 3).as_certificate()
    assert (laplace.epsilon, laplace.delta, laplace.loss.law) == (0.5, 0.0, "laplace")
    assert laplace.loss.shift + laplace.loss.excess == pytest.approx(0.5, rel=1e-8)
    assert laplace.loss.shift == 0.5
    gaussian = GaussianMechanism(1.0, 0.5, 1e-5, 3).as_certificate()
    assert (gaussian.epsilon, gaussian.delta) == (0.5, 1e-5)
    loss = gaussian.loss
    delta = gaussian_delta(0.5 - loss.excess, loss.shift)
    assert 1e-5 * (1 - 1e-4) <= delta <= 1e-5 * (1 + 1e-3)
    assert ExponentialMechanism(1.0, 0.5).as_certificate() == Certificate(0.5)
    response = RandomizedResponse(epsilon=0.5)
    assert as_certificate(response).epsilon == response.epsilon
    coin = DiscreteMechanism([[0.75, 0.25], [0.25, 0.75]])
    assert as_certificate(coin).epsilon == pytest.approx(math.log(3))
    bernstein = BernsteinMechanism(1.0, 0.5, lattice_size=2)
    assert as_certificate(bernstein).epsilon == 0.5
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
        ({"mechanism": "gaussian", "delta": 1e-5}, "gaussian"),
        ({"randomness": "both"}, None),
        ({"noise_random_state": 0}, None),
        ({"randomness": "explicit", "sensitivity": 0.1, "gamma": 0.6}, "laplace"),
    ],
)
@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_certificates_are_what_composition_takes(parameters, law):
    public = np.random.default_rng(0).exponential(size=(200, 1))
    sampler = SensitivitySampler(np.mean, random_state=0, **parameters).fit(public)
    given_ = sampler.certificate_
    assert as_certificate(given_) is given_ is given_.as_certificate()
    assert (given_.loss and given_.loss.law) == law
    if law is not None:
        ratio = given_.loss.shift / given_.noise_epsilon
        assert 1 < ratio < 1 + 1e-5


def test_a_certificate_is_amended_and_never_improved():
    """Sentences that limit it are added once; none is lost."""
    base = certificate(leaks=("A leak.",), provisos=("If.",))
    more = base.amended(
        void_reasons=["Worst."], leaks=["A leak.", "Another."], provisos=["If.", "And."]
    )
    assert more.void_reasons == ("Worst.",)
    assert more.leaks == ("A leak.", "Another.")
    assert set(more.provisos) == {"And.", "If."}
    assert more.amended(void_reasons=["Worst.", "Worse."]).void_reasons == (
        "Worst.",
        "Worse.",
    )
    lost = base.amended(conditions=["a word that was given", *base.conditions])
    assert lost.provisos == (
        "If.",
        "This rests on the caller's word: a word that was given.",
    )


@pytest.mark.parametrize(
    ("plan", "is_known"),
    [
        ({"epsilon": 1e-8}, True),
        ({"epsilon": 1e-8, "mechanism": "gaussian", "delta": 1e-5}, True),
        ({"epsilon": 1e-10, "mechanism": "gaussian", "delta": 1e-5}, False),
        ({"sensitivity": 1e-280}, True),
        ({"sensitivity": 1e-300}, False),
    ],
)
def test_where_the_grid_counts_only_the_level_is_known(plan, is_known):
    """Of noise on a coarse grid, no law of the loss is claimed."""
    plan = {"randomness": "explicit", "sensitivity": 1.0} | plan
    sampler = SensitivitySampler(np.mean, **plan)
    sampler.fit(np.ones((10, 1)))
    assert (sampler.certificate_.loss is not None) == is_known


# What attacks found


def test_a_law_of_less_loss_than_the_noise_has_is_refused():
    """A document that was edited cannot buy composition a smaller level."""
    document = CASES["gaussian"].to_dict()
    for edit in ({"shift": 0.9}, {"law": "laplace"}):
        wrong = document | {"loss": document["loss"] | edit}
        with pytest.raises(ValueError, match="loss must be the law of gaussian noise"):
            Certificate.from_dict(wrong)


def test_the_probability_that_it_fails_is_in_the_words_of_every_claim():
    """Over the noise alone there are no samples to set apart; it adds to delta."""
    given_ = Certificate(0.5, 0.1, 0.2, 0.3, randomness="explicit")
    assert "the release is (0.5, 0.6)-differentially private" in given_.guarantee
    assert "(0.5, 0.6)-differentially private" in str(given_).partition("table")[0]
    tiny = Certificate(0.5, 1e-18, 0.05, randomness="explicit")
    assert "(0.5, 0.0500001)-differentially private" in tiny.guarantee


@pytest.mark.parametrize(
    "numbers",
    [
        {"failure_prob": 1.0},
        {"risk": 0.6, "failure_prob": 0.4},
        {"risk": 0.6, "delta": 0.4, "randomness": "both"},
        {"delta": 0.5, "failure_prob": 0.5, "randomness": "explicit"},
    ],
)
def test_what_adds_up_to_certainty_is_no_guarantee(numbers):
    """As if one of them were 1."""
    given_ = Certificate(0.5, **({"randomness": "implicit"} | numbers))
    assert given_.void_reasons == (texts.CERTAIN,)
    least = {name: x - 0.01 for name, x in numbers.items() if isinstance(x, float)}
    assert dataclasses.replace(given_, void_reasons=(), **least).private


def test_sentences_of_another_version_stay_as_they_were(monkeypatch):
    """And are said once more, in the words of today."""
    cases = [known("declared"), CASES["no noise"]]
    documents = [case.to_dict() | {"version": "0.0.1"} for case in cases]
    monkeypatch.setattr(texts, "DECLARED", "Declared.")
    monkeypatch.setattr(texts, "NO_NOISE", "No noise.")
    declared, silent = map(Certificate.from_dict, documents)
    assert declared.provisos == ("Declared.", *cases[0].provisos)
    assert silent.void_reasons == (*cases[1].void_reasons, "No noise.")
    today = documents[0] | {"version": skparisk.__version__}
    with pytest.raises(ValueError, match="do not follow from the rest"):
        Certificate.from_dict(today)


def test_the_confidence_does_not_depend_on_the_decimals_of_the_caller():
    """It is never rounded up."""
    given_ = Certificate(0.5, risk=0.004, randomness="implicit")
    with decimal.localcontext() as context:
        context.prec = 2
        assert "with probability at least 0.996 over" in given_.guarantee
    tiny = Certificate(0.5, risk=1e-30, randomness="implicit")
    assert f"at least 0.{'9' * 30} over" in tiny.guarantee


@pytest.mark.parametrize("name", ["void_reasons", "leaks", "provisos"])
def test_a_sentence_alone_is_no_list_of_sentences(name):
    """It would be taken as one sentence a letter."""
    with pytest.raises(ValueError, match=f"{name} must be a tuple of sentences"):
        Certificate(0.5).amended(**{name: "A sentence."})


def test_a_curve_may_be_infinite_and_is_never_written_to():
    """In strict JSON, and after a pickle."""
    given_ = certificate(curve=[[0.5, 0.3], [math.inf, 0.01]])
    read = Certificate.from_dict(strict_json(given_.to_dict(curve=True)))
    np.testing.assert_array_equal(read.points(), given_.points())
    for other in (read, pickle.loads(pickle.dumps(given_)), copy.deepcopy(given_)):
        assert not other.evidence.curve.flags.writeable


def test_an_unknown_method_rests_on_what_all_of_them_rest_on():
    """A typo loses no condition."""
    exact = Certificate(0.5, method="exact", n_releases=2)
    unknown = Certificate(0.5, method="exactly", n_releases=2)
    assert unknown.conditions == exact.conditions
    assert "exactly" in str(unknown)
