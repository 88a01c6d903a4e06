"""The command line: from a CSV to a filed report, and what is refused on the way."""

import builtins
import contextlib
import functools
import hashlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import pandas as pd
import pytest
import skops.io
from certificates import certificate, filed
from command_lines import FIT, SCORE, N, fill, fit_argv, load_model, refused, table

from skparisk import PrivacyLedger, PrivateRidge, Report
from skparisk.__main__ import main
from skparisk.core.claim import Leak, as_certificate
from skparisk.exceptions import UnrecordedReleaseError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filed")
    fill(folder)
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_a_fit_writes_a_model_and_reports_and_is_charged(folder):
    model = load_model(folder / "model.skops")
    report = Report.load(folder / "r.json")
    assert report.certificate == filed(model.certificate_)
    assert report.certificate.private
    assert report.document["declared"]["project"] == "wages <b>"
    assert [check["passed"] for check in report.document["checks"]] == [True] * 3
    assert (folder / "r.html").read_text("utf-8") == report.to_html()
    assert str(folder) not in report.to_json()
    (score,) = report.document["scores"]
    assert score["private"]
    assert score["name"] == "mean_absolute_error of private.csv"
    assert "240 records, epsilon 0.5" in score["value"]
    assert "inside the environment only" not in report.to_html()
    assert PrivacyLedger.open(folder / "budget.ledger").spent.epsilon == 2.5
    records = table(2)[["age", "hours", "job"]].astype({"age": float})
    assert model.predict(records).shape == (N,)


def test_what_is_no_number_counts_as_missing(folder, capsys):
    """Without a word: only public records decide what a column holds."""
    frame = pd.read_csv("private.csv", dtype=str)
    frame.loc[0, "hours"] = "secret"
    frame.loc[1, "age"] = "inf"
    frame.to_csv("odd.csv", index=False)
    argv = fit_argv("odd", "--json")
    argv[1] = "odd.csv"
    assert main(argv) == 0
    printed = capsys.readouterr()
    assert "secret" not in printed.out + printed.err
    summary = json.loads(printed.out)
    assert summary["certificate"]["epsilon"] == 2.0
    assert summary["checks"] is None
    assert summary["files"][0]["name"] == "odd.skops"
    assert isinstance(summary["hint"], str)


@pytest.mark.slow
def test_classes_are_those_of_the_reference():
    argv = ["fit", "private_classes.csv", "--target", "high", "--estimator"]
    argv += ["logistic", *FIT, "--reference", "public_classes.csv"]
    assert main([*argv, "--output", "classes.skops"]) == 0
    assert list(load_model("classes.skops").classes_) == ["no", "yes"]


@pytest.mark.slow
@pytest.mark.parametrize("label", [None, "Maria Huber"])
def test_a_label_that_is_no_class_is_not_told(label, folder):
    frame = pd.read_csv("private_classes.csv", dtype=str)
    frame.loc[3, "high"] = label
    frame.to_csv("labels.csv", index=False)
    argv = ["fit", "labels.csv", "--target", "high", "--estimator", "logistic", *FIT]
    argv += ["--reference", "public_classes.csv", "--output", f"label_{label}.skops"]
    argv += ["--test", "labels.csv", "--score", "accuracy", "--score-epsilon", "1"]
    assert main(argv) == 0


SCHEMA = """target = "wage"
[columns."age"]
whole = [18, 90]
[columns."hours"]
range = [0, 80]
[columns."job"]
categories = ["nurse", "clerk"]
[columns."wage"]
range = [0, 2000]
"""


@pytest.mark.slow
def test_a_secret_sample_takes_what_columns_hold_from_a_schema(folder, capsys):
    (folder / "declared.toml").write_text(SCHEMA)
    given = ("--schema", "declared.toml", "--secret-sample", "0.5")
    argv = fit_argv("secret", reference=given)
    # Of a table there is one secret sample.
    table(9).to_csv("others.csv", index=False)
    argv[1] = "others.csv"
    PrivacyLedger(9.0, path=folder / "secret.ledger")
    assert main([*argv, "--ledger", "secret.ledger"]) == 0
    again = fit_argv("again", "--ledger", "secret.ledger", reference=given)
    assert "draw another one of the same people" in refused(again, capsys)
    model = load_model("secret.skops")
    assert model.certificate_.protects_membership
    assert model.certificate_.private
    records = table(2)[["age", "hours", "job"]].astype({"age": float})
    assert model.predict(records).shape == (N,)


def test_verify_passes_what_was_written(capsys):
    argv = ["verify", "r.json", "model.skops", "--ledger", "budget.ledger"]
    assert main(argv) == 0
    first, *printed = capsys.readouterr().out.splitlines()
    assert first == Report.load("r.json").verdict
    assert [line[:4] for line in printed] == ["pass"] * 3
    assert main([*argv, "--json"]) == 0
    assert all(each["passed"] for each in json.loads(capsys.readouterr().out))


EDITS = {
    "r.html": {
        "the level of the verdict": ("at epsilon 2", "at epsilon 1"),
        "the risk": ("<td>0.16</td>", "<td>0.06</td>"),
        "the policy": ("<td>kept</td>", "<td>kept, all</td>"),
        "a rule": ("(required: at most 2.5)", "(required: at most 2)"),
        "the unit": ("one record (one row)", "one person"),
        "a decision": ("<td>................................</td>", "<td>yes</td>"),
        "a condition": ("<li>The reference that", "<li hidden>The reference that"),
        "the id at the foot": ("<footer>id ", "<footer>id 0"),
        "the id on paper": ("content: 'id ", "content: 'id 0"),
        "a style": (".alarm {", ".alarm { display: none;"),
        "a script": ("</head>", "<script>1</script></head>"),
        "who may load what": ("default-src 'none'", "default-src *"),
        "text behind the end": ("</html>", "</html><p>approved</p>"),
        "a space": ("<main>", "<main> "),
        "the document in it": ("&quot;epsilon&quot;: 2.0", "&quot;epsilon&quot;: 1.0"),
        "no document": ("<template id='document'>", "<template>"),
        "another document": (
            "<footer>",
            "<template id='document'>{}</template><footer>",
        ),
    },
    "r.json": {
        "a number": ('"epsilon": 2.0', '"epsilon": 1.0'),
        "a declaration": ("made up, 2026", "real"),
        "a check": ('"passed": true', '"passed": false'),
        "a hash of a file": ('"sha256": "', '"sha256": "0'),
        "a sum of the ledger": ('"spent": "epsilon 2.5', '"spent": "epsilon 0.5'),
        "the time": ('"created": "2', '"created": "3'),
        "the id": ('"id": "', '"id": "0'),
        "a name twice": ('"created"', '"created": "2000-01-01T00:00:00Z", "created"'),
        "one more": ('"created"', '"more": 1, "created"'),
        "another kind": ("skparisk.report", "skparisk.certificate"),
    },
}


@pytest.mark.parametrize(
    ("name", "edit"), [(name, edit) for name in EDITS for edit in EDITS[name]]
)
def test_verify_notices_each_edit(name, edit, folder, capsys):
    text = (folder / name).read_text("utf-8")
    old, new = EDITS[name][edit]
    assert old in text
    (folder / f"edit_{name}").write_text(text.replace(old, new, 1), "utf-8")
    assert main(["verify", f"edit_{name}"]) == 1
    assert capsys.readouterr().out.startswith("FAIL")


def test_edits_that_change_no_word_are_not_noticed(folder):
    """As the page says: spaces in JSON, ends of lines, names of files."""
    document = json.loads((folder / "r.json").read_text())
    (folder / "spaces.json").write_text(json.dumps(document, indent=4))
    assert main(["verify", "spaces.json"]) == 0
    page = (folder / "r.html").read_bytes().replace(b"\n", b"\r\n")
    (folder / "ends.html").write_bytes(page)
    shutil.copy("model.skops", "renamed.skops")
    assert main(["verify", "ends.html", "renamed.skops"]) == 0


def test_the_report_says_what_was_released_and_from_which_reference(folder):
    details = Report.load("r.json").document["details"]
    assert details["released"] == {
        "model": "Ridge",
        "columns": "age, hours, job",
        "numbers with noise": "6",
        "target": "wage",
        "columns left out": "none",
        "numbers clipped to": details["released"]["numbers clipped to"],
        "target clipped to": details["released"]["target clipped to"],
        "prepared": details["released"]["prepared"],
    }
    assert details["released"]["numbers clipped to"].startswith("age 18 to 89; hours ")
    digest = hashlib.sha256((folder / "public.csv").read_bytes()).hexdigest()
    assert details["reference"] == {
        "file": "public.csv",
        "SHA-256": digest,
        "rows": str(N),
    }


def test_scores_stand_beside_those_of_public_records_and_of_a_constant(capsys):
    argv = ["fit", "private_classes.csv", "--target", "high", "--estimator"]
    argv += ["logistic", *FIT, "--epsilon", "20", "--reference", "public_classes.csv"]
    assert main([*argv, "--output", "majority.skops"]) == 0
    printed = capsys.readouterr().out
    counts = pd.read_csv("public_classes.csv")["high"].value_counts(normalize=True)
    assert f"score of a constant prediction: {counts.max():.2g}\n" in printed
    assert "score of public records alone: " in printed
    assert "score of the private model: " in printed
    assert "score without noise: not told" in printed


def test_verify_says_that_an_id_alone_is_no_proof(capsys):
    """Whoever edits a report can write an id that fits."""
    leaky = filed(as_certificate(0.1).weaken(leaks=[Leak.CHOSEN]))
    Report(replace(leaky, leaks=[])).save("forged.json")
    assert main(["verify", "forged.json"]) == 0
    told = capsys.readouterr().out
    assert Report.load("forged.json").id in told
    assert "Compare it with the id that was filed" in told
    assert "as it was written" not in told
    for command in ("verify", "check"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert "no signature" in " ".join(capsys.readouterr().out.split())


def test_verify_refuses_a_certificate_that_the_model_does_not_hold(folder, capsys):
    """Also in a report that was written anew, with an id that fits."""
    forged = Report(as_certificate(0.1), files=["model.skops"])
    forged.save("forged.json")
    assert main(["verify", "forged.json", "model.skops"]) == 1
    assert "it holds another certificate" in capsys.readouterr().out


def test_verify_refuses_a_cut_ledger(folder, capsys):
    ledger = PrivacyLedger(3.0, path="cut.ledger")
    ledger.spend(1.0)
    assert main(["verify", "r.json", "--ledger", "cut.ledger"]) == 1
    assert "has no line with the hash" in capsys.readouterr().out
    Report(as_certificate(0.5), files=["policy.toml"]).save("none.json")
    argv = ["verify", "none.json", "policy.toml", "--ledger", "cut.ledger"]
    assert main(argv) == 1
    assert "is about no ledger" in capsys.readouterr().out


@pytest.mark.parametrize(
    "edit",
    [
        lambda ledger: ledger["rows"].update(budget="epsilon 1, any risk"),
        lambda ledger: ledger["rows"].update(spent="epsilon 0.01"),
        lambda ledger: ledger["rows"].update(more="nothing"),
        lambda ledger: ledger["releases"].pop(),
        lambda ledger: ledger["releases"][0].__setitem__(3, "a test"),
        lambda ledger: ledger["releases"].append(["9", "now", "epsilon 1", ""]),
    ],
)
def test_verify_notices_what_the_ledger_did_not_hold(edit, capsys):
    """Also in a report that was written anew, with an id and a head that fit."""
    document = Report.load("r.json").document
    edit(document["ledger"])
    del document["id"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["id"] = hashlib.sha256(text.encode()).hexdigest()
    Report.from_dict(document).save("edited.json")
    assert main(["verify", "edited.json", "--ledger", "budget.ledger"]) == 1
    told = capsys.readouterr().out
    assert "pass  edited.json" in told
    assert "FAIL  budget.ledger: the report shows another budget" in told


@pytest.mark.parametrize("composition", ["basic", "advanced"])
def test_verify_looks_at_the_ledger_of_then(composition):
    """Charges that were added later are none of the report."""
    path = f"{composition}.ledger"
    ledger = PrivacyLedger(3.0, 1e-6, composition=composition, path=path)
    for name, charge in (("none", ()), ("two", ((0.5,), (0.25,))), ("three", (1.0,))):
        ledger.spend(*charge, note="a note")
        Report(ledger).save(f"{name}.json")
    ledger.spend(0.125)
    for name in ("none", "two", "three"):
        main(["report", f"{name}.json", "--output", f"{name}.html", "--force"])
        assert main(["verify", f"{name}.html", "--ledger", path]) == 0


def test_check_has_a_line_for_each_rule_and_an_exit_code(folder, capsys):
    assert main(["check", "r.json", "--policy", "policy.toml"]) == 0
    assert capsys.readouterr().out.count("pass  ") == 3
    assert main(["check", "r.json", "--policy", "strict.toml"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in printed] == ["pass", "FAIL", "FAIL"]
    (folder / "c.json").write_text(json.dumps(as_certificate(0.5).to_dict()))
    assert main(["check", "c.json", "--policy", "policy.toml", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def test_reports_of_models_certificates_and_reports(folder, capsys):
    (folder / "c.json").write_text(json.dumps(certificate().to_dict()))
    argv = ["report", "c.json", "--output", "c.md", "--policy", "strict.toml"]
    assert main([*argv, "--ledger", "budget.ledger", "--about", "about.toml"]) == 0
    assert "| data set (declared) | made up" in (folder / "c.md").read_text("utf-8")
    assert main(["report", "model.skops", "--output", "again.json"]) == 0
    files = Report.load(folder / "again.json").document["files"]
    assert files == Report.load(folder / "r.json").document["files"]
    assert main(["report", "r.json", "--output", "again.html"]) == 0
    assert (folder / "again.html").read_text() == (folder / "r.html").read_text()
    argv = ["report", "r.json", "--output", "x.html", "--about", "about.toml"]
    assert "nothing can be added; got about" in refused(argv, capsys)


def test_a_ledger_is_created_shown_and_exported(folder, capsys):
    argv = ["ledger", "create", "new.ledger", "--epsilon", "1", "--delta", "1e-6"]
    assert main(argv) == 0
    assert main(["ledger", "show", "new.ledger", "--json"]) == 0
    out = capsys.readouterr().out
    shown = json.loads(out[out.index("\n{") :])
    assert shown["rows"]["budget"] == "epsilon 1, delta 1e-06, any risk"
    argv = ["ledger", "show", "new.ledger", "--head", shown["rows"]["head"]]
    assert main(argv) == 0
    assert "epsilon 1, delta 1e-06" in capsys.readouterr().out
    assert main(["ledger", "export", "new.ledger", "new.jsonl"]) == 0
    assert shown["rows"]["head"] in (folder / "new.jsonl").read_text()
    assert (folder / "new.jsonl").stat().st_mode & 0o777 == 0o600
    argv = ["ledger", "export", "new.ledger", "new.jsonl"]
    assert "or --force" in refused(argv, capsys)
    assert main([*argv, "--force"]) == 0
    with full_disk(100):
        assert "File too large" in refused([*argv[:-1], "half.jsonl"], capsys)
    assert not [*folder.glob("*half.jsonl*")]
    assert "--head" not in refused(["ledger", "show", "no.ledger"], capsys)


@pytest.mark.parametrize("name", ["private", "private_numbers"])
def test_the_private_records_are_refused_as_the_reference(name, folder, capsys):
    """Also a few of them."""
    pd.read_csv(f"{name}.csv")[:30].to_csv("part.csv", index=False)
    argv = fit_argv("leak", reference=("--reference", "part.csv"))
    argv[1] = f"{name}.csv"
    assert "this would not be private: Neighboring" in refused(argv, capsys)
    assert not (folder / "leak.skops").exists()


BAD = {
    "fit x.csv": "the following arguments are required",
    "--epsilon -1": "epsilon must be a number in (0, inf], got -1.0",
    "--schema s.toml": "give one of --reference and --schema",
    "--report x.html --report ./x.html": "give each --report another file",
    "--output bad.json": "--output must end in .skops",
    f"--report {'x' * 300}.html": "File name too long",
    "--test private.csv --score mean_squared_error --score-epsilon 1 "
    "--target-bounds 0 1e200": "between 1e-75 and 1e+75 apart",
    "--drop wage": "--drop must not be the target, 'wage'",
    "--drop weight": "'public.csv' has no column 'weight' to --drop",
    "--policy strict.toml": "'strict.toml' would be broken: FAIL epsilon: 2",
    "--policy risky.toml": "would be broken: FAIL gamma: 0.2 (required: at most 0.01)",
    "--policy related.toml": "would be broken: FAIL relation: replace-one",
    "--policy policy.toml --secret-sample 0.5": "FAIL public_reference: a sample of",
    "--policy audited.toml --secret-sample 0.5": "FAIL reference_audited: not audited",
    "--epsilon inf": "--epsilon must be smaller, got inf. epsilon is infinite",
    "--epsilon 24": "--epsilon must be smaller, got 24. At this level odds of one in",
    f"--test private.csv {' '.join(SCORE)} --target-bounds 0 9 --score-epsilon 99": (
        "--score-epsilon must be smaller, got 99"
    ),
    "--policy public.csv": "'public.csv' must be a file of TOML",
    f"--test private.csv {' '.join(SCORE)} --target-bounds 0 9 --score-epsilon 1e-15": (
        "epsilon must be at least"
    ),
    "--target high": "that begins with a line of the names of its columns",
    "--report r.pdf": "must end in .html, .json, .md, got 'r.pdf'",
    "--report r.html": "'r.html' must be a new file: it is there already",
    "--output no/x.skops": "must be a new file in a folder that exists",
    "--reference binary.csv": "'binary.csv' must be in UTF-8",
    "--reference more.csv": "'private.csv' lacks the columns ['more']",
    "--ledger no.ledger": "no.ledger",
    "--ledger small.ledger": "the budget of the ledger has no room",
    "--test private.csv": "give --test, --score and --score-epsilon together",
    "--target-bounds 0 1": "and bounds of the target only with them",
    "--test private.csv --score accuracy --score-epsilon 1": (
        "must be one of mean_absolute_error, mean_squared_error with --estimator ridge"
    ),
    f"--test private.csv {' '.join(SCORE)}": "--target-bounds: y_bounds must be two",
    "--secret-sample 2": "argument --secret-sample: fraction must be a number",
    "--secret-sample half": "fraction must be a number in (0, 1), got 'half'",
    f"--test none.csv {' '.join(SCORE)} --target-bounds 0 9": (
        "'none.csv' must be a CSV that begins with a line of the names of its columns"
    ),
    f"--test private.csv {' '.join(SCORE)} --target-bounds 0 9 --ledger two.ledger": (
        "no room for epsilon 2.5, risk 0.2. Its limit is epsilon 2.25"
    ),
}


@pytest.mark.parametrize("more", BAD)
def test_bad_fits_are_refused_in_one_line(more, folder, capsys):
    """And leave nothing behind."""
    (folder / "binary.csv").write_bytes(b"\xff\xfe\0")
    table(1).drop(columns="high").assign(more=1).to_csv("more.csv", index=False)
    if not (folder / "small.ledger").exists():
        PrivacyLedger(0.5, path="small.ledger")
        PrivacyLedger(2.25, path="two.ledger")
    (folder / "audited.toml").write_text("reference_audited = true\n")
    (folder / "risky.toml").write_text("gamma = 0.01\n")
    (folder / "related.toml").write_text('relation = "add-remove"\n')
    pd.read_csv("private.csv")[:0].to_csv("none.csv", index=False)
    argv = more.split()
    argv = argv if argv[0] == "fit" else fit_argv("bad", *argv)
    assert BAD[more] in refused(argv, capsys)
    assert not (folder / "bad.skops").exists()


def test_a_report_that_cannot_be_written_is_refused_before_the_fit(
    folder, capsys, monkeypatch
):
    """Whatever the reason is: a release that was drawn cannot be taken back."""

    def fail(report):
        raise ValueError("no such text")

    monkeypatch.setattr(Report, "to_markdown", fail)
    assert "no such text" in refused(fit_argv("bad", "--report", "bad.md"), capsys)
    assert not (folder / "bad.skops").exists()


def test_a_table_without_a_head_is_not_shown(folder, capsys):
    argv = fit_argv("bad")
    argv[1] = "odd.csv"
    (folder / "odd.csv").write_text("35,Maria Huber,1\n40,Jo,0\n")
    assert "Huber" not in refused(argv, capsys)


NOT_TOLD = ["Maria Huber", "1e999", "-inf", "0x1F", "9" * 400, "\x00", '"', "\u202e"]


@pytest.mark.slow
@pytest.mark.parametrize("value", NOT_TOLD)
def test_no_private_value_is_told_or_refused(value, folder, capfd):
    """Whatever stands in one cell: in a column of numbers, of words, in the target."""
    frame = pd.read_csv("private.csv", dtype=str)
    for column in ("age", "job", "wage"):
        frame.loc[3, column] = value
    frame.to_csv("strange.csv", index=False)
    argv = fit_argv(f"strange{NOT_TOLD.index(value)}", "--json")
    argv[1] = "strange.csv"
    assert main(argv) == 0
    told = "".join(capfd.readouterr())
    assert value in ('"', "-inf") or value not in told


def test_a_fault_of_the_program_tells_no_values(monkeypatch, capsys):
    def fail(*given, **more):
        raise KeyError("Maria Huber")

    monkeypatch.setattr("skparisk._cli.filing.read_claim", fail)
    assert main(["check", "r.json", "--policy", "policy.toml"]) == 4
    told = capsys.readouterr().err
    assert "a fault of the program, KeyError in line" in told
    assert "Huber" not in told


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "r.json", "--policy", "strict.toml"],
        ["verify", "r.json", "policy.toml"],
        ["check", "r.json", "--policy", "policy.toml"],
        ["verify", "r.json", "model.skops"],
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_exit_code_does_not_depend_on_who_reads(argv, stream, monkeypatch):
    """A pipe that is closed before anything is written to it."""
    expected = int("strict.toml" in argv or argv[2] == "policy.toml")
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        monkeypatch.setattr(sys, stream, closed)
        assert main(argv) == expected


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_process():
    """Also where the end of the output is written when the process ends."""
    run = [sys.executable, "-m", "skparisk", "check", "r.json", "--policy"]
    for policy, code in (("strict.toml", 1), ("policy.toml", 0)):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([*run, policy], check=False, stdout=write)
        os.close(write)
        assert done.returncode == code


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "r.json", "--policy", "strict.toml"],
        ["verify", "r.json", "model.skops", "--ledger", "budget.ledger"],
        ["ledger", "show", "budget.ledger"],
        ["ledger", "show", "endless.ledger"],
        ["check", "endless.json", "--policy", "strict.toml"],
        ["verify", "endless.json", "--ledger", "endless.ledger"],
        ["fit", *fit_argv("in_json", "--ledger", "endless.ledger")[1:]],
    ],
)
def test_json_is_strict(argv, folder, capsys):
    """Also without a guarantee, and alone on standard output."""
    if not (folder / "endless.ledger").exists():
        ledger = PrivacyLedger(math.inf, path=folder / "endless.ledger")
        ledger.spend(math.inf)
        Report(ledger).save(folder / "endless.json")
    assert main([*argv, "--json"]) in (0, 1, 3)
    json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("skparisk.tables", "import_module"),  # which it imports
        ("skparisk.core.release", "hide_values"),  # which calls what it is given
        ("skparisk._cli.filing", "Path"),
        ("skparisk.no_module", "Class"),
        ("skparisk.__main__", "Parser"),
    ],
)
def test_a_model_file_calls_nothing_but_classes_of_the_library(
    module, name, folder, capsys
):
    skops.io.dump(("os",), "calls.skops")
    with zipfile.ZipFile("calls.skops") as file:
        given = json.loads(file.read("schema.json"))
    call = {"__module__": module, "__class__": name, "content": dict(given)}
    call |= {"__loader__": "ConstructorFromReduceNode", "__id__": 1}
    with zipfile.ZipFile("calls.skops", "w") as file:
        file.writestr("schema.json", json.dumps(given | call))
    argv = ["report", "calls.skops", "--output", "x.html"]
    assert f"not of skparisk: ['{module}.{name}']" in refused(argv, capsys)


@pytest.mark.slow
def test_words_in_a_secret_sample_take_their_structure_from_a_reference():
    assert main(fit_argv("both", "--secret-sample", "0.5")) == 0
    assert load_model("both.skops").certificate_.protects_membership


def test_models_that_could_run_anything_are_refused(folder, capsys):
    moving = functools.partial(shutil.move, "a", "b")
    skops.io.dump({"f": UnrecordedReleaseError, "g": moving}, "evil.skops")
    argv = ["report", "evil.skops", "--output", "x.html"]
    assert "holds what is not of skparisk: ['shutil.move']" in refused(argv, capsys)
    skops.io.dump(PrivateRidge(), "unfitted.skops")
    argv = ["report", "unfitted.skops", "--output", "x.html"]
    assert "holds no fitted model" in refused(argv, capsys)
    (folder / "no.skops").write_text("no archive")
    argv = ["report", "no.skops", "--output", "x.html"]
    assert "must be a model file of skops" in refused(argv, capsys)
    (folder / "text.json").write_text("text")
    argv = ["report", "text.json", "--output", "x.html"]
    assert "must be a report, as .json or .html" in refused(argv, capsys)


def test_without_skops_says_what_to_install(monkeypatch, capsys):
    real_import = builtins.__import__

    def no_skops(name, *args, **kwargs):
        if name.startswith("skops"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_skops)
    assert "pip install 'skparisk[cli]'" in refused(fit_argv("bad"), capsys)


def test_wages_in_another_currency_do_not_stand(folder, capsys):
    """The first line says so and why, and so do the exit code and each policy."""
    frame = pd.read_csv("private.csv").eval("wage = 100 * wage")
    frame.to_csv("currency.csv", index=False)
    argv = fit_argv("currency", "--n-pairs", "60", "--epsilon", "3")
    argv += ["--report", "currency.json", "--report", "currency.html"]
    assert main([each.replace("private.csv", "currency.csv") for each in argv]) == 3
    printed = capsys.readouterr()
    no = "The guarantee does NOT stand. What was released is further from"
    assert printed.out.startswith(no)
    assert no in (folder / "currency.html").read_text().partition("<h2>")[0]
    warned = printed.err.splitlines()
    assert warned
    assert all(line.startswith("skparisk fit: warning: ") for line in warned)
    (folder / "loose.toml").write_text("epsilon = 20.0\n")
    assert main(["check", "currency.json", "--policy", "loose.toml"]) == 3
    assert "FAIL  guarantee: What was released" in capsys.readouterr().out
    assert main(["report", "currency.json", "--output", "currency.md"]) == 3
    assert main(["verify", "currency.json", "currency.skops"]) == 3
    assert capsys.readouterr().out.count(no) == 2


@pytest.mark.parametrize("kind", ["few", "made-up"])
def test_a_reference_that_shows_too_little_does_not_stand(kind, folder, capsys):
    """A table without the tail that the risk is about, and a schema without audit."""
    pd.read_csv("public.csv")[:11].to_csv("few.csv", index=False)
    (folder / "declared.toml").write_text(SCHEMA)
    given = {
        "few": ("--reference", "few.csv"),
        "made-up": ("--schema", "declared.toml"),
    }
    argv = fit_argv(f"tail_{kind}", "--gamma", "0.1", reference=given[kind])
    assert main(argv) == 3
    (first, *_) = capsys.readouterr().out.splitlines()
    assert first.startswith("The guarantee does NOT stand. The")


def test_what_it_rests_on_stands_beside_the_claim(capsys):
    assert main(fit_argv("beside", "--quiet")) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert "not checked" not in out  # the command itself fits the steps
    assert lines[0] == (
        "The guarantee stands: it protects one record (one row), at epsilon 2, outside "
        "a risk of 0.16."
    )
    told = [line.split()[0] for line in lines]
    assert lines.index(next(line for line in lines if "is public" in line)) < 4
    assert told.index("The") < told.index("Steps") < told.index("Written:")


def test_nothing_is_replaced_without_force(folder, capsys):
    (folder / "kept.json").write_text("filed")
    argv = ["report", "r.json", "--output", "kept.json"]
    assert "it is there already. Give another name, or --force" in refused(argv, capsys)
    assert (folder / "kept.json").read_text() == "filed"
    assert main([*argv, "--force"]) == 0
    assert Report.load("kept.json").id == Report.load("r.json").id
    argv = ["report", "r.json", "--force", "--output", "folder.json"]
    (folder / "folder.json").mkdir()
    assert "must be a new file" in refused(argv, capsys)


@contextlib.contextmanager
def full_disk(n_bytes):
    """No file can be longer, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def spent(path):
    return PrivacyLedger.open(path).spent.epsilon


def test_a_full_disk_is_noticed_before_the_charge(folder, capsys):
    PrivacyLedger(9.0, path=folder / "full.ledger")
    argv = fit_argv("full", "--ledger", "full.ledger")
    with full_disk(500_000):
        assert "with room for 8," in refused(argv, capsys)
    assert spent("full.ledger") == 0
    assert not [*folder.glob("full.skops"), *folder.glob(".*.part")]


def test_a_disk_that_is_full_after_the_charge_leaves_no_half_of_a_model(
    folder, capsys, monkeypatch
):
    PrivacyLedger(9.0, path=folder / "late.ledger")
    monkeypatch.setattr("skparisk._cli.fitting._ROOM", 0)
    argv = fit_argv("late", "--ledger", "late.ledger")
    with full_disk(500_000):
        said = refused(argv, capsys)
    assert "'late.skops' was not written: File too large. What was charged" in said
    assert spent("late.ledger") == 2
    assert not [*folder.glob("late.skops"), *folder.glob(".*.part")]


def test_an_interrupted_fit_is_told_in_one_line(folder, capsys, monkeypatch):
    def interrupt(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("skparisk._cli.fitting.fit_without_leaks", interrupt)
    assert main(fit_argv("stopped")) == 130
    printed = capsys.readouterr()
    assert printed.err.startswith("skparisk fit: error: interrupted. What was charged")
    assert printed.err.count("\n") == 1
    assert not [*folder.glob("stopped.skops"), *folder.glob(".*.part")]


def test_a_ledger_without_room_is_asked_before_anything_is_sampled(
    folder, capsys, monkeypatch
):
    PrivacyLedger(1.0, path=folder / "tight.ledger")
    monkeypatch.setattr("skparisk._cli.fitting.prepare", pytest.fail)
    argv = fit_argv("tight", "--ledger", "tight.ledger")
    assert "the budget of the ledger has no room" in refused(argv, capsys)
