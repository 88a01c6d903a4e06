"""What commands share: a parser, options, and what is printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "Commands",
    "Parser",
    "add_declared",
    "checked",
    "import_skops",
    "print_json",
]

Commands = Any  # argparse has no public name for what `add_subparsers` returns


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


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


def add_declared(parser: argparse.ArgumentParser) -> None:
    """Add what is declared in a report."""
    group = parser.add_argument_group("declared in the report, and taken over as it is")
    for name, text in (
        ("project", "what it was made for"),
        ("data-set", "name and version of the data"),
        ("product", "what is released"),
        ("use", "intended use"),
        ("not-for", "what it must not be used for"),
    ):
        group.add_argument(f"--{name}", default="", metavar="TEXT", help=text)


def print_json(value: Any) -> None:
    """Print strict JSON."""
    print(json.dumps(value, indent=1, allow_nan=False))


def import_skops() -> Any:
    """Return skops.io, or say what to install."""
    try:
        import skops.io
    except ImportError:
        raise ImportError(
            "model files need skops, and tables pandas: python -m pip install "
            "'skparisk[cli]'."
        ) from None
    return skops.io
