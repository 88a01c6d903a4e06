"""Steps of ``skparisk demo``: from files of census records to a filed report."""

from __future__ import annotations

import copy
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.preprocessing import StandardScaler

from skparisk._text import guesses_text
from skparisk.core.checks import CalibrationError
from skparisk.core.claim import Certificate
from skparisk.datasets import load_census
from skparisk.linear_model import PrivateRidge
from skparisk.report import Report
from skparisk.sensitivity import SensitivitySampler

N_FEW = 100
N_PUBLIC = 9_500
N_TRAIN = 15_000
TARGET = "log_weekly_income"
ALPHA = 1.0
N_RELEASES = 50
FAILURE_PROB = 0.05
# For the known bound: a guess of what is plausible, not the extremes of the data.
X_NORM = 4.0
Y_BOUNDS = (0.0, 3_000.0)
# The last row of each target: a weaker claim, with the least Laplace noise.
LEAST_NOISE = "both, whitened"
# How the sampled pairs are used, in the order of the rows.
SAMPLED: Mapping[str, Mapping[str, str]] = {
    "exchangeable": {"calibration": "exchangeable"},
    "pac": {"calibration": "pac"},
    "dkw": {"calibration": "dkw"},
    LEAST_NOISE: {"randomness": "both", "noise_shape": "whitened"},
}
HEADER = (
    "sensitivity from",
    "epsilon",
    "gamma",
    "K of m",
    "sensitivity",
    "noise scale",
    "achieved risk",
    "test RMSE",
    "+/- std",
    "without noise",
)
WIDTH = 80

Floats = NDArray[np.float64]


def from_files_to_report(folder: Path, seed: int) -> Iterator[str]:
    """Write public and private people to files, fit, report; yield lines to print."""
    census = load_census()
    people = np.column_stack([census.data, np.log(census.target)])
    people = np.random.default_rng(seed).permutation(people)
    public, private, test = np.split(people, [N_FEW, N_FEW + N_TRAIN])
    header = ",".join([*census.feature_names, TARGET])
    for name, part in (("public", public), ("private", private)):
        file = folder / f"{name}.csv"
        np.savetxt(file, part, "%.8g", ",", header=header, comments="")

    (X_public, y_public), (X, y) = read(folder, "public"), read(folder, "private")
    model = PrivateRidge(epsilon=1.0, gamma=0.05)
    model.fit(X, y, X_reference=X_public, y_reference=y_public)
    page = folder / "report.html"
    Report(model, data_set="US Census 2000, incomes").save(page)

    yield f"Typical error of the predicted incomes of {len(test):,} other people:"
    for name, other in (
        (f"without privacy, from {N_TRAIN:,} private people", Ridge().fit(X, y)),
        (f"from {N_FEW} public people alone", Ridge().fit(X_public, y_public)),
        ("private, epsilon = 1 and gamma = 0.05, from both", model),
    ):
        off = np.abs(other.predict(test[:, :-1]) - test[:, -1])
        yield f"{np.expm1(np.median(off)):6.1%}  {name}"
    guesses = guesses_text(model.certificate_.advantage.mean)
    yield paragraphs(
        "An attacker who knows everything except whether you are in the private file "
        f"guesses right at most {guesses} times in 100 instead of 50, on average over "
        "people."
    )
    yield f"Open {page}"


def read(folder: Path, name: str) -> tuple[Floats, Floats]:
    """Return features and targets of a file."""
    rows = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    return rows[:, :-1], rows[:, -1]


@dataclass(frozen=True)
class Split:
    """The records in three parts, features standardized."""

    X_public: Floats
    y_public: Floats
    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats


def split_census(seed: int) -> Split:
    """Return the census records, shuffled, split and standardized."""
    X, y = load_census(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    public, train, test = np.split(order, [N_PUBLIC, N_PUBLIC + N_TRAIN])
    # Fitted on the public reference only: means and standard deviations of the
    # private records would be a release without noise.
    X = StandardScaler().fit(X[public]).transform(X)
    return Split(X[public], y[public], X[train], y[train], X[test], y[test])


def describe(split: Split, seed: int) -> str:
    """Describe the data and the error of a prediction without a model."""
    mean = np.full(len(split.y_test), split.y_public.mean())
    baseline = root_mean_squared_error(split.y_test, mean)
    n_public, n_train, n_test = map(len, (split.X_public, split.X_train, split.X_test))
    return paragraphs(
        f"US Census 2000, shuffled with seed {seed}: {n_public} public, {n_train} "
        f"private and {n_test} test records. Ridge regression (alpha={ALPHA:g}) of "
        "weekly income in dollars, on features standardized with the means and "
        "standard deviations of the public reference only. Predicting the mean income "
        f"of the public reference for everyone has a test RMSE of {baseline:.1f}."
    )


def table_rows(
    split: Split,
    sampler: SensitivitySampler,
    epsilons: Sequence[float],
    gammas: Sequence[float],
) -> Iterator[tuple[str, ...]]:
    """Fit every model, and return a row of cells for each."""
    ridge = Ridge(alpha=ALPHA).fit(split.X_train, split.y_train)
    noiseless = root_mean_squared_error(split.y_test, ridge.predict(split.X_test))
    no_noise = format_rmse(noiseless)
    yield ("none: Ridge", "-", "-", "-", "-", "0", "-", no_noise, "-", no_noise)
    for epsilon in epsilons:
        bound = PrivateRidge(
            ALPHA,
            epsilon=epsilon,
            sensitivity="bound",
            solver="coefficients",  # so that sensitivities are of the same numbers
            x_norm=X_NORM,
            y_bounds=Y_BOUNDS,
        )
        yield (*released_cells("known bound", bound, split), no_noise)
        for gamma, (name, params) in product(gammas, SAMPLED.items()):
            other = copy.copy(sampler).set_params(**params)
            try:
                other.calibrate(epsilon=epsilon, gamma=gamma)
            except CalibrationError:
                target = (f"{epsilon:g}", f"{gamma:g}")
                yield (name, *target, "too few pairs", *"-----", no_noise)
                continue
            model = PrivateRidge(ALPHA, epsilon=epsilon, gamma=gamma, sensitivity=other)
            cells = released_cells(name, model, split)
            if name == LEAST_NOISE:  # whose sensitivity and scale are not in dollars
                cells = (*cells[:4], "-", "-", *cells[6:])
            yield (*cells, no_noise)


def released_cells(name: str, model: PrivateRidge, split: Split) -> tuple[str, ...]:
    """Release a model many times, and return its cells of the table."""
    errors = []
    for _ in range(N_RELEASES):
        model.fit(split.X_train, split.y_train)
        predicted = model.predict(split.X_test)
        errors.append(root_mean_squared_error(split.y_test, predicted))
    certificate = model.certificate_
    evidence = certificate.require_evidence()
    sampled = evidence.n_pairs is not None
    return (
        name,
        f"{certificate.epsilon:g}",
        f"{evidence.gamma:g}",
        f"{evidence.order_index} of {evidence.n_pairs}" if sampled else "-",
        f"{evidence.sensitivity:.4g}",
        f"{evidence.noise_scale:.4g}",
        format_risk(certificate.risk) if certificate.private else "-",
        format_rmse(float(np.mean(errors))),
        format_rmse(float(np.std(errors))),
    )


def format_rmse(value: float) -> str:
    """Write an error in dollars: a tenth is enough."""
    return f"{value:.1f}" if value < 1e5 else f"{value:.2e}"


def format_risk(risk: float) -> str:
    """Write a risk with 6 digits after the point, rounded up."""
    return f"{math.ceil(risk * 1e6) / 1e6:g}"


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align cells: names to the left, and all others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        names, *others = zip(row, widths, strict=True)
        cells = [names[0].ljust(names[1]), *(cell.rjust(w) for cell, w in others)]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def explain() -> str:
    """Explain how to read the table."""
    low, high = Y_BOUNDS
    return paragraphs(
        "Sensitivity, noise scale and RMSE are in dollars per week. The noise is "
        "calibrated to the K-th smallest sensitivity of m pairs, which are sampled "
        f"once; with pac, the risk holds for all but {100 * FAILURE_PROB:g} % of such "
        f"samples. The RMSE is the mean over {N_RELEASES} releases, each of which "
        "would spend its own budget.",
        f"{LEAST_NOISE}: the noise has the shape in which coefficients move, and the "
        "risk is over the pair and the noise. The known bound covers all databases "
        f"with rows clipped to a norm of {X_NORM:g} and incomes clipped to the range "
        f"from {low:g} to {high:g} dollars.",
    )


def format_certificate(certificate: Certificate) -> str:
    """Return the certificate, in lines that fit a terminal."""
    evidence = certificate.require_evidence()
    title = (
        "Certificate of the model at "
        f"epsilon={certificate.epsilon:g}, gamma={evidence.gamma:g}, "
        f"{evidence.calibration}:"
    )
    lines = [title, *str(certificate).splitlines()]
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent="    " * line.startswith(" "))
        for line in lines
    )


def paragraphs(*texts: str) -> str:
    """Return texts wrapped, one below the other."""
    return "\n".join(textwrap.fill(text, WIDTH) for text in texts)
