"""Asking a query about a database of the reference, before any pair is drawn."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skparisk._silence import silenced
from skparisk.calibration._terms import MOST_SHAPE_PAIRS
from skparisk.neighbors import Database, sample_database
from skparisk.queries import Query
from skparisk.queries._base import same_but_for
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import Form
from skparisk.reference._records import Schema, copy_records

# Databases that a query is asked about twice, until it has an answer.
MOST_ASKED = 3
# Of the largest number: more than what rounding in another order changes.
_SAME = 2.0**-20


class Asked(NamedTuple):
    """What a query was asked about a database of a reference, and its answer.

    The columns of the records, as they were given to it; its answer, if it had one; and
    what errors in this weigh, if that is known.
    """

    schema: Schema
    answer: NDArray[np.float64] | None
    weights: NDArray[np.float64] | None


def check_repeatable(
    query: Query,
    reference: Reference,
    *,
    n_records: int,
    form: Form,
    entropy: bytes,
    private: bool,
) -> Asked:
    """Refuse a query that answers the same database differently when asked twice.

    Unless it is known to answer alike. It is asked about a sampled database; about
    another if it has no answer to one. If it has none to several, the last reason is
    shown, unless the reference is private.
    """
    root = np.random.SeedSequence(int.from_bytes(entropy, "little"))
    failure: Exception | None = None
    answer = weights = None
    for seed in root.spawn(MOST_ASKED):
        database = sample_database(reference, n_records, seed, form)
        if query.needs_y and database[1] is None:
            break  # said where pairs are drawn
        try:
            with silenced() if private else nullcontext():
                answer = _ask(query, database)
                again = answer if query.is_repeatable else _ask(query, database)
        except Exception as error:
            failure = error
            continue
        if same_but_for(_SAME, again, answer):
            if not private:
                weights = _find_weights(query, reference, database[0], answer.size)
            break
        raise ValueError(
            f"The query {query} gives different answers on the same database when it "
            "is asked twice: it must be a function of the database. Seed the random "
            "numbers that it uses."
        )
    else:
        if not private:  # else it is said without a reason where pairs are drawn
            assert failure is not None
            raise failure
    return Asked(Schema.of(database[0]), answer, weights)


def _find_weights(
    query: Query, reference: Reference, X: Any, n_outputs: int
) -> NDArray[np.float64] | None:
    """Return what errors of the outputs weigh, by a query that knows it."""
    once = isinstance(reference, TableReference) and reference.whole is None
    if once or n_outputs > MOST_SHAPE_PAIRS:  # records serve for one thing each
        return None
    given = query.output_weights(copy_records(X), n_outputs)
    if given is None:
        return None
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (n_outputs, n_outputs) or not np.isfinite(weights).all():
        raise ValueError(
            f"output_weights of the query {query} must return None or finite numbers "
            f"of shape {(n_outputs, n_outputs)}, got shape {weights.shape}."
        )
    return (weights + weights.T) / 2


def _ask(query: Query, database: Database) -> NDArray[np.float64]:
    """Return the answer on a copy: the query may work in place."""
    return np.asarray(query(*map(copy_records, database)))
