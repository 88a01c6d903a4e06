"""Files that the command line reads: of other programs, malformed, or of no use."""

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import N, fill, fit_argv, load_model, refused, table

from skparisk.__main__ import main, make_parser
from skparisk._cli import fitting


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filed")
    fill(folder)
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def read(name, *more, change=bytes, **how):
    """Return the private records of tables that are written as `how` says."""
    for seed, kind in enumerate(("own", "others")):
        frame = table(seed).drop(columns="high").round(1).assign(empty=None)
        frame.to_csv(f"{name}_{kind}.csv", **{"index": False, **how})
    own = Path(f"{name}_own.csv")
    own.write_bytes(change(own.read_bytes()))
    argv = fit_argv(name, *more)
    argv[1], argv[argv.index("public.csv")] = str(own), f"{name}_others.csv"
    data = fitting.prepare(make_parser().parse_args(argv)).data
    return data["X"].assign(wage=data["y"])


WRITTEN = {
    "semicolons": {"sep": ";"},
    "tabs": {"sep": "\t"},
    "a byte order mark": {"encoding": "utf-8-sig"},
    "quotes": {"quoting": csv.QUOTE_ALL},
    "numbers of rows": {"index": True},
    "decimal commas": {"sep": ";", "decimal": ","},
}


@pytest.fixture(scope="module")
def plain(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return read("plain")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", WRITTEN)
def test_tables_of_other_programs_are_read_alike(how, plain):
    """Whatever is between columns; decimal commas need an option."""
    more = ["--decimal-comma"] * (how == "decimal commas")
    found = read(how.replace(" ", "_"), *more, **WRITTEN[how])
    pd.testing.assert_frame_equal(found, plain)


@pytest.mark.parametrize("n_together", [N // 3, N // 3 + 1])
def test_tables_are_read_in_parts(n_together, plain, monkeypatch):
    """Of which the last may be as long as the others."""
    monkeypatch.setattr("skparisk._cli._tables._TOGETHER", n_together)
    pd.testing.assert_frame_equal(read(f"parts{n_together}"), plain)


def test_words_for_true_are_no_numbers(plain, monkeypatch):
    """Also where a part of a column holds nothing else. Empty lines are no records."""
    monkeypatch.setattr("skparisk._cli._tables._TOGETHER", 2)

    def change(text):
        head, first, second, *others = text.splitlines()
        first, second = (
            re.sub(rb"^\d+", word, line)
            for word, line in ((b"True", first), (b"fALSE", second))
        )
        return b"\n".join([head, first, b"", second, b"", b"", *others])

    expected = plain.assign(age=plain["age"].where(plain.index > 1))
    pd.testing.assert_frame_equal(read("truth", change=change), expected)


def test_thousands_are_read_with_decimal_commas(plain):
    """And a line that is too long moves nothing that the others hold."""

    def change(text):
        text, n = re.subn(rb"(?<=;\d)(\d{3},\d;)", rb".\1", text)
        assert n > 5
        return text.rstrip() + b";too;much\n"

    written = {"sep": ";", "decimal": ","}
    found = read("thousands", "--decimal-comma", change=change, **written)
    pd.testing.assert_frame_equal(found, plain)


UNUSABLE = {
    "numbers of customers": (
        lambda f: f.assign(
            id=[f"C{i}" for i in range(N)], day=[f"d{i}" for i in range(N)]
        ),
        "'id' holds 240 in 240 records, 'day' holds 240 in 240 records",
    ),
    "whole numbers that never repeat": (
        lambda f: f.assign(code=range(70_000, 70_000 + N)),
        "'code' of 'odd_public.csv' holds another whole number in each record, as",
    ),
    "numbers by their name": (
        lambda f: f.assign(Kundennummer=f.index * 5e6),
        "'Kundennummer' of 'odd_public.csv' seems to say whose a row is: give --drop",
    ),
    "the way out": (
        lambda f: f.assign(**{"the id": [f"C{i}" for i in range(N)]}),
        "leave them out with --drop 'the id'",
    ),
    "thousands": (
        lambda f: f.assign(pay=(1000 + f["age"] * 7).map("{:,.0f}".format)),
        "'pay' of 'odd_public.csv' holds numbers, and another text in record 1, by",
    ),
    "percents": (
        lambda f: f.assign(p=f["age"].map("{}%".format)),
        "another text in record 1, by which all",
    ),
    "a word among numbers": (
        lambda f: f.assign(age=f["age"].astype(str).where(f.index != 7, "unknown")),
        "'age' of 'odd_public.csv' holds numbers, and another text in record 8, by",
    ),
    "a target of words": (
        lambda f: f.assign(wage="high"),
        "must hold numbers with --estimator ridge",
    ),
    "names": (lambda f: f.rename(columns={"wage": "Wage"}), "Is it --target 'Wage'?"),
    "a name twice": (
        lambda f: f.rename(columns={"age": "job"}),
        "must have another name for each column",
    ),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_a_public_table_is_of_no_use_for_is_said(what, folder, capsys):
    """With the way out: before anything is sampled."""
    change, message = UNUSABLE[what]
    change(table(1).drop(columns="high")).to_csv("odd_public.csv", index=False)
    argv = fit_argv("bad", reference=("--reference", "odd_public.csv"))
    assert message in refused(argv, capsys)


@pytest.mark.parametrize("target", ["wage", "job"])
def test_classes_are_few(target, folder, capsys):
    """A target that is not one of either kind, and one that has a single class."""
    frame = table(1).drop(columns="high")
    frame.assign(job="nurse").to_csv("odd_public.csv", index=False)
    argv = fit_argv("bad", reference=("--reference", "odd_public.csv"))
    argv[argv.index("--target") + 1] = target
    argv[argv.index("ridge")] = "logistic"
    assert "must hold a few classes, such as yes and no" in refused(argv, capsys)


def test_columns_are_left_out(folder, capsys):
    frame = table(1).drop(columns="high").assign(id=[f"C{i}" for i in range(N)])
    frame.to_csv("with_id.csv", index=False)
    reference = ("--reference", "with_id.csv")
    dropped = [f"--drop={name}" for name in frame if name != "wage"]
    argv = fit_argv("none", *dropped, reference=reference)
    assert "must have another column than the target" in refused(argv, capsys)
    argv = fit_argv("no_id", "--drop", "id", "--drop", "hours", reference=reference)
    assert main(argv) == 0
    model = load_model(folder / "no_id.skops")
    assert [*model.feature_names_in_] == ["age", "job"]


@pytest.mark.slow
def test_a_malformed_line_is_neither_told_nor_refused(folder, capsys):
    """Nor a number that no fit has an answer for, nor bytes that are no text."""
    lines = Path("private.csv").read_bytes().splitlines()
    lines[3] += b",1,2,3"
    lines[4] = b"12"
    lines[5] = b"\xff\xfe," + lines[5]
    for place in (6, 7):
        values = lines[place].split(b",")
        values[0 if place == 6 else -1] = b"-1e300"
        lines[place] = b",".join(values)
    Path("malformed.csv").write_bytes(b"\n".join(lines))
    argv = fit_argv("malformed")
    argv[1] = "malformed.csv"
    assert main(argv) == 0
    assert load_model(folder / "malformed.skops").certificate_.evidence.n_records == N


@pytest.mark.parametrize("odd", ['"', '1"2,"', '"a""', "\r", '"1"2""3"'])
@pytest.mark.parametrize("place", [1, 5, N])
def test_no_line_goes_on_in_the_next_one(plain, odd, place):
    """Beside one with a quoted cell, which would close it."""

    def spoil(text):
        lines = text.decode().splitlines()
        lines[7] = '"' + lines[7].replace(",", '","') + '"'
        lines[place] = odd + "," + lines[place]
        return "\n".join(lines).encode()

    others = plain.index != place - 1
    found = read("open", change=spoil)
    assert len(found) == N
    pd.testing.assert_frame_equal(found[others], plain[others])


NOTHING = ['"', '"""', "   ", " \t", '" "', '""', ",", "\f"]


def test_a_line_of_quotes_or_blanks_is_a_record(plain):
    """Else it would be one record less: neighbors differ in what one holds."""

    def spoil(text):
        lines = text.decode().splitlines()
        return "\n".join([lines[0], *NOTHING, *lines[len(NOTHING) + 1 :]]).encode()

    found = read("nothing", change=spoil)
    assert len(found) == N
    assert found.loc[: len(NOTHING) - 1, ["age", "hours"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(found[len(NOTHING) :], plain[len(NOTHING) :])


@pytest.mark.parametrize("line", ['"', " "])
@pytest.mark.parametrize("place", ["first of a block", "last of all"])
def test_a_single_one_is_a_record(plain, line, place):
    """Wherever it stands: pandas asks for so many characters at once."""
    blocks = []

    def spoil(text):
        lines = [f"{line},{'x' * 2**13}" for line in text.decode().splitlines()]
        starts = np.cumsum([len(line) + 1 for line in lines])
        odd = N if place == "last of all" else np.searchsorted(starts, 2**18) + 1
        blocks.append(odd)
        lines[odd] = line
        return "\n".join(lines).encode()

    found = read("single", change=spoil)
    assert len(found) == N
    others = plain.index != blocks[0] - 1
    pd.testing.assert_frame_equal(found[others], plain[others])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["own", "others"])
@pytest.mark.usefixtures("plain")
def test_files_of_two_bytes_a_letter_are_refused(encoding, kind, capsys):
    """A stray byte would move the ends of all lines that follow."""
    text = Path("plain_own.csv").read_text("utf-8")
    Path(f"wide_{kind}.csv").write_bytes(f"\ufeff{text}".encode(encoding))
    files = {"own": "plain_own.csv", "others": "plain_others.csv"}
    files[kind] = f"wide_{kind}.csv"
    argv = fit_argv("wide", reference=("--reference", files["others"]))
    argv[1] = files["own"]
    message = refused(argv, capsys)
    assert f"'wide_{kind}.csv' must be in UTF-8: spreadsheets save it as" in message


def test_quantities_that_never_repeat_are_features(plain):
    """Of few records by chance, and of many where they are written as quantities."""
    beside = [range(0, 50_000 * N, 50_000), [float(i) for i in range(N)]]
    for kind in ("own", "others"):
        frame = pd.read_csv(f"plain_{kind}.csv")
        frame = frame.assign(sales=beside[0], day=beside[1])
        frame.to_csv(f"quantities_{kind}.csv", index=False)
    argv = fit_argv("quantities", reference=("--reference", "quantities_others.csv"))
    argv[1] = "quantities_own.csv"
    data = fitting.prepare(make_parser().parse_args(argv)).data
    assert {"sales", "day"} < {*data["X"]}


def test_a_target_has_a_name(capsys):
    argv = fit_argv("nameless")
    argv[argv.index("wage")] = ""
    assert "--target must be a name" in refused(argv, capsys)


def test_a_reference_must_be_text_that_is_read_as_the_private_one(folder, capsys):
    frame = table(1).drop(columns="high").replace({"job": {"clerk": "Bürokraft"}})
    frame.to_csv("latin.csv", index=False, encoding="latin-1")
    argv = fit_argv("bad", reference=("--reference", "latin.csv"))
    assert "'latin.csv' must be in UTF-8" in refused(argv, capsys)


@pytest.mark.slow
def test_a_policy_that_a_fit_breaks_is_told_at_the_end(folder, capsys):
    """What could not be known before: the exit code is that of `check`."""
    (folder / "audited.toml").write_text("epsilon = 2\nreference_audited = true\n")
    assert main(fit_argv("unaudited", "--policy", "audited.toml")) == 1
    assert "FAIL  reference_audited" in capsys.readouterr().out
    assert (folder / "unaudited.skops").exists()


def test_what_columns_hold_must_be_said(folder, capsys):
    """Also with a secret sample: private records decide nothing."""
    for given in ((), ("--secret-sample", "0.5")):
        argv = fit_argv("bad", reference=given)
        assert "give one of --reference and --schema" in refused(argv, capsys)
    (folder / "no_target.toml").write_text('[columns."age"]\nrange = [1, 2]\n')
    argv = fit_argv("bad", reference=("--schema", "no_target.toml"))
    assert "the schema must declare a target" in refused(argv, capsys)


OF_WAGES = """target = "wage"
columns.age.whole = [18, 90]
columns.job.categories = ["nurse", "clerk"]
columns.wage.range = [0, 2000]
"""
CLASSES = 'columns.wage.categories = ["low", "high"]'


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (OF_WAGES, ["--target", "age"], 'target = "age", and has another one'),
        (OF_WAGES, ["--target", "hours"], 'target = "hours", and has another one'),
        (OF_WAGES, ["--drop", "job"], "--drop must not be a column of the schema, got"),
        (
            OF_WAGES,
            ["--estimator", "logistic"],
            "by categories that are texts in quotes",
        ),
        (
            OF_WAGES.replace("columns.wage.range = [0, 2000]", CLASSES),
            [],
            "by a range of numbers with --estimator ridge",
        ),
    ],
)
def test_a_schema_is_about_the_target_that_is_asked_for(text, more, message, capsys):
    """Else pairs would be drawn of another target than the noise is added for."""
    Path("about.toml").write_text(text)
    argv = fit_argv("bad", *more, reference=("--schema", "about.toml"))
    assert message in refused(argv, capsys)
