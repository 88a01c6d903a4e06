"""Documents and text of certificates return, and cannot be edited into saying more."""

import contextlib
import copy
import dataclasses
import html
import itertools
import json
import math
import pickle

import numpy as np
import pytest
from certificate_cases import CASES, assert_plain, both, known
from certificates import CURVE, OF_THE_EVIDENCE, certificate, filed

import skparisk
from skparisk import Certificate, FiledCertificate
from skparisk.core import words
from skparisk.core.calibrate import Target
from skparisk.core.claim import Assumption, Leak, Population
from skparisk.sensitivity import calibrate

LEAKS, METHODS, PROVISOS = words().LEAKS, words().METHODS, words().PROVISOS

OF_ONE_RELEASE = {name: case for name, case in CASES.items() if case.evidence}

# Documents


def strict_json(document):
    """Write a document as strict JSON, which knows no infinity, and read it."""
    return json.loads(json.dumps(document, allow_nan=False))


def test_documents_are_plain_and_return():
    """A document holds strict JSON's types only, and gives back the certificate."""
    for given_ in CASES.values():
        for curve in [False, True]:
            document = given_.to_dict(curve=curve)
            assert_plain(document)
            assert FiledCertificate.from_dict(document) == filed(given_) != given_
            read = strict_json(document)
            assert read == document
            again = FiledCertificate.from_dict(read)
            assert again == filed(given_)
            assert again.to_dict(curve=curve) == document
            assert again.guarantee == given_.guarantee
            assert str(again) == str(given_)
            if curve:
                np.testing.assert_array_equal(again.points(), given_.points())


def test_a_document_is_small():
    """It fits on a page: the curve is written only if asked for."""
    for given_ in CASES.values():
        assert len(json.dumps(given_.to_dict())) < 2000


def test_document_entries():
    """A document has the fields, and what follows from them."""
    names = {item.name for item in dataclasses.fields(Certificate)}
    derived = {"private", "guarantee", "conditions", "caveats"}
    document = certificate().to_dict()
    assert set(document) == names | derived | {"schema", "schema_version", "version"}
    assert document["schema"] == "skparisk.certificate"
    assert document["schema_version"] == 2
    assert document["version"] == skparisk.__version__
    assert document["private"] is True
    assert set(document["evidence"]) == OF_THE_EVIDENCE - {"curve"}
    with_curve = certificate().to_dict(curve=True)["evidence"]
    assert with_curve["curve"] == [list(point) for point in CURVE]
    assert known().to_dict(curve=True) == known().to_dict()
    infinite = CASES["no noise"].to_dict()
    assert infinite["epsilon"] == "inf"
    codes = [Leak.SEEDED_NOISE, Leak.PRIVATE_CLASSES, Leak.CHOSEN]
    leaks = certificate(leaks=codes).to_dict()["leaks"]
    assert leaks == ["chosen", "private-classes", "seeded-noise"]


def test_whole_numbers_may_stand_for_floats():
    """A writer that drops the ".0" does no harm."""
    document = certificate().to_dict() | {"epsilon": 1, "delta": 0}
    assert FiledCertificate.from_dict(document) == filed(certificate())


def edited(document, changes):
    """Return a document with changes, those of the evidence inside of it."""
    of_evidence = {k: v for k, v in changes.items() if k in OF_THE_EVIDENCE}
    others = {k: v for k, v in changes.items() if k not in OF_THE_EVIDENCE}
    return document | others | {"evidence": document["evidence"] | of_evidence}


def test_edited_documents_are_refused():
    """Where one entry was changed, those that follow from it are named."""
    for changes, wrong in [
        ({"risk": 0.06}, "guarantee"),
        ({"private": False}, "private"),
        ({"epsilon": 1.5}, "guarantee"),
        ({"guarantee": "Perfectly private."}, "guarantee"),
        ({"conditions": []}, "conditions"),
        ({"caveats": ["Perfectly private."]}, "caveats"),
        ({"leaks": ["seeded-noise"]}, "private"),
        ({"leaks": ["private-classes"]}, "private"),
        ({"leaks": ["private-classes"]}, "guarantee"),
        ({"leaks": ["private-classes"]}, "caveats"),
        ({"doubts": ["thin"]}, "private"),
        ({"assumptions": ["public-reference", "frozen-parts"]}, "caveats"),
        ({"assumptions": ["public-reference", "disjoint-parts"]}, "conditions"),
        ({"relation": "add-remove"}, "guarantee"),
        ({"reference": "another table"}, "guarantee"),
        ({"n_records": 10}, "guarantee"),
        ({"delta": 0.5}, "guarantee"),
        ({"risk": 1}, "caveats"),
        ({"epsilon": "inf"}, "caveats"),
        ({"version": "another"}, None),
    ]:
        document = edited(certificate().to_dict(), changes)
        if wrong is None:
            assert FiledCertificate.from_dict(document) == filed(certificate())
            continue
        message = r"^document has entries that do not follow from the rest: \[.*'{}'"
        with pytest.raises(ValueError, match=message.format(wrong)):
            FiledCertificate.from_dict(document)


def test_words_of_another_version_may_differ():
    """They are not compared; whether it is private is."""
    words = {"guarantee": "As it was put then.", "conditions": [], "caveats": ["A."]}
    document = certificate().to_dict() | words | {"version": "0.0.1"}
    read = FiledCertificate.from_dict(document)
    assert read == filed(certificate())
    assert read.guarantee == certificate().guarantee
    with pytest.raises(ValueError, match=r"do not follow from the rest: .'private'"):
        FiledCertificate.from_dict(document | {"private": False})


def test_a_document_cannot_be_made_private():
    """The flag cannot be set."""
    for case in [name for name in CASES if not CASES[name].private]:
        document = CASES[case].to_dict()
        with pytest.raises(ValueError, match="do not follow from the rest"):
            FiledCertificate.from_dict(document | {"private": True})


def test_a_missing_entry_is_refused():
    """Each entry must be there, also one that has a default or follows."""
    for name in [n for n in certificate().to_dict() if not n.startswith("schema")]:
        document = certificate().to_dict()
        del document[name]
        with pytest.raises(ValueError, match=f"missing: .'{name}'., unknown: ..\\.$"):
            FiledCertificate.from_dict(document)


def test_another_schema_is_refused():
    """What is no certificate, or of a later schema, is not read as one."""
    for schema in ({"schema": "a.letter"}, {"schema_version": 1}):
        document = certificate().to_dict() | schema
        with pytest.raises(ValueError, match="document must be a certificate with"):
            FiledCertificate.from_dict(document)
    with pytest.raises(ValueError, match="document must be a certificate with"):
        FiledCertificate.from_dict({})


def test_an_unknown_entry_is_refused():
    """What is not understood is not passed over."""
    for part in [None, "evidence", "loss"]:
        document = CASES["gaussian"].to_dict()
        (document if part is None else document[part])["signature"] = "x"
        message = r"missing: \[\], unknown: \['signature'\]\.$"
        with pytest.raises(ValueError, match=message):
            FiledCertificate.from_dict(document)


def test_what_is_no_mapping_is_refused():
    """A document is a mapping."""
    for document in [None, 3, "text", [], [("epsilon", 1.0)]]:
        with pytest.raises(ValueError, match=r"^document must be a mapping, got "):
            FiledCertificate.from_dict(document)


def test_documents_of_no_certificate_are_refused():
    """Entries that make no certificate are one kind of error, which says so."""
    for changes in [
        {"curve": 3},
        {"curve": [1.0]},
        {"epsilon": "1.0"},
        {"relation": "none"},
        {"n_pairs": None},
        {"risk": math.nan},
        {"loss": 3},
        {"evidence": "none"},
        {"leaks": None},
        {"leaks": ["of-a-later-version"]},
        {"doubts": "thin"},
        {"population": "others"},
    ]:
        document = certificate().to_dict()
        document = (
            document | changes if "evidence" in changes else edited(document, changes)
        )
        with pytest.raises(ValueError, match=r"^document is not a certificate: .*"):
            FiledCertificate.from_dict(document)


# Text


def test_text_has_what_matters():
    """Level, risk, relation, sizes, pairs, reference and caveats are all printed."""
    for given_ in CASES.values():
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
        share = (
            f"fails for a fraction of the samples of pairs: {given_.failure_prob:g}\n"
        )
        assert (share in text) is (given_.failure_prob > 0)
        if evidence is None:
            assert f"releases: {given_.n_releases}\n" in text
            assert f"composition: {METHODS[given_.method]}" in text
            continue
        assert (f"(asked for: {evidence.gamma:g})" in text) is (evidence.gamma > 0)
        assert "records, outputs: 900, 6\n" in text
        assert f"noise: {evidence.law}, scale " in text
        if evidence.n_pairs is not None:
            assert "reference: the public table" in text
            assert f"calibration: {evidence.calibration}, " in text
        elif evidence.calibration == "declared":
            assert "declared by the caller" in text
        else:
            assert "a proven bound" in text


ON_PAIRS = (
    "(1, 0.05)-differentially private, on average over a fresh pair and the sampled"
    " pairs"
)
FROM_SHAPE = "scale 0.25, whitened using 1500 other sampled pairs"


def test_text_says_what_the_risk_is_over_and_how_it_came_about():
    """Calibration, source of the risk, shape, and what post-processing leaves."""
    for case, rows in [
        (
            "exchangeable",
            [
                "pair of neighboring databases, for all outputs",
                "sensitivity number 1426 of 1500 sampled",
            ],
        ),
        ("bound", ["nothing: the level holds for every pair and output"]),
        ("both", ["the noise together", "critical scale number 1426 of", ON_PAIRS]),
        ("risk control", ["average of the exact risks of 1500 sampled pairs"]),
        ("whitened", [FROM_SHAPE]),
        ("unanswered", ["1500 sampled pairs; 7 without an answer count as infinite"]),
        ("known, gaussian", ["the noise, for every pair", "(1, 0.05)-differentially"]),
    ]:
        for row in rows:
            assert row in str(CASES[case])


@pytest.mark.parametrize(
    ("law", "norm"),
    [("laplace", "l1 norm"), ("gaussian", "l2 norm"), ("exponential", "sup norm")],
)
def test_text_says_in_which_norm_the_sensitivity_is(law, norm):
    """A number without its norm may be any of them."""
    given_ = certificate(law=law, noise_scale=2.0, delta=1e-6 * (law == "gaussian"))
    assert f"sensitivity: 0.25 ({norm})\n" in str(given_)
    assert f"0.25 ({norm})" in given_._repr_html_()


def test_guarantee_over_pairs_and_noise():
    """A bounded loss, not differential privacy for all outputs."""
    assert both().guarantee == (
        "For two databases that differ in one record (900 records, the public "
        "table): the privacy loss of the release exceeds 1 with probability at most "
        "0.05 over a fresh pair, its noise and the sampled pairs."
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
    assert "risk: 0.0123457 " in str(certificate(risk=0.01234561, order_index=1500))
    assert "risk: 0.07 " in str(certificate(risk=0.07))
    assert "at least 0.93 over" in str(certificate(risk=0.07))
    assert "privacy level epsilon: 1.00001\n" in str(certificate(epsilon=1.000001))
    assert "privacy level epsilon: inf\n" in str(CASES["no noise"])


def test_html_escapes_and_says_the_same():
    """No text of the caller is taken as HTML, and nothing of the text is left out."""
    given_ = certificate(
        reference="<script>alert('x')</script> & co", leaks=[Leak.PRIVATE_REFERENCE]
    )
    page = given_._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; co" in page
    assert page.count(LEAKS[Leak.PRIVATE_REFERENCE]) == 1
    assert LEAKS[Leak.PRIVATE_CLASSES] in CASES["private classes"]._repr_html_()
    assert LEAKS[Leak.PRIVATE_CLASSES] not in page
    for line in str(certificate()).splitlines()[1:]:
        name, _, value = line.strip().partition(": ")
        if name == "taken on the caller's word":  # not that it is public
            continue
        assert html.escape(name) in page
        assert name == "reference" or value in page


def test_a_law_of_less_loss_than_the_noise_has_is_refused():
    """A document that was edited cannot buy composition a smaller level."""
    document = CASES["gaussian"].to_dict()
    for edit in ({"shift": 0.19}, {"law": "laplace"}):
        wrong = document | {"loss": document["loss"] | edit}
        with pytest.raises(ValueError, match="loss must be the law of gaussian noise"):
            FiledCertificate.from_dict(wrong)


def test_a_filed_claim_prints_as_the_certificate_did(monkeypatch):
    """In the words of today, whatever the document said."""
    document = known("declared").to_dict() | {"version": "0.0.1"}
    monkeypatch.setitem(PROVISOS, Assumption.DECLARED_SENSITIVITY, "Declared.")
    assert FiledCertificate.from_dict(document).caveats == ("Declared.",)
    today = document | {"version": skparisk.__version__}
    with pytest.raises(ValueError, match=r"do not follow from the rest: .'caveats'"):
        FiledCertificate.from_dict(today)


def test_a_curve_may_be_infinite_and_is_never_written_to():
    """In strict JSON, and after a pickle."""
    given_ = certificate(curve=[[0.5, 0.3], [math.inf, 0.01]])
    read = FiledCertificate.from_dict(strict_json(given_.to_dict(curve=True)))
    np.testing.assert_array_equal(read.points(), given_.points())
    for other in (read, pickle.loads(pickle.dumps(given_)), copy.deepcopy(given_)):
        assert not other.evidence.curve.flags.writeable


def test_what_evidence_says_of_private_records_is_a_leak():
    """It cannot be edited away without the population."""
    private = certificate(
        population=Population.PRIVATE, leaks=[Leak.PRIVATE_REFERENCE], curve=None
    )
    document = private.to_dict() | {"leaks": [], "private": True, "version": "0.0.1"}
    with pytest.raises(ValueError, match=r"must have what follows.*private-reference"):
        FiledCertificate.from_dict(document)


# Levels for pair and noise together, of which no number but the curve tells


def sampled_claims(n_claims, rng):
    """Yield certificates of calibrated noise, for pair and noise together."""
    plans = itertools.product(("laplace", "gaussian"), ("exchangeable", "pac", "dkw"))
    for law, rule in itertools.islice(itertools.cycle(plans), n_claims):
        n_pairs = int(rng.choice([1, 2, 19, 20, 100, 300, 1000]))
        differences = rng.standard_t(3, (n_pairs, int(rng.choice([1, 2, 6]))))
        differences *= rng.random((n_pairs, 1)) < rng.uniform(0.1, 2)
        differences[rng.random(n_pairs) < 0.01] = math.inf
        target = Target(
            10 ** rng.uniform(-3, 3),
            float(rng.choice([0.05, 0.2, 0.9])),
            randomness="both",
        )
        # Of too few pairs for the risk.
        with contextlib.suppress(ValueError):
            yield calibrate(
                differences * 10 ** rng.uniform(-5, 5),
                target,
                law=law,
                rule=rule,
                n_records=100,
                random_state=rng.integers(2**31),
            )[1]


@pytest.mark.parametrize("n_claims", [200, pytest.param(6000, marks=pytest.mark.slow)])
def test_a_level_of_pair_and_noise_cannot_be_edited(n_claims):
    """Also where a document has not its curve; no honest one is refused."""
    n_read = 0
    for claim in sampled_claims(n_claims, np.random.default_rng(0)):
        document = claim.to_dict()
        assert len(json.dumps(document)) < 2000
        read = FiledCertificate.from_dict(strict_json(document))
        assert read == filed(claim)
        assert read.to_dict() == document
        assert len(read.evidence.curve) == 1
        assert read.risk_at(claim.epsilon) == claim.risk
        bare = dataclasses.replace(read.evidence, curve=None)
        with pytest.raises(ValueError, match=r"epsilon must be a level|risk must be"):
            dataclasses.replace(read, epsilon=0.87 * claim.epsilon)
        with pytest.raises(ValueError, match="epsilon must be a level"):
            dataclasses.replace(read, evidence=bare)
        n_read += 1
    assert n_read > n_claims / 5


def test_a_document_has_no_point_of_a_level_that_its_curve_does_not_know():
    """Only a claim that is void has such a curve."""
    void = both(curve=((2.0, 0.01),), leaks=[Leak.SEEDED_NOISE])
    assert "curve" not in void.to_dict()["evidence"]
    assert FiledCertificate.from_dict(void.to_dict()) == filed(void)
