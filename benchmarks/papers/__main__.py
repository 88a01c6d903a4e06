"""Make the figures, tables and numbers of the three sources again, and compare."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from . import _write
from ._study import Study

NAMES = (
    "dandekar_formulas",
    "dandekar_cost",
    "dandekar_composition",
    "dandekar_census",
    "rubinstein_sampling",
    "rubinstein_svm",
    "rubinstein_density",
    "diffpriv",
    "lecture",
)


def run(name: str, fast: bool) -> Study:
    """Return what a script of this folder reproduces."""
    return import_module(f"{__package__}.{name}").reproduce(fast)


def show(study: Study) -> None:
    for line in study.lines:
        print(f"\n{study.source}, {line.item}: {line.what}")
        print(f"  paper   {line.paper}\n  here    {line.here}")
        print(f"  agrees  {line.verdict}" + " (NOT EXPECTED)" * line.surprising)
        for text in (line.why_not, line.note):
            if text:
                print(f"          {text}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.papers", description=__doc__)
    parser.add_argument("--only", choices=NAMES, action="append", metavar="NAME")
    parser.add_argument("--fast", action="store_true", help="fewer repeats and pairs")
    parser.add_argument(
        "--output", type=Path, default=Path("papers"), help="folder of the pictures"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the table of README.md, or with --fast the page of figures",
    )
    options = parser.parse_args(arguments)
    if options.only and options.write:
        parser.error("--write takes all of them, so no --only")
    studies = []
    for name in options.only or NAMES:
        start = time.perf_counter()
        study = run(name, options.fast)
        studies.append(study)
        show(study)
        files = _write.save_pictures(study, options.output, "png")
        seconds = time.perf_counter() - start
        print(f"\n{name}: {seconds:.0f} s", *files, sep="\n  ", flush=True)
    if options.write and options.fast:
        _write.write_page(studies)
    elif options.write:
        _write.write_table(studies)
    surprises = [line for study in studies for line in study.surprises()]
    for line in surprises:
        print(f"NOT EXPECTED: {line.item}, {line.what}: {line.here}")
    return 1 if surprises else 0


if __name__ == "__main__":
    raise SystemExit(main())
