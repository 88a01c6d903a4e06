"""``skparisk schema``: a template of declared ranges, from a data dictionary."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from skparisk._cli._parser import Commands
from skparisk._cli._tables import open_csv

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
    columns = (_names_in if options.names_only else _dictionary_in)(options)
    names = [column["name"] for column in columns]
    if options.target not in names:
        raise ValueError(
            f"--target must be a name in '{options.dictionary}', got "
            f"{options.target!r}. What it has is not shown, as it may be a record of "
            "a table without a head."
        )
    if len({*names}) < len(names):
        raise ValueError(
            f"'{options.dictionary}' must have another name for each column."
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


def _names_in(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return columns of which nothing is known but the names in a first line.

    What follows may be private: it is neither told if it is no text, nor taken into a
    name whose quote is open.
    """
    path = options.dictionary
    with open_csv(path, options.target) as (lines, separator):
        head = next(csv.reader([lines.readline()], delimiter=separator), [])
    if any(sign in name for name in head for sign in "\r\n\ufffd"):
        raise ValueError(
            f"the names in '{path}' must be in its first line, in UTF-8, and each "
            "quote must be closed there."
        )
    # A column without a name has the numbers of rows.
    names = [name.strip() for name in head if name.strip()]
    return [dict.fromkeys(_KEYS, "") | {"name": name} for name in names]


def _dictionary_in(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return columns with what a data dictionary says of them."""
    path = options.dictionary
    with open_csv(path, "name") as (lines, separator):
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(lines, delimiter=separator)
        ]
    head = rows[0] if rows else []
    if not {*_KEYS[:2]} <= {*head}:
        raise ValueError(
            f"'{path}' must have the columns {', '.join(_KEYS)}; if it is a table, use "
            "--names-only. What it begins with is not shown, as it may be a record."
        )
    if any("\ufffd" in cell for row in rows for cell in row):
        raise ValueError(f"'{path}' must be in UTF-8.")
    empty = dict.fromkeys(_KEYS, "")
    columns = [empty | dict(zip(head, row, strict=False)) for row in rows[1:]]
    columns = [column for column in columns if any(column.values())]
    if not all(column["name"] for column in columns):
        raise ValueError(f"each line of '{path}' must have a name.")
    return columns


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
    text = column[name]
    if not text:
        return "TODO"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{name} of {column['name']!r} must be a finite number, written as 1234.5, "
            f"got {text!r}."
        )
    return repr(int(value)) if value.is_integer() else repr(value)
