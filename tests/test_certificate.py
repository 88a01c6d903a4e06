"""The certificate says what holds, no more, and cannot be edited into saying more."""

import copy
import dataclasses
import html
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skparisk.calibration import Exchangeable, RiskCertificate
from skparisk.calibration import _wording as texts

CURVE = ((0.5, 0.4), (0.8, 0.2), (1.0, 0.05), (1.5, 0.01))
PLAIN = (str, int, float, bool, type(None))

derandomized = settings(derandomize=True, deadline=None, max_examples=200)


def certificate(**changes):
    """Return a certificate of a sampled sensitivity, with changes."""
    values = {
        "epsilon": 1.0,
        "gamma": 0.05,
        "risk": 0.049967,
        "sensitivity": 0.25,
        "noise_scale": 0.25,
        "n_records": 900,
        "n_outputs": 6,
        "calibration": "exchangeable",
        "n_pairs": 1500,
        "order_index": 1426,
        "reference": "the public table",
        "curve": CURVE,
    }
    return RiskCertificate(**(values | changes))


def known(calibration="bound", **changes):
    """Return a certificate of a sensitivity that was not sampled."""
    values = {"gamma": 0.0, "risk": 0.0, "n_pairs": None, "order_index": None}
    values |= {"calibration": calibration, "reference": None, "curve": ()}
    values |= {"randomness": "explicit"}
    return certificate(**(values | changes))


def both(**changes):
    """Return a certificate of a risk over pairs and noise."""
    return certificate(**({"randomness": "both", "n_draws": 1} | changes))


CASES = {
    "exchangeable": certificate(),
    "dkw": certificate(calibration="dkw"),
    "pac": certificate(calibration="pac", failure_prob=0.05),
    "bessel": certificate(calibration="bessel", failure_prob=0.05),
    "add-remove": certificate(relation="add-remove"),
    "seeded": certificate(seeded=True),
    "no noise": certificate(epsilon=math.inf, noise_scale=0.0, curve=()),
    "private reference": certificate(reference_is_private=True, curve=()),
    "private classes": certificate(classes_are_private=True),
    "private classes, bound": known(classes_are_private=True),
    "approximate": certificate(delta=1e-6),
    "bound": known(),
    "declared": known("declared"),
    "both": both(),
    "both, pac": both(calibration="pac", failure_prob=0.05),
    "whitened": both(noise_shape="whitened", n_shape_pairs=1500),
    "draws": both(n_draws=3, order_index=4200),
    "gaussian": certificate(mechanism="gaussian", delta=1e-6),
    "risk control": both(mechanism="gaussian", n_draws=0, order_index=None),
    "known, gaussian": known("declared", mechanism="gaussian", risk=0.05, gamma=0.05),
}
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


def test_every_field_is_documented():
    """The docstring names each parameter, and says that it is not made by hand."""
    text = RiskCertificate.__doc__
    assert "not by hand" in text
    for item in dataclasses.fields(RiskCertificate):
        assert item.name in text.partition("Parameters")[2]


def test_derived_numbers():
    """Confidence and noise level follow from the fields."""
    assert certificate().confidence == 1 - 0.049967
    assert certificate(noise_scale=0.125).noise_epsilon == 2
    assert CASES["no noise"].noise_epsilon == math.inf


def test_numpy_numbers_become_plain():
    """NumPy's own numbers compare equal, and leave as Python's."""
    numpy = certificate(
        epsilon=np.float64(1),
        risk=np.float32(0.5),
        n_records=np.int64(900),
        n_pairs=np.int32(1500),
        order_index=np.int64(1426),
        seeded=np.False_,
        curve=np.array(CURVE),
    )
    assert numpy == certificate(risk=0.5)
    assert_plain(numpy.to_dict())
    assert hash(numpy) == hash(certificate(risk=0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, r"epsilon must be a number in \(0, inf\], got 0"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": "1"}, "epsilon must be a number"),
        ({"gamma": -0.1}, r"gamma must be a number in \[0, 1\], got -0\.1"),
        ({"gamma": True}, "gamma must be a number"),
        ({"risk": 1.1}, r"risk must be a number in \[0, 1\], got 1\.1"),
        ({"risk": math.nan}, "risk must be a number"),
        ({"risk": None}, "risk must be a number"),
        ({"delta": 2}, "delta must be a number"),
        ({"sensitivity": -1}, r"sensitivity must be a number in \[0, inf\], got -1"),
        ({"noise_scale": -1}, "noise_scale must be a number"),
        ({"noise_scale": 0}, "noise_scale must be above 0 with a finite epsilon"),
        ({"n_records": 0}, "n_records must be a whole number >= 1, got 0"),
        ({"n_outputs": 1.5}, "n_outputs must be a whole number"),
        ({"calibration": "guess"}, "calibration must be one of 'exchangeable'"),
        ({"calibration": ["pac"]}, "calibration must be one of"),
        ({"relation": "swap"}, "relation must be one of 'replace-one', 'add-remove'"),
        ({"randomness": "all"}, "randomness must be one of 'implicit', 'both', 'expl"),
        ({"randomness": "both"}, "n_draws must be a whole number >= 0, got None"),
        ({"n_draws": 1}, "n_draws must be None unless randomness='both', got 1"),
        ({"mechanism": "cauchy"}, "mechanism must be one of 'laplace', 'gaussian'"),
        ({"mechanism": "gaussian"}, "delta must be above 0 for gaussian noise"),
        ({"noise_shape": "round"}, "noise_shape must be one of 'isotropic'"),
        ({"noise_shape": "whitened"}, "n_shape_pairs must be a whole number"),
        ({"n_shape_pairs": 5}, "n_shape_pairs must be None with noise_shape='isotr"),
        ({"n_pairs": None}, "n_pairs must be a whole number >= 1, got None"),
        ({"order_index": None}, "order_index must be a whole number >= 1, got None"),
        ({"order_index": 1501}, "order_index must be at most 1500, got 1501"),
        ({"failure_prob": 0}, r"failure_prob must be a number in \(0, 1\), got 0"),
        ({"calibration": "pac"}, "failure_prob must be a number .* got None"),
        ({"calibration": "bound"}, "calibration must be one of 'exchangeable'"),
        ({"randomness": "explicit"}, "calibration must be one of 'declared', 'bound'"),
        ({"curve": ((1, 2),)}, r"curve must be a number in \[0, 1\], got 2"),
        ({"curve": ((-1, 0.5),)}, r"curve must be a number in \[0, inf\], got -1"),
    ],
)
def test_what_makes_no_certificate_is_refused(changes, message):
    """A value out of its range, or parts that do not fit, are refused by name."""
    with pytest.raises(ValueError, match=message):
        certificate(**changes)


def test_order_index_without_pairs_is_refused():
    """A known sensitivity has no order statistic."""
    with pytest.raises(ValueError, match="must be None with randomness='explicit'"):
        known("declared", order_index=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 1e-6}, "delta must be 0 with randomness='both', got 1e-06"),
        ({"n_draws": 0}, "n_draws must be at least 1 but for gaussian noise"),
        ({"n_draws": 0, "order_index": None}, "n_draws must be at least 1 but for"),
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
    assert known(mechanism="gaussian", delta=1e-6).private


# What it guarantees, and what voids it


@pytest.mark.parametrize(
    ("case", "caveats", "private", "voided"),
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
        ("bessel", (texts.HEURISTIC_CLAIM,), False, True),
    ],
)
def test_caveats(case, caveats, private, voided):
    """Each defect has its caveat; secret noise, proof and reference make it private."""
    given_ = CASES[case]
    assert given_.caveats == caveats
    assert given_.private is private
    assert given_.guarantee.startswith("There is no guarantee. ") is voided
    if voided:
        assert given_.guarantee == f"There is no guarantee. {caveats[0]}"
        assert "differentially private" not in given_.guarantee


def test_caveats_add_up():
    """All defects are named together, the worst first."""
    worst = certificate(
        epsilon=math.inf,
        calibration="bessel",
        seeded=True,
        reference_is_private=True,
        classes_are_private=True,
    )
    assert worst.caveats == (
        texts.SEEDED,
        texts.NO_NOISE,
        texts.HEURISTIC_CLAIM,
        texts.PRIVATE_REFERENCE,
        texts.PRIVATE_CLASSES,
    )
    assert not worst.private
    assert all(f"Caveat: {text}" in str(worst) for text in worst.caveats)


def test_guarantee_over_pairs():
    """The claim names relation, records, reference, confidence and level."""
    assert certificate().guarantee == (
        "For two databases that differ in one record (900 records, the public "
        "table): with probability at least 0.950033 over the fresh pair and the "
        "sampled pairs together, the release is 1-differentially private for that "
        "pair, whatever is released."
    )
    assert CASES["dkw"].guarantee == certificate().guarantee
    assert "one has one record more (900" in CASES["add-remove"].guarantee
    pac = CASES["pac"].guarantee
    assert "over the fresh pair, in all but a share 0.05 of all samples of pairs" in pac


def test_guarantee_of_a_known_sensitivity():
    """Without sampling the claim is for all neighbors, and says on what it rests."""
    assert known().guarantee == (
        "For any two databases that differ in one record, 900 records: the release "
        "is 1-differentially private, by a proven bound of the sensitivity, "
        "records being clipped to their declared bounds."
    )
    declared = CASES["declared"].guarantee
    assert declared.endswith("provided that the declared sensitivity is a true bound.")


def test_guarantee_is_for_neighbors_with_the_same_classes_where_these_are_private():
    """Others differ in the classes, which are released without noise."""
    assert CASES["private classes, bound"].guarantee.startswith(
        "For any two databases that differ in one record and have the same classes, "
        "900 records: the release is 1-differentially private"
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
@given(risk=st.floats(0, 1), epsilon=st.floats(1e-6, 1e6))
def test_printed_numbers_are_on_the_safe_side(risk, epsilon):
    """The printed risk and level are not below the true ones, and close to them."""
    given_ = certificate(risk=risk, epsilon=epsilon, curve=())
    lines = dict(line.strip().split(": ", 1) for line in str(given_).splitlines()[1:])
    printed = float(lines["risk achieved"].split()[0])
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


@pytest.mark.parametrize("given_", [certificate(curve=()), known()], ids=["m", "known"])
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


@every_case
def test_documents_are_plain_and_return(given_):
    """A document holds JSON's types only, and gives back the same certificate."""
    document = given_.to_dict()
    assert_plain(document)
    assert RiskCertificate.from_dict(document) == given_
    read = json.loads(json.dumps(document))
    assert read == document
    assert RiskCertificate.from_dict(read) == given_
    assert RiskCertificate.from_dict(read).to_dict() == document


def test_document_entries():
    """A document has the fields, and what follows from them."""
    names = {item.name for item in dataclasses.fields(RiskCertificate)}
    derived = {"private", "guarantee", "caveats", "confidence", "noise_epsilon"}
    document = certificate().to_dict()
    assert set(document) == names | derived
    assert document["private"] is True
    assert document["caveats"] == []
    assert document["curve"] == [list(point) for point in CURVE]
    assert document["confidence"] == certificate().confidence


def test_whole_numbers_may_stand_for_floats():
    """A writer that drops the ".0" does no harm."""
    document = certificate().to_dict() | {"epsilon": 1, "delta": 0}
    assert RiskCertificate.from_dict(document) == certificate()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"risk": 0.001}, "confidence"),
        ({"confidence": 0.999}, "confidence"),
        ({"private": False}, "private"),
        ({"epsilon": 0.5}, "guarantee"),
        ({"guarantee": "Perfectly private."}, "guarantee"),
        ({"caveats": ["None."]}, "caveats"),
        ({"noise_epsilon": 0.1}, "noise_epsilon"),
        ({"sensitivity": 0.1}, "noise_epsilon"),
        ({"noise_scale": 10.0}, "noise_epsilon"),
        ({"seeded": True}, "private"),
        ({"classes_are_private": True}, "private"),
        ({"classes_are_private": True}, "guarantee"),
        ({"calibration": "bessel"}, "caveats"),
        ({"relation": "add-remove"}, "guarantee"),
        ({"reference": "another table"}, "guarantee"),
        ({"n_records": 10}, "guarantee"),
        ({"delta": 0.5}, "guarantee"),
    ],
)
def test_edited_documents_are_refused(changes, wrong):
    """Where one entry was changed, those that follow from it are named."""
    message = r"^document has entries that do not follow from the rest: \[.*'{}'"
    with pytest.raises(ValueError, match=message.format(wrong)):
        RiskCertificate.from_dict(certificate().to_dict() | changes)


@pytest.mark.parametrize(
    "case", ["seeded", "no noise", "bessel", "private reference", "private classes"]
)
def test_a_document_cannot_be_made_private(case):
    """Neither the flag nor the caveats can be taken off."""
    document = CASES[case].to_dict()
    for changes in ({"private": True}, {"caveats": []}):
        with pytest.raises(ValueError, match="do not follow from the rest"):
            RiskCertificate.from_dict(document | changes)


@pytest.mark.parametrize("name", list(certificate().to_dict()))
def test_a_missing_entry_is_refused(name):
    """Each entry must be there, also one that has a default or follows."""
    document = certificate().to_dict()
    del document[name]
    with pytest.raises(ValueError, match=f"missing are .'{name}'., unknown are ..\\.$"):
        RiskCertificate.from_dict(document)


def test_an_unknown_entry_is_refused():
    """What is not understood is not passed over."""
    document = certificate().to_dict() | {"signature": "x"}
    message = r"missing are \[\], unknown are \['signature'\]\.$"
    with pytest.raises(ValueError, match=message):
        RiskCertificate.from_dict(document)


@pytest.mark.parametrize(
    "document", [None, 3, "text", [], [("epsilon", 1.0)]], ids=repr
)
def test_what_is_no_mapping_is_refused(document):
    """A document is a mapping."""
    with pytest.raises(ValueError, match=r"^document must be a mapping, got "):
        RiskCertificate.from_dict(document)


def test_an_empty_document_is_refused():
    """All entries are named as missing."""
    with pytest.raises(ValueError, match=r"missing are \['private', .*'curve'\]"):
        RiskCertificate.from_dict({})


@pytest.mark.parametrize(
    "document",
    [
        certificate().to_dict() | {"curve": 3},
        certificate().to_dict() | {"curve": [1.0]},
        certificate().to_dict() | {"epsilon": "1.0"},
        certificate().to_dict() | {"relation": "none"},
        certificate().to_dict() | {"n_pairs": None},
        certificate().to_dict() | {"risk": math.nan},
    ],
    ids=repr,
)
def test_documents_of_no_certificate_are_refused(document):
    """Entries that make no certificate are one kind of error, which says so."""
    with pytest.raises(ValueError, match=r"^document is not a certificate: .*"):
        RiskCertificate.from_dict(document)


# Text


@every_case
def test_text_has_what_matters(given_):
    """Level, risk, relation, sizes, pairs, reference and caveats are all printed."""
    text = str(given_)
    assert text.startswith(given_.guarantee)
    assert f"privacy level epsilon: {given_.epsilon:g}\n" in text
    assert "risk achieved: " in text
    assert f"(asked for: {given_.gamma:g})" in text
    assert f"relation: {given_.relation}\n" in text
    assert "records, outputs: 900, 6\n" in text
    assert f"noise: {given_.mechanism}, scale " in text
    assert f"delta: {given_.delta:g}\n" in text
    for caveat in given_.caveats:
        assert f"\nCaveat: {caveat}" in text
    assert text.count("Caveat") == len(given_.caveats)
    if given_.n_pairs is None:
        assert f"sensitivity known: {given_.calibration}" in text
    else:
        assert "reference: the public table" in text
    fails = given_.failure_prob is not None
    assert ("fails for a share of samples: 0.05" in text) is fails


ON_PAIRS = "(1, 0.049967)-differentially private, on average over pairs and samples"
FROM_SHAPE = "scale 0.25, whitened by 1500 other sampled pairs"


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        (
            "exchangeable",
            ["for all outputs", "sensitivity number 1426 of 1500 sampled"],
        ),
        ("bound", ["nothing: the level holds for every pair and output"]),
        ("both", ["the noise together", "critical scale number 1426 of", ON_PAIRS]),
        ("draws", ["number 4200 of 1500 sampled pairs with 3 draws of the noise each"]),
        ("risk control", ["average of the exact risks of 1500 sampled pairs"]),
        ("whitened", [FROM_SHAPE]),
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
        "table): with probability at least 0.950033 over the fresh pair, the noise and "
        "the sampled pairs together, the privacy loss of the release is between -1 and "
        "1."
    )
    assert "the fresh pair and the noise, in all but a share 0.05 of all samples" in (
        CASES["both, pac"].guarantee
    )
    assert CASES["known, gaussian"].guarantee == (
        "For any two databases that differ in one record, 900 records: the privacy "
        "loss of the release exceeds 1 with probability at most 0.05 over the noise, "
        "provided that the declared sensitivity is a true bound."
    )


def test_printed_risk_is_rounded_up():
    """The seventh digit is never lost downward."""
    assert "risk achieved: 0.0123457 " in str(certificate(risk=0.01234561))
    assert "risk achieved: 0.07 " in str(certificate(risk=0.07))
    assert "at least 0.93 over" in str(certificate(risk=0.07))
    assert "privacy level epsilon: 1.00001\n" in str(certificate(epsilon=1.000001))
    assert "privacy level epsilon: inf\n" in str(CASES["no noise"])


def test_html_escapes_and_says_the_same():
    """No text of the caller is taken as HTML, and nothing of the text is left out."""
    given_ = certificate(
        reference="<script>alert('x')</script> & co",
        reference_is_private=True,
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
