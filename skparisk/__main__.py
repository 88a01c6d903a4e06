"""``python -m skparisk``, and ``skparisk``: the command line."""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from skparisk._cli import demo, filing, fitting
from skparisk._cli._parser import Parser, UntilClosed, one_line
from skparisk._version import __version__

__all__ = ["main"]

_EXIT_CODES = (
    "Exit codes: 0 done, and every check passed; 1 a check or a verification says no; "
    "2 wrong usage or input, or no room in the budget, told in one line; 3 the "
    "guarantee does not stand, and the first line says why; 4 a fault of the program; "
    "130 interrupted. They are the same if nobody reads what is printed."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; they are in ``skparisk --help``."""
    out, err = UntilClosed(sys.stdout), UntilClosed(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        code = _run(make_parser().parse_args(argv))
        err.flush()
    return code


def _run(options: argparse.Namespace) -> int:
    """Run a command, and tell in one line why it does not end well."""

    def warn(message: Warning | str, *where: Any, **more: Any) -> None:
        print(f"{options.prog}: warning: {one_line(message)}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = warn
            code = int(options.run(options))
        sys.stdout.flush()
        return code
    # What the library refuses, it refuses with these, in words for the user.
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"{options.prog}: error: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        told = "interrupted. What was charged to a ledger before stays charged."
        print(f"{options.prog}: error: {told}", file=sys.stderr)
        return 130
    # What it does not expect may be told in values of private records.
    except Exception as error:
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        name, where = type(error).__name__, Path(frame.f_code.co_filename).name
        print(
            f"{options.prog}: error: a fault of the program, {name} in line {line} of "
            f"{where}; what it says is not shown, as it may hold private values.",
            file=sys.stderr,
        )
        return 4


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="skparisk",
        description="Private models of tables: from a CSV to a filed report.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (fitting, filing, demo):
        for command in module.add_to(commands):
            command.set_defaults(prog=command.prog)
            command.epilog = _EXIT_CODES
    return parser


if __name__ == "__main__":
    sys.exit(main())
