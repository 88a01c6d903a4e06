"""``skparisk ledger``: budgets that are kept in files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skparisk._cli._parser import Commands, print_json


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command, and what it does."""
    parser = commands.add_parser("ledger", help="create, show or export a ledger")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="begin a ledger in a new file")
    create.add_argument("path", metavar="FILE")
    create.add_argument("--epsilon", required=True, type=float, metavar="E")
    create.add_argument("--delta", default=0.0, type=float, metavar="D")
    create.add_argument("--gamma", default=1.0, type=float, metavar="G")
    create.add_argument("--composition", default="basic")
    create.set_defaults(run=run_create)
    show = actions.add_parser("show", help="print what was spent, and what is left")
    show.add_argument("path", metavar="FILE")
    show.add_argument("--head", help="hash that was filed of it before")
    show.add_argument("--json", action="store_true")
    show.set_defaults(run=run_show)
    export = actions.add_parser("export", help="write all that it holds as JSON lines")
    export.add_argument("path", metavar="FILE")
    export.add_argument("output", type=Path, metavar="OUT.jsonl", help="a new file")
    export.set_defaults(run=run_export)
    return [parser, create, show, export]


def run_create(options: argparse.Namespace) -> int:
    """Begin a ledger."""
    from skparisk.ledger import PrivacyLedger

    limits = (options.epsilon, options.delta, options.gamma)
    print(PrivacyLedger(*limits, composition=options.composition, path=options.path))
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print a ledger."""
    from skparisk.ledger import PrivacyLedger

    ledger = PrivacyLedger.open(options.path, head=options.head)
    if options.json:
        print_json(ledger._as_dict())
    else:
        print(ledger)
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Export a ledger."""
    from skparisk.ledger import PrivacyLedger

    PrivacyLedger.open(options.path).to_jsonl(options.output)
    return 0
