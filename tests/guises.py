"""Records of mixed columns, in every container that a table may come in."""

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from skparisk.reference import TableReference

N_ROWS = 400


def people(n_rows=N_ROWS, seed=0):
    """Return records of mixed columns, as a frame of pandas."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, n_rows)
    age[::7] = np.nan
    days = rng.integers(20_000, size=n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "children": rng.integers(5, size=n_rows),
            "city": rng.choice(["Graz", "Wien", "Łódź"], n_rows),
            "member": rng.random(n_rows) < 0.5,
            "born": np.datetime64("1950-01-01", "us") + days.astype("m8[D]"),
        }
    )


def sparse_table(n_rows, n_columns, seed=0):
    """Return records most of which is zero, in CSR."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return sparse.csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0))


def as_polars(frame):
    """Return the same records in polars."""
    columns = {name: frame[name].to_list() for name in frame.columns}
    return pl.DataFrame(columns).fill_nan(None)


def as_objects(frame):
    """Return the same records in an array of objects."""
    return frame.astype(object).to_numpy()


def as_categories(frame):
    """Return the same records, with categories for texts."""
    return frame.astype({"city": "category"})


def in_other_types(frame):
    """Return the same records in types that pandas has besides those of numpy."""
    return frame.astype(
        {
            "age": "Float64",
            "children": "Int64",
            "city": "string",
            "member": "boolean",
            "born": "datetime64[s]",
        }
    ).assign(born=lambda f: f["born"].dt.tz_localize("UTC"))


GUISES = {
    "itself": lambda frame: frame,
    "polars": as_polars,
    "objects": as_objects,
    "categories": as_categories,
    "other types": in_other_types,
    "polars categories": lambda f: as_polars(f).with_columns(
        pl.col("city").cast(pl.Categorical), pl.col("born").dt.cast_time_unit("ms")
    ),
}


def as_records(X):
    """Return records as a reference keeps them."""
    return TableReference(X).pool.X


def schema_of(X):
    """Return the columns of a table, and their kinds."""
    return TableReference(X).schema


def sketch_of(X, y=None):
    """Return what a table is known by."""
    return TableReference(X, y).sketch
