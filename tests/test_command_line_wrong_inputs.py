"""Wrong files and options: one line, no cell of a table, and nothing written."""

import gzip
import os
import re
import shlex
import sys
from hashlib import sha256

import pandas as pd
import pytest
from command_lines import SCORE, N, fill, fit_argv, table

from skparisk import PrivacyLedger
from skparisk.__main__ import main

SECRET = "Zebedee"  # stands in each private table


def own():
    """Return a private table with a name in it."""
    frame = table(0).drop(columns="high")
    return frame.assign(job=frame["job"].where(frame.index != 7, SECRET))


CELLS = [SECRET, *own()["wage"].astype(str).str[:7]]


def write_files(folder):
    """Write what is given in the place of files."""
    private, public = own(), table(1).drop(columns="high")
    text = private.to_csv(index=False)
    head, *records = text.splitlines()
    written = {
        "mine.csv": text,
        "empty.csv": "",
        "blank.csv": "\n\n\n",
        "head.csv": head,
        "headless.csv": "\n".join(records),
        "colons.csv": text.replace(",", ":"),
        "spaces.csv": text.replace(",", " "),
        "twice.csv": text.replace("hours", "age", 1),
        "case.csv": text.replace("wage", "Wage", 1),
        "narrow.csv": private[["wage"]].to_csv(index=False),
        "few.csv": private.drop(columns="hours").to_csv(index=False),
        "page.csv": f"<html>{text}</html>",
        "records.csv": private.to_json(orient="records"),
        "list.csv": private.to_json(orient="values"),
        "title.csv": f"Wages of {SECRET}\n{text}",
        "note.toml": "project = ",
        "unknown.toml": "secret = 'x'\n",
        "rule.toml": "epsilons = 1\n",
        "words.toml": "epsilon = 'one'\n",
        "negative.toml": "epsilon = -1\n",
        "nan.toml": "gamma = nan\n",
        "nothing.toml": "",
        "flag.toml": "public_reference = 1\n",
        "kind.toml": 'target = "wage"\ncolumns.wage.numbers = [0, 1]\n',
        "array.json": "[]",
        "half.json": "{",
        "other.json": "{}",
        "text.ledger": "no ledger",
    }
    for name, content in written.items():
        (folder / name).write_text(content)
    raw = text.encode()
    for name, data in {
        "zipped.csv": gzip.compress(raw),
        "wide.csv": text.encode("utf-32"),
        "zeros.csv": bytes(1000),
        "cut.skops": (folder / "model.skops").read_bytes()[:1000],
    }.items():
        (folder / name).write_bytes(data)
    changed = {
        "none": public[:0],
        "one": public[["wage"]],
        "gone": public.assign(wage=None),
        "words": public.assign(wage="high"),
        "days": public.assign(wage=pd.date_range("2026-01-01", periods=N)),
        "dates": public.assign(born=pd.date_range("2026-01-01", periods=N)),
        "times": public.assign(born=pd.date_range("2026-01-01", periods=N, freq="h")),
        "huge": public.assign(wage=10**400),
        "customers": public.assign(customer=range(10**6, 10**6 + N)),
        "names": public.assign(name=[f"name {i}" for i in range(N)]),
        "euros": public.assign(age=public["age"].map("{} €".format)),
        "commas": public.assign(hours=public["hours"].map("{:,.0f},5".format)),
        "extra": public.assign(more=1),
        "secret": own(),
        "part": own()[:30],
    }
    for name, frame in changed.items():
        frame.to_csv(folder / f"public_{name}.csv", index=False)
    latin = public.replace({"job": {"clerk": "Bürokraft"}})
    latin.to_csv(folder / "public_latin.csv", index=False, encoding="latin-1")
    (folder / "folder.csv").mkdir()
    os.symlink("loop.csv", folder / "loop.csv")
    PrivacyLedger(9.0, path=folder / "wide.ledger")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filed")
    fill(folder)
    write_files(folder)
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def contents(folder):
    """Return what is in a folder: all of it, so that also half a file is seen."""
    return {
        str(path): sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
    }


# In the place of the private table, and of the reference.
PRIVATE = """empty.csv blank.csv head.csv headless.csv colons.csv spaces.csv
twice.csv case.csv narrow.csv few.csv page.csv records.csv list.csv title.csv zipped.csv
wide.csv zeros.csv folder.csv loop.csv nowhere.csv model.skops r.html budget.ledger
public.csv/mine.csv"""
PUBLIC = """none one gone words days dates times huge customers names euros commas extra
secret part latin"""
SCORED = f"--test mine.csv {' '.join(SCORE)} --target-bounds"
FITS = f"""
--reference nowhere.csv
--reference folder.csv
--reference empty.csv
--reference model.skops
--reference mine.csv
--epsilon=-1
--epsilon nan
--epsilon 1e400
--epsilon 1,5
--gamma 0
--gamma 1
--gamma nan
--n-pairs 1.5
--n-pairs 2
--n-pairs {9**40}
--n-jobs 0
--n-jobs many
--seed -1
--target age,wage
--target wages
--estimator lasso
--estimator logistic
--estimator linear-svc
--drop x
--drop age --drop hours --drop job
--person wage
--person x
--person age --weight age
--weight x
--weight job
--schema kind.toml
--secret-sample 1
--output bad.pkl
--output folder.csv
--output model.skops
--output public.csv/bad.skops
--report no/bad.html
--ledger text.ledger
--ledger folder.csv
--ledger mine.csv
--policy nowhere.toml
--policy rule.toml
--policy words.toml
--policy negative.toml
--policy nan.toml
--policy nothing.toml
--policy flag.toml
--policy mine.csv
--policy model.skops
--about note.toml
--about unknown.toml
--about folder.csv
--score accuracy
{SCORED} 9 1
{SCORED} 0 nan
{SCORED} 0 1000 --score-epsilon=-1
{SCORED} 0 1000 --test nowhere.csv
{SCORED} 0 1000 --test few.csv
--unknown
--epsilon
another.csv
"""
OTHERS = """
wrong
fit
report r.json --output bad.txt
report r.json --output no/bad.html
report array.json --output bad.html
report half.json --output bad.html
report other.json --output bad.html
report mine.csv --output bad.html
report cut.skops --output bad.html
report folder.csv --output bad.html
report r.json --output bad.html --policy policy.toml
report model.skops --output bad.html --ledger text.ledger
report model.skops --output bad.html --about unknown.toml
report model.skops --output bad.html --policy rule.toml
decide r.json --checker A --decision yes --output r.html
decide r.json --checker "" --decision yes --output bad.html
decide mine.csv --checker A --decision yes --output bad.html
verify folder.csv
verify r.json nowhere.skops
verify r.json --ledger nowhere.ledger
check r.json --policy nothing.toml
check mine.csv --policy policy.toml
check other.json --policy policy.toml
check model.skops --policy policy.toml
ledger
ledger show mine.csv
ledger show budget.ledger --head 00
ledger create budget.ledger --epsilon 1
ledger create bad.ledger --epsilon -1
ledger create bad.ledger --epsilon nan
ledger create bad.ledger --epsilon 1 --delta 2
ledger create bad.ledger --epsilon 1 --composition magic
ledger create no/bad.ledger --epsilon 1
ledger export text.ledger bad.jsonl
ledger export budget.ledger r.json
ledger export budget.ledger no/bad.jsonl
demo --output folder.csv
demo --output no/demo
demo --seed -1
"""


def fits():
    """Yield names of cases, and the command line of each."""
    for name in PRIVATE.split():
        yield name, name, ""
    for name in PUBLIC.split():
        yield name, "mine.csv", f"--reference public_{name}.csv"
    for more in FITS.strip().splitlines():
        yield more, "mine.csv", more


WRONG = {line: shlex.split(line) for line in OTHERS.strip().splitlines()}
for name, private, more in fits():
    argv = fit_argv("bad", "--ledger", "wide.ledger", *shlex.split(more))
    WRONG[name] = [argv[0], private, *argv[2:]]


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_inputs_end_in_one_line(wrong, folder, capsys):
    """No cell is told, nothing is charged, and no file is written or half-written."""
    before = contents(folder)
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        sys.exit(main(WRONG[wrong]))
    told = capsys.readouterr()
    assert stop.value.code == 2
    assert told.out == ""
    assert re.fullmatch("skparisk.*: error: .+\n", told.err)
    assert not [cell for cell in CELLS if cell in told.err]
    assert contents(folder) == before
