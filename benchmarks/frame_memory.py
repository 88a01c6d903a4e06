"""Memory that a large public frame takes beside itself, for a private pipeline.

Claim: for 100 000 public rows of 10 columns of categories and texts and 10 of numbers,
of which some are missing, the table and its sketch each take at most half the memory of
the 20 columns as doubles. The fit of a pipeline to 500 private records takes at most
1.1 times what scikit-learn takes to fit the plain pipeline to the table, which is done
in it as well, to compare the release with public records alone.

Peaks are those of tracemalloc, so of NumPy and Python, over what was there before. They
do not depend on the machine. They are shown as shares of the encoded table, and of the
doubles of the 20 columns themselves.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skparisk import PrivateEstimator, ReferenceWarning, SensitivitySampler
from skparisk.reference import TableReference

N_RECORDS = 500
N_COLUMNS = 20
N_PAIRS = 9
CATEGORIES = (3, 8, 30)  # in each column of texts
MOST, MOST_OF_PLAIN = 0.5, 1.1


def mixed_frame(n_rows: int, n_categories: int, seed: int) -> tuple[Any, Any]:
    """Return categories, texts and numbers, some of them missing, and targets."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word {i}" for i in range(n_categories)], dtype=object)
    columns: dict[str, Any] = {}
    for i in range(N_COLUMNS // 2):
        codes = rng.integers(n_categories, size=n_rows)
        texts = words[codes]
        texts[rng.random(n_rows) < 0.05] = None
        columns[f"text {i}"] = pd.Categorical(texts) if i % 2 else texts
        numbers = rng.normal(size=n_rows)
        columns[f"number {i}"] = np.where(rng.random(n_rows) < 0.1, np.nan, numbers)
    y = np.nan_to_num(columns["number 0"]) + rng.normal(size=n_rows)
    return pd.DataFrame(columns), y


def pipeline(frame: Any) -> Any:
    texts = [name for name in frame.columns if name.startswith("text")]
    numbers = [name for name in frame.columns if name.startswith("number")]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), texts),
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
    )
    return make_pipeline(encoder, Ridge())


def peak(run: Callable[[], Any]) -> tuple[Any, int]:
    """Return what a call returns, and the most bytes that it took beside the others."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    found = run()
    return found, tracemalloc.get_traced_memory()[1] - before


def measure(n_rows: int, n_categories: int) -> bool:
    """Print the peaks of all parts, and return whether the claim holds."""
    public, y_public = mixed_frame(n_rows, n_categories, 0)
    private, y = mixed_frame(N_RECORDS, n_categories, 1)
    estimator = pipeline(public)
    model = PrivateEstimator(
        estimator,
        gamma=0.2,
        sensitivity=SensitivitySampler(n_pairs=N_PAIRS),
        random_state=0,
    )
    tracemalloc.start()
    try:
        table, of_table = peak(lambda: TableReference(public, y_public))
        _, of_sketch = peak(lambda: table.sketch)
        _, of_fit = peak(lambda: model.fit(private, y, X_reference=table))
        plain, of_plain = peak(lambda: clone(estimator).fit(public, y_public))
    finally:
        tracemalloc.stop()
    n_encoded = plain[-1].n_features_in_
    for name, taken in (
        ("table", of_table),
        ("sketch", of_sketch),
        ("private fit", of_fit),
        ("plain fit to the table", of_plain),
    ):
        ratio = taken / (8 * n_rows * N_COLUMNS)
        print(
            f"{n_categories:>10} {n_encoded:>8} {name:>22} {taken / 1e6:>8.1f} "
            f"{taken / (8 * n_rows * n_encoded):>8.2f} {ratio:>14.2f}",
            flush=True,
        )
    most = MOST * 8 * n_rows * N_COLUMNS
    return max(of_table, of_sketch) <= most and of_fit <= MOST_OF_PLAIN * of_plain


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ReferenceWarning)
    print(
        f"{'categories':>10} {'encoded':>8} {'':>22} {'MB':>8} {'encoded':>8} "
        f"{'of 20 columns':>14}"
    )
    held = [measure(arguments.rows, n_categories) for n_categories in CATEGORIES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
