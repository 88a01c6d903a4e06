"""Pairs of neighbors, and the plain differences of a query on them."""

import numpy as np

from skparisk.neighbors import NeighborPairs, bind_pairs, draw_pairs
from skparisk.queries import FunctionQuery
from skparisk.reference import DrawnRecords

RELATIONS = ("replace-one", "add-remove")
N_PAIRS = 2


def pairs_from(
    reference, n_records, relation, size=N_PAIRS, *, seed=0, n_neighbors=1, **form
):
    """Draw pairs of so many databases with so many neighbors each."""
    source_seed, pairs_seed = np.random.SeedSequence([seed, 5]).spawn(2)
    both = {"n_records": n_records, "n_neighbors": n_neighbors}
    how = {"n_pairs": size * n_neighbors, "relation": relation, "seed": source_seed}
    source = bind_pairs(reference, **how, **both)
    return draw_pairs(source, start=0, size=size, seed=pairs_seed, **both, **form)


def known_pairs(pool, records, changed, replacement):
    """Return pairs, each of another database: records in any order."""
    lines, rng = np.arange(len(records)), np.random.default_rng(0)
    own = records[lines, changed][:, None]
    if replacement is not None:
        own = np.column_stack([own, replacement])
    others = np.arange(records.shape[1]) != np.asarray(changed)[:, None]
    shared = records[others].reshape(len(records), -1)
    drawn = DrawnRecords(pool, own, lambda: shared, rng)
    return NeighborPairs(drawn, records.shape[1], 1)


def both_of(pairs, pair):
    """Yield both databases of a pair, each as (X, y), when they are asked for."""
    yield pairs.first(pair)
    yield pairs.second(pair)


def counts_of(pairs):
    """Return how often each record of the pool is in the first databases."""
    n_rows = pairs.pool.n_records
    return np.array([np.bincount(line, minlength=n_rows) for line in pairs.members])


def plain_differences(query, pairs):
    """Answer the query on both databases of each pair."""
    return np.array(
        [
            np.subtract(*(query(*database) for database in both_of(pairs, i)))
            for i in range(len(pairs))
        ]
    )


class InBlocks(FunctionQuery):
    """A function of databases, asked about the pairs of queries that answer many."""

    is_plain = False


def independent(X, rng):
    return X


def records_of(shape, n_rows, rng, noise=1.0, n_targets=3):
    """Return features and three targets, linear in them."""
    X = shape(rng.normal(size=(n_rows, 3)), rng)
    y = (X / X.std(axis=0).clip(1e-9)) @ rng.normal(size=(3, n_targets))
    return X, y + noise * rng.normal(size=y.shape)
