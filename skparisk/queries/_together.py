"""What queries share that solve the pairs of a block together."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import PairDifferences, Query

Floats: TypeAlias = NDArray[np.float64]

# How close to the exact answer a solver of many pairs proves to be, of the largest
# output.
CLOSE = 2.0**-34

# Memory that what is prepared of a pool's records may take.
_MOST_BYTES = 2**27


def outward_differences(
    query: Query,
    pairs: NeighborPairs,
    first: Floats,
    second: Floats,
    outward: Floats,
    trusted: NDArray[np.bool_],
) -> PairDifferences:
    """Return differences of answers, moved away from zero by what they may be off.

    Pairs that are not trusted are answered one by one instead: their differences are
    those of what would be released, and off by nothing.
    """
    differences = first - second
    differences += np.copysign(outward, differences)
    # Twice: what the difference was off before, and the move itself.
    errors = np.broadcast_to(2 * outward, differences.shape)
    again = np.flatnonzero(~trusted)
    if again.size:
        errors = errors.copy()
    for pair in again:
        one, other = (query(*database) for database in pairs.databases(int(pair)))
        differences[pair], errors[pair] = one - other, 0.0
    return PairDifferences(differences, errors)


def counts_pay(n_rows: int, n_records: int) -> bool:
    """Tell if sums over databases are best found from how often each row counts.

    Counts of all rows are mostly zeros where the pool is much larger than a database:
    one big matrix product then costs more than many small ones.
    """
    return n_rows <= 4 * n_records


def fits(n_bytes: int) -> bool:
    """Tell if what is prepared once for all databases may take so much memory."""
    return n_bytes <= _MOST_BYTES
