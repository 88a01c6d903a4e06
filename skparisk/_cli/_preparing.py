"""What ``skparisk fit`` fits: an estimator, and records in columns of public kinds."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from skparisk._cli._parser import read_toml
from skparisk._cli._tables import (
    MISSING,
    Reading,
    as_table,
    as_target,
    check_words,
    holds_numbers,
)

ESTIMATORS = {
    "ridge": ("sklearn.linear_model", "Ridge"),
    "logistic": ("sklearn.linear_model", "LogisticRegression"),
    "linear-svc": ("sklearn.svm", "LinearSVC"),
}
_MOST_CLASSES = 20
# Records of a schema that the scales of columns are taken from.
_N_OF_SCHEMA = 2048


@dataclass(frozen=True, eq=False)
class Prepared:
    """An estimator that is not fitted, and records as keywords X and y."""

    model: Any
    reference: dict[str, Any]
    data: dict[str, Any]
    test: dict[str, Any]
    attacked: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Public:
    """What is known of columns from public records or a schema."""

    X: Any
    y: Any
    kinds: dict[str, bool]  # whether a column holds numbers
    gap: str | None  # what stands for a word that is missing

    @classmethod
    def of_table(cls, path: Path, reading: Reading, classes: bool) -> _Public:
        target = reading.target
        texts = reading.texts(path, public=True).dropna(subset=[target])
        features = texts.drop(columns=target)
        if not len(features.columns):
            raise ValueError(f"'{path}' must have another column than the target.")
        kinds = {name: holds_numbers(features[name]) for name in features}
        check_words(features[[name for name in kinds if not kinds[name]]], path)
        y = as_target(texts[target], classes)
        _check_target(y, texts[target], path, classes)
        return cls(as_table(features, kinds, MISSING), y, kinds, MISSING)

    def clip(self, X: Any) -> None:
        """Move numbers to the range of public ones: no fit may fail by one of them."""
        numbers = [name for name in self.kinds if self.kinds[name]]
        known = self.X[numbers]
        X[numbers] = X[numbers].clip(known.min(), known.max(), axis=1)

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
            wanted = "a range of numbers with --estimator ridge"
            if classes:
                wanted = (
                    "categories that are texts in quotes, as labels of a file are, "
                    "with --estimator logistic or linear-svc"
                )
            raise ValueError(f"the target of the schema must be declared by {wanted}.")
        return cls(X, y, kinds, gap)


def prepare(options: argparse.Namespace) -> Prepared:
    """Return what to fit, to score and to attack: nothing is released yet."""
    import numpy as np

    from skparisk.reference import SchemaReference, SecretSample
    from skparisk.sensitivity import SensitivitySampler
    from skparisk.wrappers import PrivateEstimator

    if (options.reference is None) == (options.schema is None):
        raise ValueError(
            "give one of --reference and --schema, which say what the columns hold: "
            "private records must not decide that. With --secret-sample it says no "
            "more than that; without, pairs of databases are drawn from it. The "
            "command schema makes a schema of a data dictionary."
        )
    classes, secret = options.estimator != "ridge", options.secret_sample
    reading = Reading(options.target, options.drop, options.decimal_comma)
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

    def records_of(path: Path | None, *, fitted: bool = True) -> dict[str, Any]:
        if path is None:
            return {}
        texts = reading.texts(path)
        missing = [name for name in public.kinds if name not in texts]
        if missing:
            raise ValueError(
                f"'{path}' lacks the columns {missing} of the reference or schema: "
                "give them the same names, or leave them out with --drop."
            )
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
        return {"X": X, "y": y}

    sampler = SensitivitySampler(
        reference=reference,
        n_pairs=options.n_pairs or "auto",
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=0 if options.json else 1,
    )
    model = PrivateEstimator(
        _pipeline_of(options.estimator, public),
        epsilon=options.epsilon,
        gamma=options.gamma,
        sensitivity=sampler,
    )
    return Prepared(
        model,
        {"X_reference": public.X, "y_reference": public.y} if beside else {},
        records_of(options.data),
        records_of(options.test, fitted=False),
        records_of(options.attack),
    )


def _check_target(y: Any, texts: Any, path: Path, classes: bool) -> None:
    """Refuse public targets that such an estimator cannot learn."""
    import numpy as np

    if not classes and (not len(y) or not np.isfinite(y).all()):
        raise ValueError(
            f"the target {texts.name!r} of '{path}' must hold numbers with --estimator "
            "ridge, written as 1234.5 or, with --decimal-comma, as 1.234,5; for words, "
            "such as yes and no, give --estimator logistic."
        )
    n_classes = len({*y.tolist()}) if classes else 2
    if not 2 <= n_classes <= max(_MOST_CLASSES, len(y) // _MOST_CLASSES):
        raise ValueError(
            f"the target {texts.name!r} of '{path}' must hold a few classes, such as "
            f"yes and no, and holds {n_classes} different values in {len(y)} records; "
            "for numbers give --estimator ridge."
        )


def _pipeline_of(estimator: str, public: _Public) -> Any:
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
    return make_pipeline(FrozenEstimator(columns.fit(public.X)), last)
