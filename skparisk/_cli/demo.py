"""``skparisk demo``: from files of census records to a filed report."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skparisk._cli._parser import Commands, option, whole

N_PUBLIC, N_PRIVATE = 100, 15_000
TARGET = "log_weekly_income"


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="fit a private model to files of census records, and write its report",
        description="Write US Census records to two files, one of public and one of "
        "private people. Fit a private ridge regression to both. Print its error, "
        "beside a model without privacy and one of the public people alone. Write the "
        "report that a data steward files.",
    )
    option(
        parser,
        "--output",
        "FOLDER",
        "new folder for the files and the report (default: %(default)s)",
        default=Path("skparisk-demo"),
    )
    option(
        parser,
        "--seed",
        "S",
        "seeds the choice of public and private people, never the noise (default: "
        "%(default)s)",
        type=whole("seed", 0),
        default=0,
    )
    parser.set_defaults(run=run)
    return [parser]


def run(options: argparse.Namespace) -> int:
    """Write public and private people to files, fit, and report."""
    import numpy as np
    from sklearn.linear_model import Ridge

    from skparisk._text import guesses_text
    from skparisk.datasets import load_census
    from skparisk.linear_model import PrivateRidge
    from skparisk.report import Report

    folder = options.output
    try:
        folder.mkdir()
    except OSError as error:
        raise ValueError(
            f"output must be a new folder inside an existing, writable one, got "
            f"'{folder}': {error.strerror}."
        ) from None
    census = load_census()
    people = np.column_stack([census.data, np.log(census.target)])
    people = np.random.default_rng(options.seed).permutation(people)
    public, private, test = np.split(people, [N_PUBLIC, N_PUBLIC + N_PRIVATE])
    header = ",".join([*census.feature_names, TARGET])

    def through_file(name: str, part: Any) -> tuple[Any, Any]:
        """Return the features and targets that a file of these people holds."""
        file = folder / f"{name}.csv"
        np.savetxt(file, part, "%.8g", ",", header=header, comments="")
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
        return rows[:, :-1], rows[:, -1]

    X_public, y_public = through_file("public", public)
    X, y = through_file("private", private)
    model = PrivateRidge(epsilon=1.0, gamma=0.05)
    model.fit(X, y, X_reference=X_public, y_reference=y_public)
    page = folder / "report.html"
    Report(model, about={"data_set": "US Census 2000, incomes"}).save(page)

    print(f"Typical error of the predicted incomes of {len(test):,} other people:")
    for name, other in (
        (f"without privacy, from {N_PRIVATE:,} private people", Ridge().fit(X, y)),
        (f"from {N_PUBLIC} public people alone", Ridge().fit(X_public, y_public)),
        ("private, epsilon = 1 and gamma = 0.05, from both", model),
    ):
        off = np.abs(other.predict(test[:, :-1]) - test[:, -1])
        print(f"{np.expm1(np.median(off)):6.1%}  {name}")
    guesses = guesses_text(model.certificate_.advantage.mean)
    gain = (
        "An attacker who knows everything except whether you are in the private file "
        f"guesses right at most {guesses} times in 100 instead of 50, on average over "
        "people."
    )
    print(textwrap.fill(gain, 80), f"Open {page}", sep="\n")
    return 0
