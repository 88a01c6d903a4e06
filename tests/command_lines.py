"""Command lines, and a folder with what they read and write."""

import numpy as np
import pandas as pd
import pytest
import skops.io

from skparisk import PrivacyLedger
from skparisk.__main__ import main

N = 240
FIT = ["--epsilon", "2", "--gamma", "0.2", "--n-pairs", "12", "--seed", "0"]
SCORE = ["--score", "mean_absolute_error", "--score-epsilon", "0.5"]


def table(seed):
    """Return a table of numbers and words with gaps."""
    rng = np.random.default_rng(seed)
    jobs = rng.choice(["nurse", "clerk"], N)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 90, N), "hours": rng.normal(38, 8, N), "job": jobs}
    )
    frame["wage"] = frame["age"] * 10 + (jobs == "nurse") * 200 + rng.normal(0, 50, N)
    frame["high"] = np.where(frame["wage"] > 600, "yes", "no")
    frame.loc[rng.random(N) < 0.1, "hours"] = np.nan
    frame.loc[rng.random(N) < 0.1, "job"] = None
    return frame


def fit_argv(name, *more, reference=("--reference", "public.csv")):
    data = ["fit", "private.csv", "--target", "wage", "--estimator", "ridge"]
    return [*data, *FIT, *reference, "--output", f"{name}.skops", *more]


def load_model(path):
    """Return the model of a file."""
    return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))


# Of tables of wages, as `write_wages` makes them.
FIT_WAGES = ["fit", "mine.csv", "--target", "wage", "--estimator", "ridge"]
FIT_WAGES += ["--epsilon", "1", "--gamma", "0.2", "--reference", "public.csv"]
FIT_WAGES += ["--output", "model.skops"]


def write_wages(column, **tables):
    """Write tables of three features, a target and one more column."""
    for name, (X, y, beside) in tables.items():
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        frame.assign(wage=y, **{column: beside}).to_csv(f"{name}.csv")


def refused(argv, capsys):
    """Return the one line that a command is refused with."""
    capsys.readouterr()
    try:
        code = main(argv)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    lines = capsys.readouterr().err.splitlines()
    assert ": error: " in lines[-1]
    return lines[-1]


def fill(folder):
    """Write tables, a policy and a ledger into a folder, and what one fit makes."""
    for seed, name in enumerate(("private", "public")):
        frame = table(seed).drop(columns="high")
        frame.to_csv(folder / f"{name}.csv", index=False)
        numbers = frame[["age", "wage"]]
        numbers.to_csv(folder / f"{name}_numbers.csv", index=False)
        table(seed).drop(columns="wage").to_csv(folder / f"{name}_classes.csv")
    (folder / "policy.toml").write_text("epsilon = 2.5\npublic_reference = true\n")
    (folder / "strict.toml").write_text("epsilon = 1.0\nreference_audited = true\n")
    declared = 'project = "wages <b>"\ndata_set = "made up, 2026"\n'
    (folder / "about.toml").write_text(declared)
    PrivacyLedger(3.0, path=folder / "budget.ledger")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        argv = fit_argv("model", "--ledger", "budget.ledger")
        argv += ["--policy", "policy.toml", "--report", "r.json", "--report", "r.html"]
        argv += ["--about", "about.toml"]
        argv += ["--test", "private.csv", *SCORE, "--target-bounds", "0", "2000"]
        assert main(argv) == 0
