"""The demonstration: what it prints, what it writes, what it refuses."""

import contextlib
import copy
import hashlib
import io
import math
import runpy
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skparisk import __main__ as main_module
from skparisk import _demo as demo
from skparisk.datasets import load_census
from skparisk.linear_model import ridge_sensitivity_bound
from skparisk.queries import RidgeQuery
from skparisk.sensitivity import SensitivitySampler

SMALL = ["--n-pairs", "100", "--epsilon", "0.01", "1", "--gamma", "0.2", "0.05"]
CALIBRATIONS = ["exchangeable", "pac", "dkw"]
COMPARE = ["demo", "--compare"]


def run(argv):
    """Return what the table's command prints, with few releases."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(demo, "N_RELEASES", 3)
        assert main_module.main([*COMPARE, *map(str, argv)]) == 0
    return printed.getvalue()


def code_of(argv):
    """Return the exit code, by which the parser itself leaves as well."""
    try:
        return main_module.main(argv)
    except SystemExit as stop:
        return stop.code


def table(text):
    """Return the rows of the table."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("---")) - 1
    block = lines[first : lines.index("", first)]
    header, rule, *rows = [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in block
    ]
    assert tuple(header) == demo.HEADER
    assert all(set(cell) == {"-"} for cell in rule)
    assert all(len(line) == len(block[0]) for line in block)
    return [dict(zip(header, row, strict=True)) for row in rows]


def sampled(rows):
    return [row for row in rows if row["sensitivity from"] in CALIBRATIONS]


@pytest.fixture(scope="module")
def text():
    return run(SMALL)


@pytest.fixture(scope="module")
def rows(text):
    return table(text)


@pytest.fixture(scope="module")
def split():
    return demo.split_census(0)


def test_table_has_a_row_for_every_model(rows):
    names = [row["sensitivity from"] for row in rows]
    each = [*CALIBRATIONS, demo.LEAST_NOISE]
    assert names == ["none: Ridge", *(["known bound", *each * 2] * 2)]


def test_achieved_risk_is_at_most_gamma(rows):
    released = [row for row in rows if row["achieved risk"] != "-"]
    assert len(released) == 16
    for row in released:
        assert float(row["achieved risk"]) <= float(row["gamma"])
        # No smaller than the exact one, of which there are m + 1.
        if row["sensitivity from"] == "exchangeable":
            index = int(row["K of m"].split(" of ")[0])
            assert float(row["achieved risk"]) >= 1 - index / 101


def test_noise_scale_is_sensitivity_over_epsilon(rows):
    for row in rows[1:]:
        if row["noise scale"] != "-":
            expected = float(row["sensitivity"]) / float(row["epsilon"])
            assert float(row["noise scale"]) == pytest.approx(expected, rel=1e-3)


def test_sampled_pairs_are_shared_and_a_stricter_claim_takes_a_larger_one(rows):
    values = {
        (row["epsilon"], row["gamma"], row["sensitivity from"]): float(
            row["sensitivity"]
        )
        for row in sampled(rows)
        if row["sensitivity"] != "-"
    }
    assert len(values) == 10
    for (epsilon, gamma, calibration), value in values.items():
        assert value == values["1", gamma, calibration]
        assert value >= values[epsilon, gamma, "exchangeable"]
        assert value >= values[epsilon, "0.2", calibration]


def test_too_few_pairs_are_named_in_the_row(rows):
    short = [row for row in rows if row["K of m"] == "too few pairs"]
    assert [row["epsilon"] for row in short] == ["0.01", "1"]
    for row in short:
        assert (row["sensitivity from"], row["gamma"]) == ("dkw", "0.05")
        assert {row[column] for column in demo.HEADER[4:9]} == {"-"}


def test_least_noise_has_a_row_at_each_target(rows):
    """Half of the pairs calibrate."""
    least = [row for row in rows if row["sensitivity from"] == demo.LEAST_NOISE]
    assert {row["K of m"] for row in least} == {"41 of 50", "49 of 50"}
    assert {row["noise scale"] for row in least} == {"-"}


def test_least_noise_is_far_less(split):
    """By the variance that it adds to predictions, which no draw of it decides."""
    sampler = SensitivitySampler(
        RidgeQuery(), gamma=0.2, n_pairs=100, n_records=demo.N_TRAIN, random_state=0
    ).fit(split.X_public, split.y_public)
    other = copy.copy(sampler).set_params(randomness="both", noise_shape="whitened")
    points = np.column_stack([split.X_test, np.ones(len(split.X_test))])
    plain, least = (
        np.einsum("ij,jk,ik->i", points, noise.covariance(), points).mean()
        for noise in (sampler.mechanism_, other.calibrate().mechanism_)
    )
    assert least < plain / 3


def test_least_noise_needs_pairs_for_its_shape(split):
    sampler = SensitivitySampler(
        RidgeQuery(), gamma=0.2, n_pairs=6, n_records=demo.N_TRAIN
    ).fit(split.X_public, split.y_public)
    *_, last = demo.table_rows(split, sampler, [1.0], [0.2])
    assert last[:4] == (demo.LEAST_NOISE, "1", "0.2", "too few pairs")


def test_column_without_noise_is_ridge(rows, split):
    ridge = Ridge(alpha=1.0).fit(split.X_train, split.y_train)
    expected = math.sqrt(np.mean((split.y_test - ridge.predict(split.X_test)) ** 2))
    assert rows[0]["test RMSE"] == f"{expected:.1f}"
    assert {row["without noise"] for row in rows} == {f"{expected:.1f}"}


def test_known_bound_is_the_proven_one(rows):
    bound = ridge_sensitivity_bound(
        15_000, 1.0, x_norm=math.hypot(4, 1), y_bound=3000
    ) * math.sqrt(9)
    known = [row for row in rows if row["sensitivity from"] == "known bound"]
    for row in known:
        assert float(row["sensitivity"]) == pytest.approx(bound, rel=1e-3)
        assert (row["achieved risk"], row["K of m"]) == ("0", "-")


def test_certificate_is_of_the_first_target_and_fits_a_terminal(text, rows):
    lines = text.splitlines()
    start = lines.index(
        "Certificate of the model at epsilon=0.01, gamma=0.2, exchangeable:"
    )
    certificate = lines[start:]
    words = " ".join(" ".join(certificate).split())
    assert "the release is 0.01-differentially private for that pair" in words
    achieved = float(words.partition("risk: ")[2].split()[0])
    in_table = float(sampled(rows)[0]["achieved risk"])
    assert achieved == pytest.approx(in_table, abs=2e-6)
    assert max(map(len, certificate)) <= 80


def test_text_is_wrapped_and_ascii_and_says_what_was_declared(text):
    prose = [line for line in text.splitlines() if "  " not in line]
    assert max(map(len, prose)) <= 80
    assert text.isascii()
    words = " ".join(text.split())
    assert "standard deviations of the public reference only" in words
    assert "norm of 4 and incomes clipped to the range from 0 to 3000 dollars" in words
    assert "the mean over 3 releases" in words


def test_seed_governs_the_sampling_and_never_the_noise(rows):
    """The same seed, other workers: same sensitivities, other errors."""
    with joblib.parallel_config(backend="threading"):
        again = table(run([*SMALL, "--n-jobs", "2"]))
    for column in ("K of m", "sensitivity", "noise scale", "achieved risk"):
        assert [row[column] for row in again] == [row[column] for row in rows]
    errors = [[row["test RMSE"] for row in sampled(x)] for x in (again, rows)]
    assert errors[0] != errors[1]


def test_infinite_epsilon_is_ridge_and_claims_nothing():
    argv = ["--n-pairs", "30", "--gamma", "0.3", "--epsilon", "inf"]
    text = run(argv)
    rows = table(text)
    assert "There is no guarantee." in text
    assert {row["achieved risk"] for row in rows} == {"-"}
    for row in sampled(rows)[:2]:
        assert row["test RMSE"] == row["without noise"]
        assert row["+/- std"] == "0.0"


def test_split_is_a_partition_standardized_on_the_public_part(split):
    _, y = load_census(return_X_y=True)
    parts = (split.y_public, split.y_train, split.y_test)
    assert [len(part) for part in parts] == [9_500, 15_000, 5_001]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(y))
    np.testing.assert_allclose(split.X_public.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X_public.std(axis=0), 1)
    assert abs(split.X_train.mean(axis=0)).max() > 1e-4
    assert split.X_train.shape[1] == 8


def test_split_follows_the_seed(split):
    assert np.array_equal(demo.split_census(0).X_train, split.X_train)
    assert not np.array_equal(demo.split_census(1).X_train, split.X_train)


@pytest.mark.parametrize(("value", "shown"), [(1172.94, "1172.9"), (1e7, "1.00e+07")])
def test_error_is_written_in_tenths_unless_huge(value, shown):
    assert demo.format_rmse(value) == shown


@pytest.mark.parametrize("risk", [0.0, 0.04997501, 0.1, 1 / 3])
def test_risk_is_never_written_smaller(risk):
    assert risk <= float(demo.format_risk(risk)) <= risk + 1e-6


BAD = {
    "--epsilon 0": r"epsilon must be a number in (0, inf], got 0.0.",
    "--epsilon 1 -1": r"epsilon must be a number in (0, inf], got -1.0.",
    "--epsilon nan": r"epsilon must be a number in (0, inf], got nan.",
    "--epsilon two": r"epsilon must be a number in (0, inf], got 'two'.",
    "--gamma 0": "gamma must be a number in (0, 1), got 0.0.",
    "--gamma 0.1 1": "gamma must be a number in (0, 1), got 1.0.",
    "--gamma x": "gamma must be a number in (0, 1), got 'x'.",
    "--gamma": "--gamma: expected at least one argument",
    "--n-pairs 0": "n_pairs must be a whole number >= 1, got 0.",
    "--n-pairs 2.5": "n_pairs must be a whole number >= 1, got '2.5'.",
    "--n-jobs 0": "n_jobs must be None or a whole number other than 0, got 0.",
    "--n-jobs all": "n_jobs must be None or a whole number other than 0, got 'all'.",
    "--seed -1": "seed must be a whole number >= 0, got -1.",
    "--seed x": "seed must be a whole number >= 0, got 'x'.",
    "--unknown": "unrecognized arguments: --unknown",
}


@pytest.mark.parametrize("argv", BAD)
def test_bad_values_are_refused_in_one_line(argv, monkeypatch, capsys, tmp_path):
    """Before any work, and without a file left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(demo, "load_census")
    assert code_of([*COMPARE, *argv.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    prog = "skparisk: " if argv == "--unknown" else "skparisk demo: "
    assert printed.err.startswith(f"{prog}error: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    assert BAD[argv] in printed.err
    assert list(tmp_path.iterdir()) == []


LATER = {
    "--epsilon 1e-300": "epsilon must be at least 3.77e-08 for this many outputs with "
    "noise on a grid, got 1e-300.",
    "--n-pairs 18 --gamma 0.05": "n_pairs=18 pairs certify no risk below 0.0526316, "
    "but gamma=0.05 was requested; it needs n_pairs >= 19.",
    "--seed 4294967296": "random_state must be None, a whole number in [0, 2**32), a "
    "RandomState or a Generator, got 4294967296.",
}


@pytest.mark.parametrize("argv", LATER)
def test_what_the_library_refuses_is_one_line_too(argv, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert code_of([*COMPARE, "--n-pairs", "100", *argv.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    *progress, last = printed.err.splitlines()
    assert last == f"skparisk demo: error: {LATER[argv]}"
    assert not any("error" in line for line in progress)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_help_names_every_option_and_what_the_seed_is_for():
    command = [sys.executable, "-m", "skparisk", "demo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for option in (
        "compare",
        "epsilon",
        "gamma",
        "n-pairs",
        "n-jobs",
        "seed",
        "output",
    ):
        assert f"--{option}" in done.stdout
    words = " ".join(done.stdout.split())
    assert "never the noise" in words
    assert "(default: 0.05 0.5)" in words
    assert done.stderr == ""


def test_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "skparisk.__main__")
    monkeypatch.setattr(sys, "argv", ["skparisk", "demo", "--gamma", "2"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("skparisk", run_name="__main__")
    assert stop.value.code == 2
    expected = "gamma must be a number in (0, 1), got 2.0."
    assert expected in capsys.readouterr().err


# From files to a report


@pytest.fixture(scope="module")
def filed(tmp_path_factory):
    """Return the folder, and what was printed."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main_module.main(["demo", "--output", str(folder)]) == 0
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
    assert header == f"{','.join(load_census().feature_names)},{demo.TARGET}"


def test_the_report_is_that_of_the_model_and_tells_no_file_of_private_people(filed):
    """Whoever guesses the file would know it by a hash."""
    folder, text = filed
    assert str(folder / "report.html") in text
    page = (folder / "report.html").read_text()
    assert "15000 records" in page
    assert "PrivateRidge" in page
    digest = hashlib.sha256((folder / "private.csv").read_bytes()).hexdigest()
    assert digest not in page


@pytest.mark.parametrize("output", ["old", "no/new"])
def test_a_folder_that_is_there_or_cannot_be_is_refused(
    output, monkeypatch, tmp_path, capsys
):
    (tmp_path / "old").mkdir()
    monkeypatch.chdir(tmp_path)
    assert code_of(["demo", "--output", output]) == 2
    assert "output must be a new folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]


def test_options_of_the_table_are_refused_without_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert code_of(["demo", "--n-pairs", "100"]) == 2
    assert "--n-pairs needs --compare" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
