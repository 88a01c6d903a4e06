"""``python -m skparisk``: a private ridge regression on real census records."""

from __future__ import annotations

import argparse
import copy
import math
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from skparisk._validate import check_at_least, check_epsilon, check_probability
from skparisk.calibration import (
    RiskCertificate,
    as_calibration,
    dkw_fewest_pairs,
    required_pairs,
)
from skparisk.datasets import load_census
from skparisk.exceptions import CalibrationError
from skparisk.linear_model import PrivateRidge
from skparisk.mechanisms import LaplaceMechanism
from skparisk.queries import RidgeQuery
from skparisk.sensitivity import SensitivitySampler

PROG = "python -m skparisk"
N_PUBLIC = 9_500
N_TRAIN = 15_000
ALPHA = 1.0
N_OUTPUTS = 9  # coefficients and intercept
N_RELEASES = 50
EPSILONS = (0.05, 0.5)
GAMMAS = (0.05, 0.01)
N_PAIRS = 2_000
SEED = 0
OUTPUT = Path("skparisk_census.png")
FORMATS = (".png", ".pdf", ".svg")
FAILURE_PROB = 0.05
# For the known bound: a guess of what is plausible, not the extremes of the data.
X_NORM = 4.0
Y_BOUNDS = (0.0, 3_000.0)
# How many pairs each calibration needs, at the least.
PAIRS_NEEDED: Mapping[str, Callable[[float], int]] = {
    "exchangeable": required_pairs,
    "pac": lambda gamma: required_pairs(gamma, failure_prob=FAILURE_PROB),
    "dkw": lambda gamma: dkw_fewest_pairs(gamma).n_pairs,
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


@dataclass(frozen=True)
class Split:
    """The records in three parts, features standardized."""

    X_public: Floats
    y_public: Floats
    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; the options are in ``python -m skparisk --help``."""
    parser = make_parser()
    options = parser.parse_args(argv)
    try:
        run(options)
    except ValueError as error:  # what is wrong with the options
        parser.error(str(error))
    return 0


def run(options: argparse.Namespace) -> None:
    """Check the options together, then sample, train, print and draw."""
    figure_class = import_figure()
    for gamma in options.gamma:
        as_calibration("exchangeable", FAILURE_PROB).order_index(options.n_pairs, gamma)
    for epsilon in options.epsilon:
        LaplaceMechanism(1.0, epsilon, N_OUTPUTS)
    if figure_class is not None:
        check_writable(options.output)

    split = split_census(options.seed)
    print(describe(split, options.seed), flush=True)
    sampler = SensitivitySampler(
        RidgeQuery(ALPHA),
        epsilon=options.epsilon[0],
        gamma=options.gamma[0],
        failure_prob=FAILURE_PROB,
        n_records=N_TRAIN,
        n_pairs=options.n_pairs,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    ).fit(split.X_public, split.y_public)
    rows = list(table_rows(split, sampler, options.epsilon, options.gamma))
    print(f"\n{format_table(HEADER, rows)}\n\n{explain()}")
    print(f"\n{format_certificate(sampler.certificate_)}\n")
    if figure_class is None:
        print("No picture: it needs matplotlib (python -m pip install matplotlib).")
        return
    quantiles = chosen_quantiles(sampler, options.gamma)
    draw_picture(figure_class(), sampler.sensitivities_, quantiles, options.output)
    print(f"Picture of the sampled sensitivities: {options.output}")


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog=PROG,
        description="Train a private ridge regression on US Census records, at "
        "several privacy levels and risks and with several calibrations of the "
        "noise, and compare it with ridge regression without noise.",
    )
    parser.add_argument(
        "--epsilon",
        nargs="+",
        type=checked(float, check_epsilon),
        default=EPSILONS,
        metavar="E",
        help=f"privacy levels, each in (0, inf] (default: {words(EPSILONS)})",
    )
    parser.add_argument(
        "--gamma",
        nargs="+",
        type=checked(float, lambda value: check_probability(value, "gamma")),
        default=GAMMAS,
        metavar="G",
        help="risks, each in (0, 1): the probability that the privacy loss exceeds "
        f"the privacy level (default: {words(GAMMAS)})",
    )
    parser.add_argument(
        "--n-pairs",
        type=checked(int, lambda value: check_at_least(value, "n_pairs", 1)),
        default=N_PAIRS,
        metavar="M",
        help="pairs of neighboring databases that are sampled, at least 1/G - 1 "
        f"(default: {N_PAIRS})",
    )
    parser.add_argument(
        "--n-jobs",
        type=checked(int, check_n_jobs),
        metavar="N",
        help="workers that sample, -1 for all processors; the sampled pairs do not "
        "depend on it (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=checked(int, check_seed),
        default=SEED,
        metavar="S",
        help="seeds the split of the records and the sampling of pairs, never the "
        f"noise: the RMSE differs from run to run (default: {SEED})",
    )
    parser.add_argument(
        "--output",
        type=checked(Path, check_format),
        default=OUTPUT,
        metavar="FILE",
        help=f"where the picture goes, one of {words(FORMATS)} (default: {OUTPUT})",
    )
    return parser


def words(values: Iterable[object]) -> str:
    """Return values as one string."""
    return " ".join(map(str, values))


def checked(
    convert: Callable[[str], Any], check: Callable[[Any], Any]
) -> Callable[[str], Any]:
    """Return what reads an option and refuses a value with the words of `check`."""

    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = text  # for `check` to refuse
        try:
            return check(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def check_n_jobs(value: Any) -> int:
    """Return a number of workers, in the sense of joblib."""
    if not isinstance(value, int) or value == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, got {value!r}.")
    return value


def check_seed(value: Any) -> int:
    """Return a seed that NumPy and scikit-learn take."""
    if not isinstance(value, int) or not 0 <= value < 2**32:
        raise ValueError(f"seed must be a whole number in [0, 2**32), got {value!r}.")
    return value


def check_format(path: Path) -> Path:
    """Return a path that ends in a known format."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"output must end in one of {words(FORMATS)}, got '{path}'.")
    return path


def check_writable(path: Path) -> None:
    """Open a file for writing, and leave everything as it was."""
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise ValueError(
            f"output must be a file that can be written, got '{path}': "
            f"{error.strerror}."
        ) from None
    if not existed:
        path.unlink()


def import_figure() -> Any:
    """Return matplotlib's Figure, or None where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    return Figure


def split_census(seed: int) -> Split:
    """Return the census records, shuffled, split and standardized."""
    X, y = load_census(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    public, train, test = np.split(order, [N_PUBLIC, N_PUBLIC + N_TRAIN])
    # Fitted on the public reference only: means and standard deviations of the
    # private records would be a release without noise.
    X = StandardScaler().fit(X[public]).transform(X)
    return Split(X[public], y[public], X[train], y[train], X[test], y[test])


def root_mean_square(errors: Floats) -> float:
    """Return the root of the mean square."""
    return math.sqrt(np.mean(errors**2))


def describe(split: Split, seed: int) -> str:
    """Say what the data are, and what predicting without a model is worth."""
    baseline = root_mean_square(split.y_test - split.y_public.mean())
    n_public, n_train, n_test = map(len, (split.X_public, split.X_train, split.X_test))
    return paragraphs(
        f"US Census 2000, {n_public + n_train + n_test} records, shuffled with seed "
        f"{seed}: {n_public} are a public reference, {n_train} are private and "
        f"trained on, {n_test} are for testing.",
        f"Ridge regression (alpha={ALPHA:g}) of weekly income in dollars on "
        f"{split.X_train.shape[1]} features (age, education, experience, region), "
        "standardized with means and standard deviations of the public reference "
        "only, as those of the private records would be a release without noise. "
        "Predicting the mean income of the public reference for everyone has a test "
        f"RMSE of {baseline:.1f} dollars; a few very high incomes make up most of it, "
        "and ridge regression does not foresee them either.",
    )


def table_rows(
    split: Split,
    sampler: SensitivitySampler,
    epsilons: Sequence[float],
    gammas: Sequence[float],
) -> Iterator[tuple[str, ...]]:
    """Fit every model, and return a row of cells for each."""
    ridge = Ridge(alpha=ALPHA).fit(split.X_train, split.y_train)
    noiseless = root_mean_square(split.y_test - ridge.predict(split.X_test))
    no_noise = format_rmse(noiseless)
    yield ("none: Ridge", "-", "-", "-", "-", "0", "-", no_noise, "-", no_noise)
    for epsilon in epsilons:
        bound = PrivateRidge(
            ALPHA,
            epsilon=epsilon,
            sensitivity="bound",
            x_norm=X_NORM,
            y_bounds=Y_BOUNDS,
        )
        yield (*released_cells("known bound", bound, split), no_noise)
        for gamma in gammas:
            for calibration in PAIRS_NEEDED:
                try:
                    calibrated = recalibrate(sampler, calibration, epsilon, gamma)
                except CalibrationError:
                    needed = PAIRS_NEEDED[calibration](gamma)
                    note = f"needs {needed} pairs"
                    yield (calibration, f"{epsilon:g}", f"{gamma:g}", note)
                    continue
                model = PrivateRidge(
                    ALPHA, epsilon=epsilon, gamma=gamma, sensitivity=calibrated
                )
                yield (*released_cells(calibration, model, split), no_noise)


def recalibrate(
    sampler: SensitivitySampler, calibration: str, epsilon: float, gamma: float
) -> SensitivitySampler:
    """Return a sampler with another calibration and target, from the same pairs."""
    other = copy.copy(sampler).set_params(calibration=calibration)
    return other.calibrate(epsilon=epsilon, gamma=gamma)


def released_cells(name: str, model: PrivateRidge, split: Split) -> tuple[str, ...]:
    """Release a model many times, and return its cells of the table."""
    errors = []
    for _ in range(N_RELEASES):
        model.fit(split.X_train, split.y_train)
        errors.append(root_mean_square(split.y_test - model.predict(split.X_test)))
    certificate = model.certificate_
    return (
        name,
        f"{certificate.epsilon:g}",
        f"{certificate.gamma:g}",
        "-"
        if certificate.n_pairs is None
        else f"{certificate.order_index} of {certificate.n_pairs}",
        f"{certificate.sensitivity:.4g}",
        f"{certificate.noise_scale:.4g}",
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
    """Align cells; the last one of a row that is short stretches to the right."""
    full = [row for row in (header, *rows) if len(row) == len(header)]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    rule = ["-" * width for width in widths]

    def line(row: Sequence[str]) -> str:
        first, *rest = (
            cell.rjust(width) for cell, width in zip(row, widths, strict=False)
        )
        if len(row) < len(header):
            rest[-1] = row[-1]
        return "  ".join([row[0].ljust(len(first)), *rest])

    return "\n".join(map(line, (header, rule, *rows)))


def explain() -> str:
    """Say how the table is to be read."""
    low, high = Y_BOUNDS
    return paragraphs(
        "Sensitivity, noise scale and RMSE are in dollars a week. The noise is "
        "calibrated to sensitivity number K of m, in rising order; the m pairs of "
        "neighboring databases were sampled once, for all rows. The achieved risk "
        "counts the sampling of pairs as well; with pac it holds for all but "
        f"{100 * FAILURE_PROB:g} % of samples of pairs, each by itself. The RMSE is "
        f"over {N_RELEASES} releases, each with fresh noise. Outside a demonstration "
        "each would spend a budget of its own, and the model without noise would "
        "stay secret.",
        "The known bound has no risk: it covers all databases, with rows clipped to "
        f"a norm of {X_NORM:g} and incomes to {low:g} to {high:g} dollars, both "
        "declared without a look at the data. With alpha this small the worst case "
        "is far worse than what is drawn from a census, and the noise covers it.",
    )


def format_certificate(certificate: RiskCertificate) -> str:
    """Return the certificate, in lines that fit a terminal."""
    title = (
        "Certificate of the model at "
        f"epsilon={certificate.epsilon:g}, gamma={certificate.gamma:g}, "
        f"{certificate.calibration}:"
    )
    lines = [title, *str(certificate).splitlines()]
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent="    " * line.startswith(" "))
        for line in lines
    )


def paragraphs(*texts: str) -> str:
    """Return texts wrapped, one below the other."""
    return "\n".join(textwrap.fill(text, WIDTH) for text in texts)


def chosen_quantiles(
    sampler: SensitivitySampler, gammas: Iterable[float]
) -> dict[tuple[str, float], float]:
    """Return the sensitivity of each calibration and risk that has enough pairs."""
    quantiles = {}
    for gamma in dict.fromkeys(gammas):
        for calibration in PAIRS_NEEDED:
            other = copy.copy(sampler).set_params(calibration=calibration)
            try:
                quantiles[calibration, gamma] = other.sensitivity_at(gamma)
            except CalibrationError:
                continue
    return quantiles


def draw_picture(
    figure: Any,
    sensitivities: Floats,
    quantiles: Mapping[tuple[str, float], float],
    output: Path,
) -> None:
    """Save the histogram of sampled sensitivities, with the chosen quantiles."""
    colors = dict(
        zip(PAIRS_NEEDED, ("tab:orange", "tab:green", "tab:red"), strict=True)
    )
    styles = ("-", "--", ":", "-.")
    gammas = list(dict.fromkeys(gamma for _, gamma in quantiles))
    # Equal records, nearly or wholly, would stretch the axis for a few pairs.
    low = float(np.quantile(sensitivities[sensitivities > 0], 0.005))
    bins = np.geomspace(low, 1.1 * sensitivities.max(), 50)
    figure.set_size_inches(8, 4 + 0.2 * len(quantiles))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    axes.hist(np.maximum(sensitivities, low), bins=bins, color="tab:blue", alpha=0.5)
    for (calibration, gamma), sensitivity in quantiles.items():
        axes.axvline(
            sensitivity,
            color=colors[calibration],
            linestyle=styles[gammas.index(gamma) % len(styles)],
            label=f"{calibration}, γ = {gamma:g}: {sensitivity:#.3g} dollars",
        )
    axes.set_xscale("log")
    axes.set_xlabel(
        "sensitivity of a pair: l1 distance of coefficients (dollars a week)"
    )
    axes.set_ylabel(f"pairs, of {len(sensitivities)} (leftmost bar: and below)")
    axes.set_title(f"Ridge regression when one of {N_TRAIN} census records is replaced")
    figure.legend(
        title="sensitivity that the noise is calibrated to",
        loc="outside lower center",
        ncols=min(len(gammas), 2),
    )
    figure.savefig(output, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
