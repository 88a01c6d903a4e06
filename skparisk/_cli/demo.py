"""``skparisk demo``: a private ridge regression on real census records."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from skparisk._cli._parser import Commands, checked
from skparisk._validate import (
    check_at_least,
    check_epsilon,
    check_n_jobs,
    check_probability,
)

EPSILONS = (0.05, 0.5)
GAMMAS = (0.05, 0.01)
N_PAIRS = 2_000
SEED = 0
OUTPUT = Path("skparisk_census.png")
FORMATS = (".png", ".pdf", ".svg")


def run(options: argparse.Namespace) -> int:
    """Run the demonstration."""
    figure_class = import_figure()
    check_together(options)
    if figure_class is not None:
        check_writable(options.output)
    show(options, figure_class)
    return 0


def check_together(options: argparse.Namespace) -> None:
    """Raise ValueError if the pairs are too few, or a level is too small for noise."""
    from skparisk import _demo
    from skparisk.calibration._rules import as_rule
    from skparisk.mechanisms import LaplaceMechanism

    rule = as_rule("exchangeable", _demo.FAILURE_PROB)
    for gamma in options.gamma:
        rule.order_index(options.n_pairs, gamma)
    for epsilon in options.epsilon:
        LaplaceMechanism(1.0, epsilon, _demo.N_OUTPUTS)


def show(options: argparse.Namespace, figure_class: Any) -> None:
    """Sample, train, print and draw."""
    from skparisk import _demo
    from skparisk.queries import RidgeQuery
    from skparisk.sensitivity import SensitivitySampler

    split = _demo.split_census(options.seed)
    print(_demo.describe(split, options.seed), flush=True)
    sampler = SensitivitySampler(
        RidgeQuery(_demo.ALPHA),
        epsilon=options.epsilon[0],
        gamma=options.gamma[0],
        failure_prob=_demo.FAILURE_PROB,
        noise_shape="isotropic",  # so that sensitivities are in dollars
        n_records=_demo.N_TRAIN,
        n_pairs=options.n_pairs,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    ).fit(split.X_public, split.y_public)
    rows = list(_demo.table_rows(split, sampler, options.epsilon, options.gamma))
    print(f"\n{_demo.format_table(_demo.HEADER, rows)}\n\n{_demo.explain()}")
    print(f"\n{_demo.format_certificate(sampler.certificate_)}\n")
    if figure_class is None:
        print("No picture: it needs matplotlib (python -m pip install matplotlib).")
        return
    quantiles = _demo.chosen_quantiles(sampler, options.gamma)
    _demo.draw_picture(
        figure_class(), sampler.sensitivities_, quantiles, options.output
    )
    print(f"Picture of the sampled sensitivities: {options.output}")


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="train private models of census records, and compare them",
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
        help="pairs of neighboring databases to sample, at least 1/G - 1 (default: "
        f"{N_PAIRS})",
    )
    parser.add_argument(
        "--n-jobs",
        type=checked(int, check_n_jobs),
        metavar="N",
        help="workers for sampling, -1 for all processors; the sampled pairs do not "
        "depend on it (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=checked(int, check_seed),
        default=SEED,
        metavar="S",
        help="seeds the split of the records and the sampling of pairs, never the "
        f"noise, so the RMSE differs from run to run (default: {SEED})",
    )
    parser.add_argument(
        "--output",
        type=checked(Path, check_format),
        default=OUTPUT,
        metavar="FILE",
        help=f"file for the picture, ending in one of {words(FORMATS)} (default: "
        f"{OUTPUT})",
    )
    parser.set_defaults(run=run)
    return [parser]


def words(values: Iterable[object]) -> str:
    """Return values as one string."""
    return " ".join(map(str, values))


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
            f"output must be a writable file, got '{path}': {error.strerror}."
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
