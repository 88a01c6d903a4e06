"""``skparisk demo``: a private ridge regression of real census records."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from skparisk._checks import check_n_jobs
from skparisk._cli._parser import Commands, checked
from skparisk.core.checks import check_at_least, check_epsilon, check_probability

# Defaults of the table.
EPSILONS, GAMMAS, N_PAIRS = (0.05, 0.5), (0.05, 0.01), 2_000


def run(options: argparse.Namespace) -> int:
    """Write the files and the report, or print the table."""
    from skparisk import _demo

    if options.compare:
        return compare(options)
    names = ("epsilon", "gamma", "n_pairs", "n_jobs")
    given = [name for name in names if getattr(options, name) is not None]
    if given:
        raise ValueError(f"--{given[0].replace('_', '-')} needs --compare.")
    try:
        options.output.mkdir()
    except OSError as error:
        raise ValueError(
            f"output must be a new folder inside an existing, writable one, got "
            f"'{options.output}': {error.strerror}."
        ) from None
    for line in _demo.from_files_to_report(options.output, options.seed):
        print(line)
    return 0


def compare(options: argparse.Namespace) -> int:
    """Sample once, train each model at each target, and print a table."""
    from skparisk import _demo
    from skparisk.queries import RidgeQuery
    from skparisk.sensitivity import SensitivitySampler

    epsilons, gammas = options.epsilon or EPSILONS, options.gamma or GAMMAS
    split = _demo.split_census(options.seed)
    sampler = SensitivitySampler(
        RidgeQuery(_demo.ALPHA),
        epsilon=epsilons[0],
        gamma=gammas[0],
        failure_prob=_demo.FAILURE_PROB,
        noise_shape="isotropic",  # so that sensitivities are in dollars
        n_records=_demo.N_TRAIN,
        n_pairs=options.n_pairs or N_PAIRS,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    ).fit(split.X_public, split.y_public)
    print(_demo.describe(split, options.seed), flush=True)
    rows = list(_demo.table_rows(split, sampler, epsilons, gammas))
    print(f"\n{_demo.format_table(_demo.HEADER, rows)}\n\n{_demo.explain()}")
    print(f"\n{_demo.format_certificate(sampler.certificate_)}")
    return 0


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="fit a private model to files of census records, and write its report",
        description="Write US Census records to two files, one of public and one of "
        "private people. Fit a private ridge regression to both. Print its error, "
        "beside a model without privacy and one of the public people alone. Write the "
        "report that a data steward files. With --compare, print a table of privacy "
        "levels, risks and calibrations of the noise instead.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("skparisk-demo"),
        metavar="FOLDER",
        help="new folder for the files and the report (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=checked(int, lambda value: check_at_least(value, "seed", 0)),
        default=0,
        metavar="S",
        help="seeds the choice of public and private people and, with --compare, the "
        "sampled pairs; never the noise (default: %(default)s)",
    )
    parser.add_argument(
        "--compare", action="store_true", help="print a table, and write no file"
    )
    table = parser.add_argument_group("options of --compare")
    table.add_argument(
        "--epsilon",
        nargs="+",
        type=checked(float, check_epsilon),
        metavar="E",
        help=f"privacy levels, each in (0, inf] (default: {words(EPSILONS)})",
    )
    table.add_argument(
        "--gamma",
        nargs="+",
        type=checked(float, lambda value: check_probability(value, "gamma")),
        metavar="G",
        help="risks, each in (0, 1): the probability that the privacy loss exceeds "
        f"the privacy level (default: {words(GAMMAS)})",
    )
    table.add_argument(
        "--n-pairs",
        type=checked(int, lambda value: check_at_least(value, "n_pairs", 1)),
        metavar="M",
        help="pairs of neighboring databases to sample, at least 1/G - 1 (default: "
        f"{N_PAIRS})",
    )
    table.add_argument(
        "--n-jobs",
        type=checked(int, check_n_jobs),
        metavar="N",
        help="workers for sampling, -1 for all processors; does not affect the sampled "
        "pairs (default: 1)",
    )
    parser.set_defaults(run=run)
    return [parser]


def words(values: Iterable[object]) -> str:
    """Return values as one string."""
    return " ".join(map(str, values))
