"""What commands share: a parser, options, and what is printed."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from skparisk.core.checks import check_at_least, check_probability

Commands = Any  # argparse has no public name for what `add_subparsers` returns
ENDINGS = "as .html, .json or .md"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {one_line(message)}\n")


def one_line(message: object) -> str:
    """Return what a message says in one line; without the number of a system error."""
    if isinstance(message, OSError) and message.filename is not None:
        message = f"'{message.filename}': {message.strerror}"
    return " ".join(str(message).split())


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


def whole(name: str, least: int) -> Callable[[str], Any]:
    """Return what reads a whole number that is not below `least`."""
    return checked(int, lambda value: check_at_least(value, name, least))


def share(name: str) -> Callable[[str], Any]:
    """Return what reads a number in (0, 1)."""
    return checked(float, lambda value: check_probability(value, name))


def option(
    parser: Any, name: str, metavar: str | None, text: str | None, **how: Any
) -> None:
    """Add the name of a file, or what `type` reads."""
    parser.add_argument(name, metavar=metavar, help=text, **{"type": Path, **how})


def flag(parser: argparse.ArgumentParser, name: str, text: str | None = None) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=text)


def add_about(parser: argparse.ArgumentParser) -> None:
    """Add what is declared in a report."""
    option(
        parser,
        "--about",
        "ABOUT.toml",
        "declarations to copy into the report: project, data_set, product, use, "
        "not_for, controller, purpose, legal_basis, requester, contact, reviewer, "
        "review_date, reference_source",
    )


def read_about(path: Path | None) -> dict[str, str]:
    """Return what was declared in a file; nothing without one."""

    def read(path: Path) -> dict[str, str]:
        found = tomllib.loads(path.read_text("utf-8"))
        return {name: str(text) for name, text in found.items()}

    return {} if path is None else read_toml(read, path)


def read_toml(read: Callable[[Path], Any], path: Path) -> Any:
    """Return what is read of a file, or say what is wrong with it, and with which."""
    try:
        return read(path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' must be a file of TOML: {error}.") from None


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the option by which files are replaced."""
    flag(parser, "--force", "replace existing files")


def exit_code(claims: Iterable[Any], checks: Iterable[Any] = ()) -> int:
    """Return 3 if one of the claims does not stand, 1 if a check fails, and else 0."""
    if not all(claim.private for claim in claims):
        return 3
    return int(not all(check.passed for check in checks))


def read_policy(path: Path | None) -> Any:
    """Return the policy of a file; None without one."""
    from skparisk.report import Policy

    return None if path is None else read_toml(Policy.from_toml, path)


class UntilClosed:
    """A stream that goes on without a word when nobody reads it any more.

    What a command does, and its exit code, must not depend on `... | head`.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._unless_closed(self._stream.write, text) or 0)

    def flush(self) -> None:
        self._unless_closed(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _unless_closed(self, act: Callable[..., Any], *given: Any) -> Any:
        try:
            return act(*given)
        except BrokenPipeError:
            # What is still in the buffer goes there as well.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            return None


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
