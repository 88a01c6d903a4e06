"""``skparisk fit``: from a CSV to a model file and a report."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from skparisk._checks import check_n_jobs
from skparisk._cli._parser import (
    ENDINGS,
    Commands,
    add_about,
    add_force,
    checked,
    exit_code,
    flag,
    import_skops,
    option,
    print_json,
    read_about,
    read_policy,
    read_toml,
    share,
    whole,
)
from skparisk._cli._tables import (
    MISSING,
    Reading,
    as_table,
    as_target,
    check_ids,
    check_words,
    holds_numbers,
)
from skparisk.core.checks import check_at_least, check_epsilon

ESTIMATORS = {
    "ridge": ("sklearn.linear_model", "Ridge"),
    "logistic": ("sklearn.linear_model", "LogisticRegression"),
    "linear-svc": ("sklearn.svm", "LinearSVC"),
}
_MOST_CLASSES = 20
_MOST_PAIRS = 10_000_000
# Bytes that a model or a report takes at most, besides what it has of a reference.
_ROOM = 8 * 2**20
# Records of a schema that the scales of columns are taken from.
_N_OF_SCHEMA = 2048


@dataclass(frozen=True, eq=False)
class Prepared:
    """An estimator that is not fitted, and records as keywords X and y."""

    model: Any
    reference: dict[str, Any]
    data: dict[str, Any]
    test: dict[str, Any]
    details: dict[str, dict[str, str]]


@dataclass(frozen=True, eq=False)
class _Public:
    """What is known of columns from public records or a schema."""

    X: Any
    y: Any
    kinds: dict[str, bool]  # whether a column holds numbers
    gap: str | None  # what stands for a word that is missing
    # Whose each row is, and its weight, as `fit` has them.
    beside: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_table(cls, path: Path, reading: Reading, classes: bool) -> _Public:
        import numpy as np

        target = reading.target
        texts = reading.texts(path).dropna(subset=[target])
        texts, beside = reading.split_off(texts, public=True)
        features = texts.drop(columns=target)
        if not len(features.columns):
            raise ValueError(f"'{path}' must have another column than the target.")
        kinds = {name: holds_numbers(features[name]) for name in features}
        check_ids(features[[name for name in kinds if kinds[name]]], path)
        check_words(features[[name for name in kinds if not kinds[name]]], path)
        y = as_target(texts[target], classes)
        if not classes and (not len(y) or not np.isfinite(y).all()):
            raise ValueError(
                f"the target {target!r} of '{path}' must hold numbers with --estimator "
                "ridge, written as 1234.5 or, with --decimal-comma, as 1.234,5; for "
                "words, such as yes and no, give --estimator logistic."
            )
        n_classes = len({*y.tolist()}) if classes else 2
        if not 2 <= n_classes <= max(_MOST_CLASSES, len(y) // _MOST_CLASSES):
            raise ValueError(
                f"the target {target!r} of '{path}' must hold a few classes, such as "
                f"yes and no, and holds {n_classes} different values in {len(y)} "
                "records; for numbers give --estimator ridge."
            )
        return cls(as_table(features, kinds, MISSING), y, kinds, MISSING, beside)

    def ranges(self) -> Any:
        """Return the least and the largest number of each column of numbers."""
        return self.X[[name for name in self.kinds if self.kinds[name]]].agg(
            ["min", "max"]
        )

    def clip(self, X: Any) -> None:
        """Move numbers to the range of public ones: no fit may fail by one of them."""
        ranges = self.ranges()
        X[ranges.columns] = X[ranges.columns].clip(*ranges.to_numpy(), axis=1)

    def details(self, options: argparse.Namespace) -> dict[str, dict[str, str]]:
        """Return what is public of a release: for its report."""
        import numpy as np

        from skparisk.report._report import sha256_of

        classes = options.estimator != "ridge"
        path = options.schema if options.reference is None else options.reference
        ranges = "; ".join(
            f"{name} {low:g} to {high:g}" for name, (low, high) in self.ranges().items()
        )
        released = {
            "target": options.target,
            "columns left out": ", ".join(options.drop) or "none",
            "numbers clipped to": ranges or "there are none",
            "prepared": "this command filled gaps, scaled numbers and encoded words, "
            "using the public records or the schema only",
        }
        constant = 0.0  # of an R2, for the mean
        if classes:
            _, counts = np.unique(self.y, return_counts=True)
            constant = counts.max() / counts.sum()
        else:
            low, high = self.y.min(), self.y.max()
            released["target clipped to"] = f"{low:g} to {high:g}"
        quality = {
            "what scores are": "accuracy" if classes else "R2, 1 at best",
            "score of a constant prediction": f"{constant:.2g}",
        }
        reference = {"file": path.name, "SHA-256": sha256_of(path)}
        if options.reference is not None:
            reference["rows"] = str(len(self.y))
        return {"released": released, "reference": reference, "quality": quality}

    @classmethod
    def of_schema(
        cls, schema: Any, reading: Reading, classes: bool, gap: str | None
    ) -> _Public:
        import numpy as np

        drawn = schema.sample(_N_OF_SCHEMA, np.random.default_rng(0))
        if not isinstance(drawn, tuple):
            raise ValueError('the schema must declare a target: target = "a column".')
        X, y = drawn
        kinds = {str(name): X[name].dtype.kind in "iufb" for name in X}
        # One that is declared by itself has no name.
        targets = [name for name in schema.declared if name not in kinds]
        if reading.target in kinds or targets not in ([], [reading.target]):
            raise ValueError(
                f"the schema must declare the target that is asked for, target = "
                f"{json.dumps(reading.target)}, and has another one."
            )
        unused = [name for name in reading.drop if name in kinds]
        if unused:
            raise ValueError(
                f"--drop must not be a column of the schema, got {unused[0]!r}: leave "
                "it out of the schema."
            )
        if classes == (y.dtype.kind in "biuf"):
            raise ValueError(
                "the target of the schema must be declared by a range of numbers with "
                "--estimator ridge, and by categories that are texts in quotes, as "
                "labels of a file are, with logistic or linear-svc."
            )
        return cls(X, y, kinds, gap)


def prepare(options: argparse.Namespace) -> Prepared:
    """Return what to fit and to score: nothing is released yet."""
    import numpy as np
    import pandas

    from skparisk.reference import SchemaReference, SecretSample
    from skparisk.sensitivity import SensitivitySampler
    from skparisk.wrappers import PrivateEstimator

    if (options.reference is None) == (options.schema is None):
        raise ValueError(
            "give one of --reference and --schema, which say what the columns hold: "
            "private records must not decide that. With --secret-sample it says no "
            "more than that; without, pairs of databases are drawn from it."
        )
    classes, secret = options.estimator != "ridge", options.secret_sample
    reading = Reading(
        options.target,
        options.drop,
        options.decimal_comma,
        options.person,
        options.weight,
    )
    reference: Any = None
    if options.schema is not None:
        reference = read_toml(SchemaReference.from_toml, options.schema)
        public = _Public.of_schema(
            reference, reading, classes, None if secret is None else MISSING
        )
    else:
        public = _Public.of_table(options.reference, reading, classes)
    beside = options.schema is None or secret is not None
    if secret is not None:
        reference = SecretSample(secret)

    def records_in(texts: Any, fitted: bool) -> dict[str, Any]:
        texts, own = reading.split_off(texts)
        y = as_target(texts[options.target], classes)
        X = as_table(texts, public.kinds, public.gap)
        if beside:  # a schema has ranges of its own
            public.clip(X)
        # A fit refuses what is missing, or no class, which would tell of it. A score
        # has no use for the latter, and a schema says what they are taken for.
        if not classes:
            y = np.where(np.isnan(y), np.median(public.y), y)
            if beside and fitted:
                y = np.clip(y, public.y.min(), public.y.max())
        elif beside and fitted:
            labels, counts = np.unique(public.y, return_counts=True)
            y = np.where(np.isin(y, labels), y, labels[counts.argmax()])
        return {"X": X, "y": y, **own}

    def records_of(path: Path | None, *, fitted: bool = True) -> dict[str, Any]:
        if path is None:
            return {}
        blocks = reading.blocks(path, public.kinds | {options.target: not classes})
        parts = [records_in(texts, fitted) for texts in blocks]
        X = pandas.concat([part.pop("X") for part in parts], ignore_index=True)
        others = {name: [part[name] for part in parts] for name in parts[0]}
        return {"X": X} | {name: np.concatenate(others[name]) for name in others}

    sampler = SensitivitySampler(
        reference=reference,
        n_pairs=options.n_pairs or "auto",
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=int(sys.stderr.isatty() and not (options.json or options.quiet)),
    )
    model = PrivateEstimator(
        _pipeline_of(options.estimator, public, frozen=secret is not None),
        epsilon=options.epsilon,
        gamma=options.gamma,
        sensitivity=sampler,
    )
    given = {"X_reference": public.X, "y_reference": public.y}
    given |= {f"{name}_reference": column for name, column in public.beside.items()}
    return Prepared(
        model,
        given if beside else {},
        records_of(options.data),
        records_of(options.test, fitted=False),
        public.details(options),
    )


def _pipeline_of(estimator: str, public: _Public, *, frozen: bool) -> Any:
    """Return a pipeline whose columns are prepared as on public records."""
    from sklearn.compose import make_column_transformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    module, name = ESTIMATORS[estimator]
    last = getattr(import_module(module), name)()
    numbers = [name for name in public.kinds if public.kinds[name]]
    words = [name for name in public.kinds if not public.kinds[name]]
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    coded = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((coded, words), (scaled, numbers))
    # A fit does the same with its reference, unless that is secret.
    return make_pipeline(
        FrozenEstimator(columns.fit(public.X)) if frozen else columns, last
    )


# Options that others exclude.
_EXCLUDED = {"person": ("schema",), "weight": ("schema", "secret_sample", "test")}

# What each of them can be scored by.
SCORES = {
    "ridge": ("mean_absolute_error", "mean_squared_error"),
    "logistic": ("accuracy", "confusion_matrix", "brier_score"),
    "linear-svc": ("accuracy", "confusion_matrix"),
}


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "fit",
        help="fit a private model to a CSV, save it, and report it",
        description="Fit a private linear model to a CSV with columns of numbers and "
        "words; cells may be empty. Public records or a schema say which columns hold "
        "numbers. In the private records anything else in such a column counts as "
        "missing, without a warning.",
    )
    level = checked(float, check_epsilon)
    more: dict[str, Any] = {"action": "append", "default": []}
    option(parser, "data", "DATA.csv", "private records")
    text = "name of the target column"
    option(parser, "--target", "NAME", text, type=str, required=True)
    parser.add_argument("--estimator", required=True, choices=ESTIMATORS)
    text = "privacy level, above 0"
    option(parser, "--epsilon", "E", text, type=level, required=True)
    text = "risk that the privacy loss exceeds epsilon, in (0, 1) (default: 0.05)"
    option(parser, "--gamma", "G", text, type=share("gamma"), default=0.05)
    text = "public records of other people from the same population, same columns"
    option(parser, "--reference", "PUBLIC.csv", text)
    text = "column to leave out, such as names or customer numbers; may be repeated"
    option(parser, "--drop", "NAME", text, type=str, **more)
    text = "column of person ids: protect each person with all of their rows"
    option(parser, "--person", "NAME", text, type=str)
    text = "column of row weights, as in a survey, capped at the largest public one"
    option(parser, "--weight", "NAME", text, type=str)
    text = "numbers are written as 1.234,5 (the column separator is always detected)"
    flag(parser, "--decimal-comma", text)
    option(parser, "--schema", "SCHEMA.toml", "declared ranges of the columns")
    text = (
        "use this share of the records, in (0, 1), and keep secret which; the "
        "reference or schema then only describes the columns"
    )
    option(parser, "--secret-sample", "SHARE", text, type=share("fraction"))
    text = "pairs of databases to sample (default: as many as the target needs)"
    option(parser, "--n-pairs", "M", text, type=checked(int, check_pairs))
    text = "processes that sample pairs (default: 1; -1: one per processor)"
    option(parser, "--n-jobs", "N", text, type=checked(int, check_n_jobs))
    text = "seeds the sampling of pairs, never the noise"
    option(parser, "--seed", "S", text, type=whole("seed", 0))
    option(parser, "--ledger", "FILE", "privacy budget to charge")
    option(parser, "--policy", "POLICY.toml", "rules for the guarantee (see check)")
    option(parser, "--output", "MODEL.skops", "new model file", required=True)
    text = f"new report, {ENDINGS}; may be repeated"
    option(parser, "--report", "FILE", text, **more)
    flag(parser, "--json", "print a summary as JSON")
    flag(parser, "--quiet", "hide the progress bar")
    add_force(parser)
    scored = parser.add_argument_group("a private score for the report")
    option(scored, "--test", "TEST.csv", "private records to score the model on")
    scored.add_argument(
        "--score",
        choices=sorted({name for names in SCORES.values() for name in names}),
        help="score to release with noise; the ledger is charged for it",
    )
    text = "privacy level of the score, above 0"
    option(scored, "--score-epsilon", "E", text, type=level)
    scored.add_argument(
        "--target-bounds",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="public bounds of the target, for scores of errors",
    )
    add_about(parser)
    parser.set_defaults(run=run)
    return [parser]


def run(options: argparse.Namespace) -> int:
    """Fit, save and report; whatever can be refused is refused before the release."""
    skops_io = import_skops()
    from skparisk._hints import advise
    from skparisk._words import rests_on
    from skparisk.ledger import PrivacyLedger, check_room
    from skparisk.metrics import private_score
    from skparisk.report import Report
    from skparisk.report._files import NewFiles

    if options.output.suffix != ".skops":
        raise ValueError(f"--output must end in .skops, got '{options.output}'.")
    check_columns(options)
    check_score(options)
    policy = read_policy(options.policy)
    opened = None if options.ledger is None else PrivacyLedger.open(options.ledger)
    about = {"ledger": opened, "policy": policy, "about": read_about(options.about)}
    rehearse(options, about)
    written = [options.output, *options.report]
    reference = options.reference
    room = _ROOM + (0 if reference is None else reference.stat().st_size)
    with (
        NewFiles(written, force=options.force, room=room) as files,
        contextlib.nullcontext() if opened is None else opened,
    ):
        if opened is not None:
            check_room(*levels_of(options))
        prepared = prepare(options)
        check_secret(opened, options)
        fit_without_leaks(prepared.model, prepared.reference | prepared.data)
        files.write(options.output, skops_io.dumps(prepared.model))
        scores = {}
        if prepared.test:
            scores[f"{options.score} of {options.test.name}"] = private_score(
                prepared.model,
                **prepared.test,
                scoring=options.score,
                epsilon=options.score_epsilon,
                y_bounds=options.target_bounds,
            )
        report = Report(
            prepared.model,
            scores=scores,
            files=[options.output],
            details=prepared.details,
            **about,
        )
        for path in options.report:
            files.write(path, report._content(path))
    checks = () if policy is None else report.check(policy)
    # Of a secret sample it would tell of the noise, whose scale depends on all records.
    hint, quality = "", {}
    if options.secret_sample is None:
        hint = advise(prepared.model, command_line=True)
        quality = report.document["details"]["quality"]
    if options.json:
        names = ("id", "files", "certificate", "scores", "checks")
        found = {name: report.document[name] for name in names}
        print_json(
            {"verdict": report.verdict} | found | {"hint": hint, "quality": quality}
        )
    else:
        claim = report.certificate
        print(report.verdict, *rests_on(claim), sep="\n")
        print(f"The claim: {claim.guarantee}")
        print(hint, end="\n" * bool(hint))
        print(*(f"{name}: {text}\n" for name, text in quality.items()), sep="", end="")
        print(*(f"{name}: {score}\n" for name, score in scores.items()), sep="", end="")
        print("Written:", *map(str, written))
        print(*(f"{check}\n" for check in checks), sep="", end="")
    claims = [report.certificate, *(score.certificate for score in scores.values())]
    return exit_code(claims, checks)


def check_pairs(value: Any) -> int:
    """Refuse numbers of pairs that no machine would ever sample."""
    n_pairs = check_at_least(value, "n_pairs", 1)
    if n_pairs > _MOST_PAIRS:
        raise ValueError(f"n_pairs must be at most {_MOST_PAIRS}, got {n_pairs}.")
    return n_pairs


def levels_of(options: argparse.Namespace) -> list[Any]:
    """Return what is asked for, as plain numbers: of the model, and of its score."""
    score = [] if options.score is None else [options.score_epsilon]
    return [(options.epsilon, 0.0, options.gamma), *score]


def fit_without_leaks(model: Any, data: dict[str, Any]) -> None:
    """Fit, but refuse what elsewhere is a warning: here it would be filed unread."""
    from skparisk.core.checks import PrivacyLeakWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        try:
            model.fit(**data)
        except PrivacyLeakWarning as leak:
            raise ValueError(f"this would not be private: {leak}") from leak


def rehearse(options: argparse.Namespace, about: dict[str, Any]) -> None:
    """Write reports of such a claim to nowhere: what fails must fail before the fit."""
    from skparisk._words import reasons_against
    from skparisk.core.claim import Assumption, as_certificate
    from skparisk.report import Report

    secret = options.secret_sample is not None
    claim, *score = map(as_certificate, levels_of(options))
    claim = claim.weaken(
        relation="replace-one", assumptions=[Assumption.SECRET_DRAW] if secret else []
    )
    for name, each in zip(("epsilon", "score-epsilon"), (claim, *score), strict=False):
        if not each.private:
            raise ValueError(
                f"--{name} must be smaller, got {each.epsilon:g}. "
                f"{' '.join(reasons_against(each))}"
            )
    report = Report(claim, **about)
    for path in options.report:
        report._content(path)
    if about["policy"] is None:
        return
    # A reference can be audited afterwards; for a secret sample there is no such audit.
    open_yet = () if secret else ("reference_audited",)
    for check in about["policy"].check(claim, *score):
        if not check.passed and check.rule not in open_yet:
            raise ValueError(f"the policy '{options.policy}' would be broken: {check}.")


def check_columns(options: argparse.Namespace) -> None:
    """Refuse options that do not know people with several rows, or weights."""
    for column, names in _EXCLUDED.items():
        given = [name for name in names if getattr(options, name) is not None]
        if getattr(options, column) is not None and given:
            raise ValueError(
                f"--{given[0].replace('_', '-')} must not be given with --{column}: it "
                "is about single rows that count alike."
            )


def check_score(options: argparse.Namespace) -> None:
    """Refuse options of a score that do not go together."""
    from skparisk.metrics import check_bounds, check_noise

    given = [options.test, options.score, options.score_epsilon]
    if None in given:
        if given != [None] * len(given) or options.target_bounds is not None:
            raise ValueError(
                "give --test, --score and --score-epsilon together, and bounds of the "
                "target only with them."
            )
        return
    possible = SCORES[options.estimator]
    if options.score not in possible:
        raise ValueError(
            f"--score must be one of {', '.join(possible)} with "
            f"--estimator {options.estimator}, got {options.score}."
        )
    try:
        check_bounds(options.target_bounds, options.score)
    except ValueError as error:  # in words of Python
        raise ValueError(f"--target-bounds: {error}") from None
    check_noise(options.score, options.score_epsilon)


def check_secret(ledger: Any, options: argparse.Namespace) -> None:
    """Refuse a second draw, which the library knows of in one process alone."""
    if ledger is None or options.secret_sample is None:
        return
    if any(entry.certificate.protects_membership for entry in ledger.releases):
        raise ValueError(
            "the ledger holds a release of a secret sample, and --secret-sample would "
            "draw another one of the same people, which the level of both together "
            "does not cover: draw once, in Python, for all releases."
        )
