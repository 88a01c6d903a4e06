"""A report as the records that ACRO and the registry of deployments keep."""

import json
import re

import pytest
from certificate_cases import CASES, every_case
from certificates import certificate, minted

from skparisk import PrivacyLedger
from skparisk import _words as words
from skparisk._text import printable
from skparisk.report import Policy, Report

EVIL = '# "a": \\ \x1b[31m\u202e\n- &b *c {d} [e] \x85 \ud83d %f'
# Of results.json, in ACRO 1.0.2, and what it reads of each output.
ACRO = {"version", "tool", "results"}
OUTPUT = {"uid", "status", "type", "properties", "files", "outcome", "command"}
OUTPUT |= {"summary", "timestamp", "comments", "exception", "fair"}
# What the schema of the registry demands.
BASIC = {"name", "data_curators", "description", "intended_use", "data_product_type"}
BASIC |= {"data_product_region", "publication_date"}


def read(text):
    """Return what YAML of our few kinds of lines holds, by its path."""
    found, above, block = {}, [], None
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        if block is not None and depth > len(block) - 1:
            found[block].append(line.strip())
            continue
        block = None
        if line.startswith("#"):
            continue
        name, value = re.fullmatch(r" *(\w+):(?: (.*))?", line).groups()
        above = [*above[:depth], name]
        if value in (None, "|"):
            block = tuple(above)
            found[block] = []
        else:
            quoted = value.startswith('"')
            found[tuple(above)] = json.loads(value) if quoted else value
        if value is None and name not in ("data_curators", "registry_authors"):
            block = None
    return found


def variant_of(claim, **declared):
    found = read(Report(claim, **declared).to_registry())
    parameters = {
        path[-1]: float(value)
        for path, value in found.items()
        if path[-2:-1] == ("privacy_parameters",)
    }
    details = "\n".join(
        found["deployment", "privacy_loss", "privacy_parameters_details"]
    )
    return found["deployment", "dp_variant", "variant_name"], parameters, details


@pytest.mark.parametrize(
    ("claim", "variant", "parameters"),
    [
        (minted(1e-6), "Pure DP", {"epsilon": 1e-6}),
        (minted(0.0), "Pure DP", {"epsilon": 0.0}),
        (CASES["declared"], "Pure DP", {"epsilon": 1.0}),
        (minted(1.0, 1e-7), "Approximate DP", {"epsilon": 1.0, "delta": 1e-7}),
        (CASES["known, gaussian"], "Approximate DP", {"epsilon": 1.0, "delta": 0.05}),
        (CASES["exchangeable"], "Custom", {"epsilon": 1.0}),
        (CASES["both, pac"], "Custom", {"epsilon": 1.0}),
        (CASES["approximate"], "Custom", {"epsilon": 1.0, "delta": 1e-6}),
        (CASES["private classes, bound"], "Custom", {"epsilon": 1.0}),
        (
            CASES["secret"],
            "Custom",
            {"epsilon": 1.0},
        ),
    ],
)
def test_the_variant_is_stated(claim, variant, parameters):
    """A risk that is over pairs is in no parameter that could be taken for a delta."""
    found, numbers, _ = variant_of(claim)
    assert found == variant
    assert numbers == pytest.approx(parameters)


@every_case
def test_the_risk_goes_into_the_details(given_):
    if given_.void:
        with pytest.raises(ValueError, match="no guarantee that could be registered"):
            Report(given_).to_registry()
        return
    _, _, details = variant_of(given_)
    assert given_.guarantee in details
    assert ("fails with a risk of" in details) is bool(given_.risk)
    assert ("fraction 0.05" in details) is bool(given_.failure_prob)
    said = (*given_.conditions, *words.doubts(given_), *words.provisos(given_))
    assert all(text in details for text in said)


def test_nothing_that_is_not_released_is_in_a_public_record():
    """No score, no scale of noise and no ledger."""
    ledger = PrivacyLedger(7.0)
    ledger.spend(0.5, note="first")
    claim = certificate(noise_scale=0.31250001, sensitivity=0.31250001)
    report = Report(claim, scores={"accuracy": 0.8125}, ledger=ledger)
    text = report.to_registry()
    assert not re.search(r"0\.3125|0\.8125|first|epsilon 7", text)
    text = Report(CASES["private reference"]).to_registry()
    assert "- The neighboring databases were sampled from the private data" in text


def test_a_draft_has_all_that_the_registry_demands():
    found = read(Report(minted(1.0), project="wages").to_registry())
    names = {path[2] for path in found if path[1:2] == ("basic",) and path[2:]}
    assert names == BASIC | {"data_curators"}
    assert found["status",] == "Draft"
    assert (
        found["url_slug",]
        == "wages-todo-who-publishes-it-"
        + (found["deployment", "basic", "publication_date"][:4])
    )
    several = minted(1.0, group_size=3, method="group", n_releases=2)
    text = Report(several).to_registry()
    assert '"Any 3 records together"' in text
    assert '"Many releases"' in text


def test_declared_texts_stay_one_value():
    declared = dict.fromkeys(("project", "data_set", "product", "use"), EVIL)
    plain = read(Report(CASES["pac"], project="a", product="b").to_registry())
    text = Report(CASES["pac"], **declared).to_registry()
    found = read(text)
    assert set(found) == set(plain)
    assert all(char.isprintable() for line in text.splitlines() for char in line)
    assert found["deployment", "basic", "intended_use"] == printable(EVIL)


@every_case
def test_acro_is_never_told_pass(given_):
    policy = Policy(epsilon=2.0, gamma=0.2)
    for report in (Report(given_), Report(given_, policy=policy)):
        record = json.loads(report.to_acro(), parse_constant=pytest.fail)
        assert set(record) == ACRO
        (output,) = record["results"].values()
        assert set(output) == OUTPUT
        assert output["status"] == ("review" if given_.private else "fail")
        assert given_.guarantee in output["summary"]
        assert output["properties"]["risk"] == given_.risk
        said = " ".join(output["comments"])
        assert all(text in said for text in given_.caveats + given_.conditions)
    assert set(output["outcome"]) == {"passed", "found", "required"}
    assert set(output["outcome"]["passed"]) == {"guarantee", "epsilon", "gamma"}


def test_acro_is_told_of_files_and_broken_rules(tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(b"released")
    report = Report(minted(2.0), policy=Policy(epsilon=1.0), files=[file])
    report.save(tmp_path / "x.acro.json")
    record = json.loads((tmp_path / "x.acro.json").read_text("utf-8"))
    output = record["results"]["output_0"]
    assert output["status"] == "fail"
    assert output["outcome"]["passed"]["epsilon"] is False
    assert output["files"] == [{"name": "model.bin", "sdc": {}}]
    assert (
        output["properties"]["sha256"]["model.bin"]
        == report.document["files"][0]["sha256"]
    )
    report.save(tmp_path / "x.yaml")
    assert (tmp_path / "x.yaml").read_text("utf-8") == report.to_registry()
