"""The demonstration: what it prints, what it writes, what it refuses."""

import contextlib
import hashlib
import io
import runpy
import sys

import numpy as np
import pytest

from skparisk.__main__ import main
from skparisk.datasets import load_census


def code_of(argv):
    """Return the exit code, by which the parser itself leaves as well."""
    try:
        return main(argv)
    except SystemExit as stop:
        return stop.code


@pytest.fixture(scope="module")
def filed(tmp_path_factory):
    """Return the folder, and what was printed."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["demo", "--output", str(folder)]) == 0
    return folder, printed.getvalue()


def test_private_people_bring_what_the_public_ones_lack(filed):
    """As far off as without privacy, by what is printed: a tenth of the difference."""
    _, text = filed
    bare, alone, private = (
        float(line.split("%")[0]) for line in text.splitlines()[1:4]
    )
    assert bare - 0.1 < private < bare + (alone - bare) / 10
    assert "right at most 5" in " ".join(text.split())
    assert text.isascii()
    assert max(map(len, text.replace(str(filed[0]), "").splitlines())) <= 80


def test_files_are_of_all_people_but_those_who_test(filed):
    folder, _ = filed
    X, incomes = load_census(return_X_y=True)
    public, private = (
        np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
        for name in ("public", "private")
    )
    assert (len(public), len(private)) == (100, 15_000)
    known = {tuple(row) for row in np.column_stack([X, np.log(incomes)]).round(5)}
    assert {tuple(row) for row in np.vstack([public, private]).round(5)} <= known
    header = (folder / "public.csv").read_text().partition("\n")[0]
    assert header == f"{','.join(load_census().feature_names)},log_weekly_income"


def test_the_report_is_that_of_the_model_and_tells_no_file_of_private_people(filed):
    """Whoever guesses the file would know it by a hash."""
    folder, text = filed
    assert str(folder / "report.html") in text
    page = (folder / "report.html").read_text()
    assert "15000 records" in page
    assert "PrivateRidge" in page
    digest = hashlib.sha256((folder / "private.csv").read_bytes()).hexdigest()
    assert digest not in page


BAD = {
    "--seed -1": "seed must be a whole number >= 0, got -1.",
    "--seed x": "seed must be a whole number >= 0, got 'x'.",
    "--unknown": "unrecognized arguments: --unknown",
}


@pytest.mark.parametrize("argv", BAD)
def test_bad_values_are_refused_in_one_line(argv, monkeypatch, capsys, tmp_path):
    """Before any work, and without a file left behind."""
    monkeypatch.chdir(tmp_path)
    assert code_of(["demo", *argv.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    prog = "skparisk: " if argv == "--unknown" else "skparisk demo: "
    assert printed.err.startswith(f"{prog}error: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    assert BAD[argv] in printed.err
    assert list(tmp_path.iterdir()) == []


def test_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "skparisk.__main__")
    monkeypatch.setattr(sys, "argv", ["skparisk", "demo", "--seed", "x"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("skparisk", run_name="__main__")
    assert stop.value.code == 2
    assert "seed must be a whole number >= 0" in capsys.readouterr().err
