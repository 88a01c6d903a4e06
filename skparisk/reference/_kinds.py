"""The ways to sample a table, and what is known of each before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A way of sampling.

    `needs` returns the rows it takes, from the numbers of pairs, shared and own
    records; `for_new_people` is None where the risk is over the population itself.
    """

    description: str
    needs: Callable[[int, int, int], int]
    for_new_people: str | None = None


_THIN = (
    "risk at most {} larger for sums and means with noise of a shape that is not "
    "learned from the table, because this has only so many rows; not known for others"
)
KINDS = {
    "leave-out": Kind(
        "resampled from a table of {} rows, with the differing records left out of the "
        "shared ones",
        lambda n_pairs, n_shared, n_own: n_own + min(n_shared, 1),
        _THIN,
    ),
    "bootstrap": Kind(
        "drawn with replacement from a table of {} rows",
        lambda n_pairs, n_shared, n_own: 2,
        "not known: the record that is put in may already be in the database, which "
        "hides how far it can move the answer",
    ),
    "subsample": Kind(
        "drawn without replacement from a table of {} rows",
        lambda n_pairs, n_shared, n_own: n_shared + n_own,
        _THIN,
    ),
    "split": Kind(
        "two drawn from the population of which a table of {} rows is a random sample, "
        "the others from half of the table",
        lambda n_pairs, n_shared, n_own: max(2 * n_own * n_pairs, 2),
    ),
    "disjoint": Kind(
        "drawn from the population of which a table of {} rows is a random sample, "
        "with no row used twice",
        lambda n_pairs, n_shared, n_own: n_pairs * (n_shared + n_own),
    ),
}
SAMPLINGS = tuple(KINDS)
