"""``python -m skparisk``, and ``skparisk``: the command line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from skparisk._cli import demo, filing, fitting, ledgers, schemas
from skparisk._cli._parser import Parser
from skparisk._version import __version__

__all__ = ["main"]

_EXIT_CODES = (
    "Exit codes: 0 done, and every check passed; 1 a check or a verification says no; "
    "2 wrong usage or input, or no room in the budget, told in one line."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; they are in ``skparisk --help``."""
    options = make_parser().parse_args(argv)

    def warn(message: Warning | str, *where: Any, **more: Any) -> None:
        print(f"{options.prog}: warning: {_one_line(message)}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = warn
            return int(options.run(options))
    except BrokenPipeError:  # whoever reads has had enough: `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # What the library refuses, it refuses with these, in words for the user.
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"{options.prog}: error: {_one_line(error)}", file=sys.stderr)
        return 2


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="skparisk",
        description="Private models of tables: from a CSV to a filed report.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (fitting, schemas, filing, ledgers, demo):
        for command in module.add_to(commands):
            command.set_defaults(prog=command.prog)
            command.epilog = _EXIT_CODES
    return parser


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


if __name__ == "__main__":
    sys.exit(main())
