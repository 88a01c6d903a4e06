"""Reports: one document as HTML, JSON and Markdown, with nothing in it that acts."""

import html
import json
import math
import re
import sys
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from certificate_cases import CASES, every_case
from certificates import certificate, minted

from skparisk import PrivacyLedger, SensitivitySampler
from skparisk import _words as words
from skparisk.core.claim import Doubt, Leak
from skparisk.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from skparisk.report import Policy, Report

EVIL = "</title><script>alert(1)</script> | * [x](javascript:1) `c` \x1b[31m\u202e\n# A"
POLICY = Policy(epsilon=1.0, gamma=0.05, reference_audited=True)
INSIDE = "inside the environment only: it was computed from private data without noise"


class Page(HTMLParser):
    """What a page has, by tag."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.levels = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A report of everything, with texts that would act if they could."""
    file = tmp_path_factory.mktemp("released") / "model <b>.bin"
    file.write_bytes(b"released")
    ledger = PrivacyLedger(2.0, 1e-6)
    ledger.spend(0.5, note=EVIL)
    return Report(
        certificate(reference=EVIL),
        ledger=ledger,
        policy=POLICY,
        files=[file],
        scores={EVIL: EVIL},
        about={"project": EVIL, "use": EVIL},
    )


@every_case
def test_a_report_says_what_the_certificate_says(given_):
    """In its words, whatever it claims; and what it leaves out is not there."""
    report = Report(given_, policy=POLICY)
    page = report.to_html().partition("<template")[0]
    shown = " ".join(" ".join(Page(page).words).split())
    assert given_.guarantee in shown
    assert all(text in shown for text in given_.caveats)
    for name, value in words.rows(given_):
        in_list = f"{value[0].upper()}{value[1:]}"
        if name == "what an attacker gains":
            in_list, *_ = in_list.partition(";")
        assert in_list in shown or value in shown
    assert ("does NOT stand" in report.verdict) is not given_.private


def test_texts_are_shown_as_they_are(evil):
    page = evil.to_html()
    found = Page(page)
    names = {tag for tag, _ in found.tags}
    assert not {"script", "b", "a", "img", "link", "iframe"} & names
    assert not [a for _, attrs in found.tags for a in attrs if a.startswith("on")]
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "</title><script>" in " ".join(found.words)
    lines = evil.to_markdown().splitlines()
    body = lines[lines.index("---", 1) :]
    assert "<script>" not in "\n".join(body)
    assert "[x](" not in "\n".join(body).replace("\\[x\\](", "")
    assert not any(line.startswith("# A") for line in lines)
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in body if line[:1] == "|"]
    assert set(cells) == {3}


def test_the_page_needs_nothing_else(evil):
    page = evil.to_html()
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href|url)\s*[=(]|@import|https?:", page)
    assert 'name="viewport"' in page.replace("'", '"')
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_a_ledger_is_reported_as_all_its_releases():
    ledger = PrivacyLedger(2.0)
    empty = Report(ledger)
    assert empty.document["ledger"]["releases"] == []
    assert empty.verdict == "Nothing was released yet."
    ledger.spend(0.5)
    ledger.spend(0.25)
    report = Report(ledger)
    assert report.certificate.epsilon == 0.75
    assert report.document["ledger"]["rows"]["head"] == ledger.head
    assert report.title == "Privacy report"


def test_what_was_fitted_and_mechanisms_are_reported():
    class Fitted:
        certificate_ = minted(0.5)

    report = Report(Fitted())
    assert report.document["details"]["released"] == {"model": "Fitted"}
    assert report.title == "Privacy report: Fitted"
    assert Report(LaplaceMechanism(1.0, 0.5)).certificate.epsilon == 0.5
    assert repr(report).startswith("Report('Privacy report: Fitted', id='")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("certificate", "epsilon"), 0.1, "edited since it was written"),
        (("created",), "2020-01-01T00:00:00Z", "edited since it was written"),
        (("files", 0, "sha256"), "0" * 64, "edited since it was written"),
        (("files", 0, "sha256"), "0", "must match"),
        (("schema_version",), 3, "must be one of"),
        (("decision", "checker"), "A. Steward", "edited since it was written"),
        (("certificate", "n_releases"), True, "of the type integer, got True"),
        (("certificate", "risk"), 2.0, "out of range"),
        (("certificate", "epsilon"), "NaN", "must match"),
        (("ledger", "releases", 0), [], "must have 4 entries"),
        (("versions", "numpy"), 2, "of the type string"),
        (("more",), 2, r"has the unknown \['more'\]"),
    ],
)
def test_edited_reports_are_refused(evil, place, value, message):
    document = json.loads(evil.to_json())
    *outer, last = place
    part = document
    for name in outer:
        part = part[name]
    part[last] = value
    with pytest.raises(ValueError, match=message):
        Report.from_dict(document)


def test_a_decision_is_a_new_report_that_names_the_one_decided_on(evil):
    assert set(evil.document["decision"].values()) == {""}
    decided = evil.decide(checker="A. Steward", decision="approved")
    assert evil.document["decides"] is None
    assert decided.document["decides"] == evil.id != decided.id
    assert about(decided, "Decision", "checker") == "A. Steward"
    assert about(decided, "Decision", "date").startswith("20")
    assert about(decided, "Decision", "decided on the report with the id") == evil.id
    assert Report.from_dict(decided.document).id == decided.id
    with pytest.raises(ValueError, match="checker and decision must be given"):
        evil.decide(checker="", decision="approved")


def test_a_page_is_verified_by_the_document_in_it(evil, tmp_path):
    """A signed paper has the id on each sheet, and its page says what the id is of."""
    page = tmp_path / "page.html"
    evil.save(page)
    assert Report.load(page).document == evil.document
    assert f"<footer>id {evil.id}</footer>" in evil.to_html()
    on_paper = "@page { @bottom-left { content: 'id %s'; } }"
    assert on_paper % evil.id in evil.to_html()
    assert "counter(page)" in evil.to_html()
    for old, new in (("at most 0.05", "at most 0.5"), ("</footer>", "0</footer>")):
        page.write_text(evil.to_html().replace(old, new, 1), "utf-8")
        with pytest.raises(ValueError, match="edited since it was written"):
            Report.load(page)
    page.write_text("<p>a page</p>")
    with pytest.raises(ValueError, match=r"must be a report, as \.json or \.html"):
        Report.load(page)


def test_a_page_of_another_version_may_look_otherwise(evil, tmp_path, monkeypatch):
    evil.save(tmp_path / "page.html")
    module = sys.modules[Report.__module__]
    monkeypatch.setattr(module, "__version__", "9.9")
    assert Report.load(tmp_path / "page.html").id == evil.id
    monkeypatch.setattr(module, "_GLOSSARY", ())
    with pytest.raises(ValueError, match="or this is another version than skparisk"):
        Report.load(tmp_path / "page.html")


def test_what_a_caveat_forbids_is_said_first():
    report = Report(minted(0.5, leaks=[Leak.CHOSEN], doubts=[Doubt.OUTLIER]))
    top = html.unescape(report.to_html().partition("<h2>")[0])
    for reason in report.certificate.caveats:
        assert reason in top
    assert "class='alarm'" in section(report, "How sure that is")


def test_the_schema_describes_all_that_is_written(evil):
    """And nothing else: each object of it is closed, but for texts by any name."""
    file = files("skparisk.report").joinpath("report.schema.json")
    schema = json.loads(file.read_text("utf-8"))
    assert set(schema["required"]) == set(evil.document)
    assert set(schema["properties"]["certificate"]["required"]) == set(
        minted(0.5).to_dict()
    )


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (0.5, {}, "source must be a fitted estimator"),
        (CASES["bound"], {"about": {"use": 3}}, "use must be a text, got 3"),
        (CASES["bound"], {"ledger": 3}, "must be None or a PrivacyLedger, got 3"),
        (CASES["bound"], {"policy": {}}, "must be None or a Policy"),
        (CASES["bound"], {"about": {"boss": "x"}}, "about must have keys among"),
        (CASES["bound"], {"details": {"x": {}}}, "details must have keys among"),
    ],
)
def test_what_cannot_be_reported_is_refused(source, options, message):
    with pytest.raises(ValueError, match=message):
        Report(source, **options)


@pytest.mark.parametrize(
    ("claim", "unit"),
    [
        (minted(0.5), "one record (one row)"),
        (minted(0.5, unit="person"), "one person, with all of their rows"),
        (minted(0.5, unit=None), "one of what it does not state"),
        (CASES["secret"], "which of the records are used"),
    ],
)
def test_the_unit_of_protection_is_told(claim, unit):
    """In the first line, and in the table."""
    report = Report(claim)
    assert f"it protects {unit}" in report.verdict
    assert f"| protected | {unit}" in report.to_markdown().replace("\\", "")


def section(report, title):
    """Return a section of the page."""
    page = report.to_html()
    return page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]


@pytest.mark.parametrize(
    ("case", "told"), [("exchangeable", True), ("bound", False), ("secret", False)]
)
def test_people_unlike_the_reference_are_not_protected(case, told):
    """Where pairs come from a public one."""
    text = section(Report(CASES[case]), "Whom it protects, and whom not")
    assert ("People unlike those in the reference" in text) == told


def about(report, title, name):
    """Return what one row of a section says, None if there is no such row."""
    row = rf"<th scope='row'>{re.escape(name)}</th><td>(.*?)</td>"
    found = re.findall(row, section(report, title))
    return html.unescape(found[0]) if found else None


def error_of(report):
    return about(report, "How good it is", "error by the noise")


@pytest.fixture(scope="module", params=["isotropic", "diagonal", "whitened"])
def sampler(request):
    scales = np.array([1.0, 30.0, 900.0])
    public = np.random.default_rng(0).exponential(size=(300, 3)) * scales
    sampler = SensitivitySampler(
        lambda X: X.mean(axis=0),
        epsilon=1.0,
        gamma=0.2,
        noise_shape=request.param,
        n_records=50,
        n_pairs=60,
        random_state=0,
    )
    return sampler.fit(public)


def test_the_error_is_a_number_for_noise_of_every_shape(sampler):
    """Of a sampler and of what has one; the certificate alone does not know it."""
    deviations = np.sqrt(np.diag(sampler.mechanism_.covariance()))

    class Fitted:
        sampler_, certificate_ = sampler, sampler.certificate_

    for source in (sampler, Fitted()):
        report = Report(source)
        noise = report.document["noise"]
        assert noise["typical"] == pytest.approx(np.sqrt(np.mean(deviations**2)))
        assert noise["least"] == pytest.approx(deviations.min())
        assert noise["most"] == pytest.approx(deviations.max())
        same = sampler.certificate_.evidence.noise_shape == "isotropic"
        assert ("a typical number, from" in error_of(report)) is not same
        assert f"{noise['typical']:.2g}" in error_of(report)
        assert INSIDE not in error_of(report)
    assert error_of(Report(sampler.certificate_)) is None


@pytest.mark.parametrize(
    ("source", "typical"),
    [
        (LaplaceMechanism(1.0, 0.5), 2 * math.sqrt(2)),
        (GaussianMechanism(1.0, 0.5, 1e-6), None),
        (LaplaceMechanism(1.0, math.inf), 0.0),
        (LaplaceMechanism(1e308, 0.6), None),
        (certificate(), None),
        (ExponentialMechanism(1.0, 0.5), None),
        (minted(0.5), None),
    ],
)
def test_the_error_is_told_where_it_is_known(source, typical):
    report = Report(source)
    noise = report.document["noise"]
    if isinstance(source, GaussianMechanism):
        typical = source.noise_scale
    if typical is None:
        assert noise is None
        assert error_of(report) is None
    else:
        assert noise == pytest.approx(dict.fromkeys(noise, typical))
        assert f"{typical:.2g} for each number" in error_of(report)


def test_an_error_that_private_data_set_stays_inside():
    report = Report(certificate(leaks=[Leak.PRIVATE_REFERENCE], curve=None))
    assert INSIDE in error_of(report)
    assert about(report, "The certificate", "sensitivity and noise scale") == INSIDE
