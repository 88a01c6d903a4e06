"""Records of a law that was learned with noise, and those it was not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_at_least
from skparisk.core.claim import Assumption
from skparisk.core.release import hide_values
from skparisk.core.sealed import Records, take_rows
from skparisk.reference._base import RecordPool, RecordSource
from skparisk.reference._learning import Learning
from skparisk.reference._records import as_records, as_targets, concatenate, n_rows
from skparisk.reference._schema import SchemaReference
from skparisk.reference._synthesis import tells_something

_ROWS_OF_WHOLE = 2048

Law = Callable[[int, np.random.Generator], Any]
_Targets = NDArray[Any] | None


class LearnedRecords(SchemaReference):
    """Records of a law that was learned with differential privacy, so it is public.

    Made by :meth:`LearnedReference.learn`.
    """

    _law: Law
    _learning: Learning
    _n_others: int

    @classmethod
    def _of(
        cls, schema: SchemaReference, law: Law, learning: Learning, n_others: int
    ) -> Self:
        made = object.__new__(cls)
        vars(made).update(vars(schema))
        made._law, made._learning, made._n_others = law, learning, n_others
        return made

    @property
    def description(self) -> str:
        return (
            "drawn from a law that was learned by histograms and a copula, with noise, "
            f"from {self._learning.n_records} other records; private records are "
            "clipped to a declared schema"
        )

    @property
    def learning(self) -> Learning:
        return self._learning

    @property
    def made_up(self) -> bool:
        return False  # but learned from people

    @property
    def usual_n_records(self) -> int:
        return self._n_others

    @property
    def whole(self) -> RecordPool:
        """Records of the law, after some in which each declared category is."""
        rng = np.random.default_rng(0)
        X, y = self._records(self._n_values, rng)
        drawn = self.sample(_ROWS_OF_WHOLE, rng)
        more, targets = drawn if isinstance(drawn, tuple) else (drawn, None)
        if targets is not None:
            y = np.concatenate([y, targets])
        return RecordPool(concatenate([X, more]), y)

    def sample(self, n_records: int, rng: np.random.Generator) -> Any:
        """Return records of the learned law, as a schema returns simulated ones."""
        return self._law(check_at_least(n_records, "n_records", 1), rng)

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the same law with what `encode` makes of its targets."""
        other = super().encoded(encode)
        other._law = partial(_draw_encoded, self._law, encode)
        return other

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs, whose databases have as many records."""
        if n_own == 1:
            raise ValueError(
                "relation must be 'replace-one' with a LearnedReference, got "
                "'add-remove': the number of records is public where they are split."
            )
        return super().bind(n_pairs, n_shared=n_shared, n_own=n_own, seed=seed)

    def shortcomings(self, **about: Any) -> dict[Assumption, str]:
        """Return that the law is hardly more than noise, if it is."""
        learning = self._learning
        n_columns = len(self._specs) + len(self._targets)
        if tells_something(learning.n_records, learning.epsilon, n_columns):
            return {}
        said = (
            f"{learning.n_records} records and a level of {learning.epsilon:g} are too "
            f"few to learn {n_columns} columns from: the learned law is mostly noise, "
            "and nearly uniform in the declared ranges."
        )
        return {Assumption.NOISY_LAW: said}

    def __repr__(self) -> str:
        return f"LearnedRecords({self.description!r})"


@dataclass(frozen=True, eq=False, repr=False)
class LearnedSplit:
    """A learned reference, and which of the records were not learned from.

    Made by :meth:`LearnedReference.learn`. It has positions of records, and no record;
    `reference` is public, by post-processing.
    """

    reference: LearnedRecords
    _others: NDArray[np.intp]
    _n_candidates: int

    def remaining(self, X: Any, y: Any = None) -> Any:
        """Return the records that were not learned from, in random order.

        Parameters
        ----------
        X : array-like of shape (n_candidates, n_features)
            All records, as they were given to `learn`.

        y : array-like of shape (n_candidates,) or (n_candidates, n_targets), \
default=None
            Their targets.

        Returns
        -------
        records : X or (X, y)

        Raises
        ------
        ValueError
            If they are not as many as were split.
        """
        X, y = self.reference.form.read(X, y)
        records = hide_values(as_records, X, "X")
        targets = None if y is None else hide_values(as_targets, y)
        lengths = [n_rows(part) for part in (records, targets) if part is not None]
        if set(lengths) != {self._n_candidates}:
            raise ValueError(
                f"X and y must be the {self._n_candidates} records that were split, in "
                f"the same order; got {' and '.join(map(str, lengths))} records."
            )
        records, targets = self._remaining(records, targets)
        return records if y is None else (records, targets)

    def _remaining(self, X: Records, y: _Targets) -> tuple[Records, _Targets]:
        return take_rows(X, self._others), take_rows(y, self._others)

    def __repr__(self) -> str:
        return f"LearnedSplit({len(self._others)} of {self._n_candidates} records)"


def _draw_encoded(
    law: Law,
    encode: Callable[[NDArray[Any]], NDArray[Any]],
    n_records: int,
    rng: np.random.Generator,
) -> Any:
    X, y = law(n_records, rng)
    return X, encode(y)
