"""The command line tells of a private table what it releases, and nothing else."""

import re
from hashlib import sha256
from zipfile import ZipFile

import pytest
from command_lines import FIT
from test_nothing_else_private import KINDS, PUBLIC, told

from skparisk import PrivacyLedger
from skparisk.__main__ import main

# Times and addresses.
OTHER = r'\d{4}-\d\d-\d\d[T ][\d:]+(Z|\+00:00)?|"__id__": \d+|\d{9,}\.npy'
REPORTS = ["r.json", "r.html", "r.md"]
NUMBER, WORD = ["y", "--drop", "wood"], ["wood", "--drop", "y"]
SCORED = {
    "ridge": [*NUMBER, "--target-bounds", "-9", "9", "--score", "mean_absolute_error"],
    "logistic": [*WORD, "--score", "brier_score"],
    # With less it is refused: it would be worse than a fit to the public records.
    "linear-svc": [*WORD, "--score", "accuracy", "--epsilon", "16"],
}
CHECK = ["check", "r.json", "--policy", "policy.toml"]
FILED = [CHECK, ["report", "r.json", "--output", "again.html"]]


def fit_of(name, *target):
    argv = ["fit", "private.csv", "--estimator", name, *FIT, "--target", *target]
    argv += ["--reference", "public.csv", "--ledger", "budget.ledger"]
    return [*argv, "--output", "model.skops"]


def scored(name):
    argv = fit_of(name, *SCORED[name], "--test", "private.csv", "--score-epsilon", "1")
    return [*argv, *(part for path in REPORTS for part in ("--report", path))]


def contents(folder):
    """Return what files hold, but for times, and for hashes of files with times."""
    found = {path.name: path.read_text("latin-1") for path in folder.iterdir()}
    for name in ("private.csv", "budget.ledger"):  # the report has what is left of it
        del found[name]
    if (model := folder / "model.skops").exists():
        with ZipFile(model) as parts:
            held = [parts.read(name) for name in parts.namelist()]
        hashes = re.findall(r'"(?:id|head)": "(\w{64})"', found.get("r.json", ""))
        hashes.append(sha256(model.read_bytes()).hexdigest())
        found["model.skops"], other = str(held), "|".join([OTHER, *hashes])
        found = {name: re.sub(other, "", text) for name, text in found.items()}
    return found


@pytest.fixture
def commanding(tmp_path, monkeypatch):
    """Return what makes acts of commands, each in a folder of its own."""

    def commanding(*commands, spoil=str):
        def act(*private):
            folder = tmp_path / f"{len([*tmp_path.iterdir()])}"
            folder.mkdir()
            monkeypatch.chdir(folder)
            for name, table in {"private": private, "public": PUBLIC}.items():
                frame = table[0].assign(y=table[1], wood=table[2])
                frame.to_csv(f"{name}.csv", index=False)
            (folder / "policy.toml").write_text("epsilon = 1.0\n")
            text = (folder / "private.csv").read_text()
            (folder / "private.csv").write_text(spoil(text), "latin-1")
            PrivacyLedger(20.0, path=folder / "budget.ledger")
            return [main(command) for command in commands], contents(folder)

        return act

    return commanding


# Of other words than public ones, too long, in another encoding; and too short, with a
# quote that is not closed.
ODD = 'pilot,1e999,?,-,,,too,much,\xf6\n"7\n'


def with_odd_lines(text):
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:-2], ODD])


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCORED)
def test_nothing_but_the_release_depends_on_a_private_table(name, commanding):
    commands = scored(name), *FILED
    first = told(commanding(*commands), KINDS[0])
    assert first["shown"][0] == "[0, 1, 0]"
    assert told(commanding(*commands, spoil=with_odd_lines), "lawless") == first


def test_errors_are_the_same_for_other_tables(commanding):
    """Which have a column less."""
    act = commanding(scored("ridge"), spoil=lambda text: text.replace("gap", "gaps"))
    first, other = (told(act, kind) for kind in (KINDS[0], "lawless"))
    assert first["shown"][0] == "[2]"
    assert other == first


@pytest.mark.slow
def test_of_a_secret_sample_no_more_is_printed(commanding):
    """What is filed has the scale of the noise, which depends on all records."""
    act = commanding([*fit_of("ridge", *NUMBER), "--secret-sample", "0.5"])
    first, other = (told(act, kind) for kind in KINDS[:2])
    assert first["shown"][0] == other["shown"][0]
    assert first["printed"] == other["printed"] != ""


@pytest.mark.slow
def test_releases_with_their_own_noise_are_noticed(commanding):
    act = commanding(fit_of("ridge", *NUMBER))
    first, other = (told(act, KINDS[0], replaced=()) for _ in range(2))
    assert first["attributes"] != other["attributes"]
