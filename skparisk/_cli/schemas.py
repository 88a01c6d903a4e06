"""``skparisk schema``: a template of declared ranges, from a data dictionary."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from skparisk._cli._parser import Commands
from skparisk._cli._tables import separator_of

__all__ = ["add_to"]

_KEYS = ("name", "kind", "low", "high", "values")
_KINDS = ("number", "whole", "words")
_HEAD = (
    "# What each column may hold, from public knowledge alone: never from the private\n"
    "# records. Fill in what is marked with TODO, which cannot be read as it is.\n"
)


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "schema",
        help="write a template of declared ranges from a data dictionary",
        description="Write a schema for fit --schema from a data dictionary, a CSV "
        f"with the columns {', '.join(_KEYS)}, where kind is one of "
        f"{', '.join(_KINDS)}, and values are separated by |. What is not given is "
        "marked with TODO. Private values are never looked at: with --names-only the "
        "first line of a table is read, and nothing else of it.",
    )
    parser.add_argument("dictionary", type=Path, metavar="DICTIONARY.csv")
    parser.add_argument("--target", required=True, help="name of the target column")
    parser.add_argument(
        "--names-only",
        action="store_true",
        help="take the file to be a table, and its first line as the names",
    )
    parser.add_argument(
        "--output", type=Path, metavar="SCHEMA.toml", help="a new file (default: print)"
    )
    parser.set_defaults(run=run)
    return [parser]


def run(options: argparse.Namespace) -> int:
    """Write a template."""
    with options.dictionary.open(encoding="utf-8-sig", newline="") as lines:
        wanted = options.target if options.names_only else "name"
        separator = separator_of(lines.readline(), wanted)
        lines.seek(0)
        reader = csv.reader(lines, delimiter=separator)
        head = [name.strip() for name in next(reader, [])]
        if options.names_only:
            columns = [dict.fromkeys(_KEYS, "") | {"name": name} for name in head]
        elif {*_KEYS[:2]} <= {*head}:
            empty = dict.fromkeys(_KEYS, "")
            columns = [empty | dict(zip(head, row, strict=False)) for row in reader]
        else:
            raise ValueError(
                f"'{options.dictionary}' must have the columns {', '.join(_KEYS)}; if "
                "it is a table, use --names-only. What it begins with is not shown, as "
                "it may be a record."
            )
    names = [column["name"] for column in columns]
    if options.target not in names:
        raise ValueError(
            f"--target must be a name in '{options.dictionary}', got "
            f"{options.target!r}. What it has is not shown, as it may be a record of "
            "a table without a head."
        )
    texts = [_HEAD, f"target = {json.dumps(options.target)}\n"]
    texts += map(_column, columns)
    text = "\n".join(texts)
    if options.output is None:
        sys.stdout.write(text)
    else:
        with options.output.open("x", encoding="utf-8") as file:
            file.write(text)
        n_open = text.count("TODO") - _HEAD.count("TODO")
        print(f"Written: {options.output}, with {n_open} places marked TODO to fill in")
    return 0


def _column(column: Mapping[str, str]) -> str:
    """Return what is declared of a column, as TOML."""
    kind = column["kind"] or "TODO"
    where = f"[columns.{json.dumps(column['name'])}]\n"
    if kind == "words":
        values = [value.strip() for value in column["values"].split("|")]
        listed = json.dumps(values) if any(values) else "[TODO]"
        return f"{where}categories = {listed}\n"
    if kind not in (*_KINDS, "TODO"):
        raise ValueError(
            f"kind of {column['name']!r} must be one of {', '.join(_KINDS)}, got "
            f"{kind!r}."
        )
    ends = f"[{_end(column, 'low')}, {_end(column, 'high')}]"
    if kind == "TODO":
        return f"{where}TODO = 'range = [low, high], or categories = [...]\n"
    return f"{where}{'whole' if kind == 'whole' else 'range'} = {ends}\n"


def _end(column: Mapping[str, str], name: str) -> str:
    """Return an end of a range as a number of TOML."""
    text = column[name].strip()
    if not text:
        return "TODO"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(
            f"{name} of {column['name']!r} must be a number, got {text!r}."
        ) from None
    return repr(int(value)) if value.is_integer() else repr(value)
