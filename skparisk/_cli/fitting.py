"""``skparisk fit``: from a CSV to a model file and a report."""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skparisk._cli._parser import (
    Commands,
    add_declared,
    checked,
    import_skops,
    print_json,
)
from skparisk._validate import (
    check_at_least,
    check_epsilon,
    check_n_jobs,
    check_probability,
)

__all__ = ["add_to"]

ESTIMATORS = {
    "ridge": ("sklearn.linear_model", "Ridge"),
    "logistic": ("sklearn.linear_model", "LogisticRegression"),
    "linear-svc": ("sklearn.svm", "LinearSVC"),
}
# What each of them can be scored by.
SCORES = {
    "ridge": ("mean_absolute_error", "mean_squared_error"),
    "logistic": ("accuracy", "confusion_matrix", "brier_score"),
    "linear-svc": ("accuracy", "confusion_matrix"),
}
_MISSING = "missing"
# Records of a schema that the scales of columns are taken from.
_N_OF_SCHEMA = 2048


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "fit",
        help="fit a private model to a CSV, save it, and report it",
        description="Fit a private linear model to a CSV with columns of numbers and "
        "words, and gaps. What the columns hold is read off public records or a "
        "schema, never off the private ones: there, what should be a number and is "
        "not counts as missing, without a word.",
    )
    parser.add_argument("data", type=Path, metavar="DATA.csv", help="private records")
    parser.add_argument("--target", required=True, help="name of the target column")
    parser.add_argument("--estimator", required=True, choices=ESTIMATORS)
    parser.add_argument(
        "--epsilon",
        required=True,
        type=checked(float, check_epsilon),
        metavar="E",
        help="privacy level, in (0, inf]",
    )
    parser.add_argument(
        "--gamma",
        default=0.05,
        type=checked(float, lambda value: check_probability(value, "gamma")),
        metavar="G",
        help="risk that the privacy loss exceeds it, in (0, 1) (default: 0.05)",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="PUBLIC.csv",
        help="public records with the same columns, of other people of the population",
    )
    parser.add_argument(
        "--schema", type=Path, metavar="SCHEMA.toml", help="declared ranges: see schema"
    )
    parser.add_argument(
        "--secret-sample",
        type=float,
        metavar="SHARE",
        help="use a secret share of the records, in (0, 1), and protect which; with "
        "columns of words or gaps it takes a reference as well, for their structure",
    )
    parser.add_argument(
        "--n-pairs",
        type=checked(int, lambda value: check_at_least(value, "n_pairs", 1)),
        metavar="M",
        help="pairs of databases to sample (default: as many as the target needs)",
    )
    parser.add_argument("--n-jobs", type=checked(int, check_n_jobs), metavar="N")
    parser.add_argument(
        "--seed",
        type=checked(int, lambda value: check_at_least(value, "seed", 0)),
        metavar="S",
        help="seeds the sampling of pairs, never the noise",
    )
    parser.add_argument(
        "--ledger", type=Path, metavar="FILE", help="budget that it is charged to"
    )
    parser.add_argument("--policy", type=Path, metavar="POLICY.toml")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="MODEL.skops", help="a new file"
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="ends in .html, .json, .md, .acro.json or .yaml; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print a summary as JSON")
    scored = parser.add_argument_group("a score that may be filed")
    scored.add_argument(
        "--test", type=Path, metavar="TEST.csv", help="private records to score it on"
    )
    scored.add_argument(
        "--score",
        choices=sorted({name for names in SCORES.values() for name in names}),
        help="released with noise, and charged as well",
    )
    scored.add_argument(
        "--score-epsilon",
        type=checked(float, check_epsilon),
        metavar="E",
        help="privacy level of the score, in (0, inf]",
    )
    scored.add_argument(
        "--target-bounds",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="public bounds of the target, for errors",
    )
    add_declared(parser)
    parser.set_defaults(run=run)
    return [parser]


def run(options: argparse.Namespace) -> int:
    """Fit, save and report; whatever can be refused is refused before the release."""
    skops_io = import_skops()
    from skparisk._cli.filing import check_ending, declared_in
    from skparisk.ledger import PrivacyLedger
    from skparisk.metrics import private_score
    from skparisk.report import Policy, Report

    for path in options.report:
        check_ending(path)
    for path in (options.output, *options.report):
        if path.exists() or not path.parent.is_dir():
            raise ValueError(f"'{path}' must be a new file in a folder that exists.")
    check_score(options)
    policy = None if options.policy is None else Policy.from_toml(options.policy)
    opened = None if options.ledger is None else PrivacyLedger.open(options.ledger)
    model, data, test = prepare(options)
    check_room(opened, options)
    scores = {}
    with contextlib.nullcontext() if opened is None else opened:
        fit_without_leaks(model, data)
        skops_io.dump(model, options.output)
        if test:
            scores[f"{options.score} of {options.test.name}"] = private_score(
                model,
                **test,
                scoring=options.score,
                epsilon=options.score_epsilon,
                y_bounds=options.target_bounds,
            )
    report = Report(
        model,
        ledger=opened,
        policy=policy,
        scores=scores,
        files=[options.output],
        **declared_in(options),
    )
    for path in options.report:
        report.save(path)
    if options.json:
        names = ("id", "files", "certificate", "scores", "checks")
        print_json({name: report.document[name] for name in names})
    else:
        print(f"{report.verdict}\n{report.certificate.guarantee}")
        print(*(f"{name}: {score}\n" for name, score in scores.items()), sep="", end="")
        print("Written:", *(str(path) for path in (options.output, *options.report)))
    return 0


def fit_without_leaks(model: Any, data: dict[str, Any]) -> None:
    """Fit, but refuse what elsewhere is a warning: here it would be filed unread."""
    from skparisk.exceptions import PrivacyLeakWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        try:
            model.fit(**data)
        except PrivacyLeakWarning as leak:
            raise ValueError(f"this would not be private: {leak}") from leak


def check_score(options: argparse.Namespace) -> None:
    """Refuse options of a score that do not go together."""
    from skparisk.metrics import check_bounds

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
    needed = options.estimator == "ridge"
    check_bounds(options.target_bounds, options.score, needed)


def check_room(ledger: Any, options: argparse.Namespace) -> None:
    """Refuse a fit after which there would be no room for its score."""
    if ledger is None or options.score is None:
        return
    left, asked = ledger.remaining(), options.epsilon + options.score_epsilon
    if asked > left:
        raise ValueError(
            f"the budget has room for epsilon {left:g}, and the fit and its score need "
            f"{asked:g} together."
        )


def prepare(
    options: argparse.Namespace,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return an estimator that is not fitted, what to fit, and what to score it on."""
    from skparisk.reference import SchemaReference, SecretSample
    from skparisk.sensitivity import SensitivitySampler
    from skparisk.wrappers import PrivateEstimator

    given = [options.reference, options.schema, options.secret_sample]
    n_given = sum(value is not None for value in given)
    if n_given != 1 and (options.schema is not None or n_given == 0):
        raise ValueError(
            "give one of --reference, --schema and --secret-sample, or a secret sample "
            "and a reference: it is where pairs of databases come from."
        )
    private = read_texts(options.data, options.target)
    classes = options.estimator != "ridge"
    public: Any = None
    reference: Any = None
    data: dict[str, Any] = {}
    gap: str | None = _MISSING
    if options.schema is not None:
        import numpy as np

        reference = SchemaReference.from_toml(options.schema)
        drawn = reference.sample(_N_OF_SCHEMA, np.random.default_rng(0))
        public, gap = drawn[0], None
        kinds = {str(name): public[name].dtype.kind in "iufb" for name in public}
    else:
        given_for_kinds = private
        if options.reference is not None:
            given_for_kinds = read_texts(options.reference, options.target)
            given_for_kinds = given_for_kinds.dropna(subset=[options.target])
        features = given_for_kinds.drop(columns=options.target)
        kinds = {name: holds_numbers(features[name]) for name in features}
        if options.reference is not None:
            public = as_table(features, kinds, gap)
            data = {
                "X_reference": public,
                "y_reference": as_target(given_for_kinds[options.target], classes),
            }
        elif not all(kinds.values()):
            words = [name for name in kinds if not kinds[name]]
            raise ValueError(
                f"the columns {words} are not numbers: give --reference as well, with "
                "public records that have the same columns."
            )
    if options.secret_sample is not None:
        reference = SecretSample(options.secret_sample)

    def as_records(texts: Any, path: Path) -> dict[str, Any]:
        missing = [name for name in kinds if name not in texts]
        if missing:
            raise ValueError(f"'{path}' lacks the columns {missing}.")
        return {
            "X": as_table(texts, kinds, gap),
            "y": as_target(texts[options.target], classes),
        }

    data |= as_records(private, options.data)
    test: dict[str, Any] = {}
    if options.test is not None:
        test = as_records(read_texts(options.test, options.target), options.test)
    sampler = SensitivitySampler(
        reference=reference,
        n_pairs=options.n_pairs or "auto",
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=0 if options.json else 1,
    )
    model = PrivateEstimator(
        make_pipeline_of(options.estimator, kinds, public),
        epsilon=options.epsilon,
        gamma=options.gamma,
        sensitivity=sampler,
    )
    return model, data, test


def make_pipeline_of(estimator: str, kinds: dict[str, bool], public: Any) -> Any:
    """Return a pipeline whose columns are prepared as on public records.

    Where there are none, columns are numbers without gaps, and scales are private.
    """
    from importlib import import_module

    from sklearn.compose import make_column_transformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    module, name = ESTIMATORS[estimator]
    last = getattr(import_module(module), name)()
    if public is None:
        return make_pipeline(StandardScaler(), last)
    numbers = [name for name in kinds if kinds[name]]
    words = [name for name in kinds if not kinds[name]]
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    coded = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((coded, words), (scaled, numbers))
    return make_pipeline(FrozenEstimator(columns.fit(public)), last)


def read_texts(path: Path, target: str) -> Any:
    """Return a CSV as texts: nothing in it decides what a column holds."""
    import pandas

    try:
        # A first line that is too long must not make a column of names of the rows.
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            texts = pandas.read_csv(path, dtype=str, index_col=False)
    except (
        pandas.errors.ParserError,
        pandas.errors.ParserWarning,
        pandas.errors.EmptyDataError,
        UnicodeError,
    ):
        # What is wrong may be a value.
        texts = None
    if texts is None:
        raise ValueError(f"'{path}' must be a CSV with a head, in UTF-8.")
    if target not in texts or len(texts.columns) < 2 or not len(texts):
        raise ValueError(
            f"'{path}' must begin with a line of the names of its columns, the target "
            f"{target!r} and others, and have records. What it begins with is not "
            "shown, as it may be a record."
        )
    return texts


def holds_numbers(texts: Any) -> bool:
    """Tell if all that is there are numbers."""
    there = texts.dropna()
    return len(there) > 0 and bool(as_numbers(there).notna().all())


def as_numbers(texts: Any) -> Any:
    """Return numbers, missing where there is none."""
    import numpy as np
    import pandas

    numbers = pandas.to_numeric(texts, errors="coerce").astype(np.float64)
    return numbers.where(np.isfinite(numbers))


def as_table(texts: Any, kinds: dict[str, bool], gap: str | None) -> Any:
    """Return columns of the kinds that are public, in that order."""
    import pandas

    made = {
        name: as_numbers(texts[name])
        if kinds[name]
        else texts[name].astype(object).where(texts[name].notna(), gap)
        for name in kinds
    }
    return pandas.DataFrame(made)


def as_target(texts: Any, classes: bool) -> Any:
    """Return labels, or numbers."""
    if classes:
        return texts.astype(object).where(texts.notna(), _MISSING).to_numpy()
    return as_numbers(texts).to_numpy()
