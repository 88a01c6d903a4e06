"""``skparisk report``, ``verify``, ``check`` and ``ledger``: documents of a steward."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from skparisk._cli._parser import (
    ENDINGS,
    Commands,
    add_about,
    add_force,
    exit_code,
    flag,
    import_skops,
    one_line,
    option,
    print_json,
    read_about,
    read_policy,
)

# Of what is not the library's own, what its models hold. To load it runs nothing: a
# function in a partial is listed, and refused, by itself.
_TRUSTED = (
    "builtins.frozenset",
    "builtins.range",
    "functools.partial",
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",  # a list, until 1.7
)


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the commands."""
    made = commands.add_parser(
        "report",
        help="write a report of a model file or a certificate",
        description="Write a report of a model or a certificate, or convert a report "
        "to another format.",
    )
    text = "model (.skops), certificate (.json) or report (.json, .html)"
    option(made, "source", "SOURCE", text)
    option(made, "--output", "FILE", f"new report, {ENDINGS}", required=True)
    option(made, "--policy", "POLICY.toml", "rules to check in the report")
    option(made, "--ledger", "FILE", "ledger to describe in the report")
    add_about(made)
    add_force(made)
    made.set_defaults(run=run_report)
    decided = commands.add_parser(
        "decide",
        help="write a report with a decision",
        description="Copy a report into a new one that adds the decision and the id "
        "of the original.",
    )
    option(decided, "report", "REPORT", "report to decide on (.json, .html)")
    option(decided, "--checker", "NAME", "who decides", type=str, required=True)
    option(decided, "--decision", "TEXT", "such as approved", type=str, required=True)
    option(decided, "--reason", "TEXT", "why", type=str, default="")
    text = "day of the decision (default: today)"
    option(decided, "--date", "DAY", text, type=str, default="")
    option(decided, "--output", "FILE", f"new report, {ENDINGS}", required=True)
    add_force(decided)
    decided.set_defaults(run=run_decide)
    verified = commands.add_parser(
        "verify",
        help="compare a report with the files that it describes",
        description="Verify that the id of a report matches its content; that an "
        ".html page shows exactly the document inside of it; that files have the "
        "SHA-256 in the report; that a model holds the same certificate; and that "
        "the ledger had the budget and the charges that the report shows, and still "
        "has them. This is no signature: "
        "whoever can replace all files can forge a report with a matching id. "
        "Compare the id with the one on file.",
    )
    option(verified, "report", "REPORT", "report (.json, .html)")
    option(verified, "files", "FILE", "file named in the report", nargs="*")
    option(verified, "--ledger", "FILE", "ledger described in the report")
    flag(verified, "--json", "print the results as JSON")
    verified.set_defaults(run=run_verify)
    checked = commands.add_parser(
        "check",
        help="check a report against a policy",
        description="Check a report or a certificate against a policy, and print one "
        "line per rule. A policy is a TOML file with any of these: epsilon, delta and "
        "gamma (upper limits), relation, reference_audited = true, public_reference "
        "= true. The check trusts the report, which has no signature to prove its "
        "author (see verify).",
    )
    option(checked, "report", "REPORT", "report or certificate (.json, .html)")
    option(checked, "--policy", "POLICY.toml", "rules to check", required=True)
    flag(checked, "--json", "print the results as JSON")
    checked.set_defaults(run=run_check)
    ledger = commands.add_parser("ledger", help="create, show or export a ledger")
    actions = ledger.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a ledger in a new file")
    create.add_argument("path", metavar="FILE")
    for name, default in (("epsilon", None), ("delta", 0.0), ("gamma", 1.0)):
        text = f"total budget{'' if default is None else f' (default: {default})'}"
        how = {"type": float, "default": default, "required": default is None}
        option(create, f"--{name}", name[0].upper(), text, **how)
    text = "how releases add up: basic (default) or advanced"
    create.add_argument("--composition", default="basic", help=text)
    create.set_defaults(run=run_create)
    show = actions.add_parser("show", help="print the spent and the remaining budget")
    show.add_argument("path", metavar="FILE")
    show.add_argument("--head", help="hash of the last entry, as it was filed")
    flag(show, "--json", "print the ledger as JSON")
    show.set_defaults(run=run_show)
    export = actions.add_parser("export", help="write all entries as JSON lines")
    export.add_argument("path", metavar="FILE")
    option(export, "output", "OUT.jsonl", "new file")
    add_force(export)
    export.set_defaults(run=run_export)
    return [made, decided, verified, checked, ledger, create, show, export]


def run_report(options: argparse.Namespace) -> int:
    """Write a report."""
    from skparisk.ledger import PrivacyLedger
    from skparisk.report import Report

    path = options.source
    given = [name for name in ("about", "policy", "ledger") if getattr(options, name)]
    source = load_model(path) if path.suffix == ".skops" else read_claim(path)
    if isinstance(source, Report):
        if given:
            raise ValueError(
                f"'{path}' is a report, to which nothing can be added; got "
                f"{', '.join(given)}."
            )
        report = source
    else:
        ledger = options.ledger
        report = Report(
            source,
            policy=read_policy(options.policy),
            ledger=ledger and PrivacyLedger.open(ledger),
            files=[path] if path.suffix == ".skops" else [],
            about=read_about(options.about),
        )
    return _file(report, options)


def _file(report: Any, options: argparse.Namespace) -> int:
    """Write a report, and say whether its claim stands."""
    from skparisk.report._files import write_new

    content = report._content(options.output)
    write_new(options.output, content, force=options.force)
    print(report.verdict)
    return exit_code([report.certificate])


def run_decide(options: argparse.Namespace) -> int:
    """Write a report with a decision."""
    from skparisk.report import Report

    decided = Report.load(options.report).decide(
        checker=options.checker,
        decision=options.decision,
        date=options.date,
        reason=options.reason,
    )
    return _file(decided, options)


def run_check(options: argparse.Namespace) -> int:
    """Check a policy: one line a rule."""
    from skparisk.report import Report

    policy = read_policy(options.policy)
    source = read_claim(options.report)
    is_report = isinstance(source, Report)
    checks = source.check(policy) if is_report else policy.check(source)
    if options.json:
        print_json([vars(check) for check in checks])
    else:
        print(*checks, sep="\n")
    return exit_code(source.claims if is_report else [source], checks)


def run_verify(options: argparse.Namespace) -> int:
    """Verify a report and files: one line for each."""
    from skparisk.report import Report

    report, found = None, []
    try:
        report = Report.load(options.report)
        itself = (
            f"its id matches its content, {report.id}. Compare it with the id that was "
            "filed: whoever edits a report can write one that fits"
        )
    except ValueError as error:
        itself = one_line(error)
    found.append((options.report, report is not None, itself))
    todo: list[tuple[Path, Callable[..., str]]] = []
    if report is not None:
        todo = [(path, _verify_file) for path in options.files]
        if options.ledger is not None:
            todo.append((options.ledger, _verify_ledger))
    for path, verify in todo:
        try:
            found.append((path, True, verify(report, path)))
        except ValueError as error:
            found.append((path, False, one_line(error)))
    if options.json:
        names = ("what", "passed", "found")
        told = [(str(path), *more) for path, *more in found]
        print_json([dict(zip(names, each, strict=True)) for each in told])
    else:
        if report is not None:
            print(report.verdict)
        for path, passed, said in found:
            print(f"{'pass' if passed else 'FAIL'}  {path}: {said}")
    if report is None or not all(passed for _, passed, _ in found):
        return 1
    return exit_code([report.certificate])


def _verify_file(report: Any, path: Path) -> str:
    """Compare a file with the report, and its certificate if it is a model."""
    from skparisk._filed import filed
    from skparisk.report._report import sha256_of

    found = sha256_of(path)
    if found not in [file["sha256"] for file in report.document["files"]]:
        raise ValueError(f"its SHA-256, {found}, is not in the report")
    if path.suffix != ".skops":
        return "the report is about it, by its SHA-256"
    if filed(load_model(path).certificate_) != report.certificate:
        raise ValueError("it holds another certificate than the report")
    return "the report is about it, by its SHA-256, and it holds the same certificate"


def _verify_ledger(report: Any, path: Path) -> str:
    """Compare the report with what the ledger held when it was written."""
    from skparisk.ledger import PrivacyLedger

    kept = report.document["ledger"]
    if kept is None:
        raise ValueError("the report is about no ledger")
    head = kept["rows"]["head"]
    if PrivacyLedger.open(path, head=head)._until(head)._as_dict() != kept:
        raise ValueError(
            "the report shows another budget or other charges than it held then: the "
            "report was edited, or is in the words of another version, skparisk "
            f"{report.document['versions']['skparisk']}"
        )
    return "it held what the report shows of it, and still does"


def run_create(options: argparse.Namespace) -> int:
    """Begin a ledger."""
    from skparisk.ledger import PrivacyLedger

    limits = (options.epsilon, options.delta, options.gamma)
    print(PrivacyLedger(*limits, composition=options.composition, path=options.path))
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print a ledger."""
    from skparisk.ledger import PrivacyLedger

    opened = PrivacyLedger.open(options.path, head=options.head)
    if options.json:
        print_json(opened._as_dict())
    else:
        print(opened)
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Export a ledger."""
    from skparisk.ledger import PrivacyLedger
    from skparisk.report._files import write_new

    text = io.StringIO()
    PrivacyLedger.open(options.path).to_jsonl(text)
    content = text.getvalue().encode("ascii")
    write_new(options.output, content, force=options.force, mode=0o600)
    return 0


def read_claim(path: Path) -> Any:
    """Return the report, or the certificate, that a file of JSON holds."""
    from skparisk._filed import FiledCertificate
    from skparisk.report import Report

    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError:  # no certificate, but maybe a page
        document = None
    if isinstance(document, dict) and document.get("schema") == "skparisk.certificate":
        return FiledCertificate.from_dict(document)
    return Report.load(path)


def load_model(path: Path) -> Any:
    """Return the model of a file, if all that it would run are classes of the library.

    A file may call what it names, with what it likes: functions, and what modules of
    the library import, are refused as all else is.
    """
    skops_io = import_skops()
    try:
        types = skops_io.get_untrusted_types(file=path)
    except (BadZipFile, LookupError, ValueError):
        raise ValueError(f"'{path}' must be a model file of skops.") from None
    others = [
        name for name in types if name not in _TRUSTED and not _is_own_class(name)
    ]
    if others:
        raise ValueError(f"'{path}' holds what is not of skparisk: {others}.")
    model = skops_io.load(path, trusted=types)
    if not hasattr(model, "certificate_"):
        raise ValueError(f"'{path}' holds no fitted model of skparisk.")
    return model


def _is_own_class(name: str) -> bool:
    """Tell if a name is that of a class which the library itself defines there."""
    module, _, title = name.rpartition(".")
    if not module.startswith("skparisk."):
        return False
    try:
        found = getattr(import_module(module), title, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module
