"""What sampled pairs depend on, and drawing them: once, where they are kept."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from skparisk.calibration import SampledPairs
from skparisk.neighbors import n_own
from skparisk.queries import Query
from skparisk.reference import Reference
from skparisk.reference._base import Form
from skparisk.reference._domain import Domain
from skparisk.reference._records import Schema
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity._asking import check_repeatable
from skparisk.sensitivity._digest import digest_or_none, versions
from skparisk.sensitivity._parallel import (
    check_neighbors,
    sample_pairs,
)
from skparisk.sensitivity._store import PairStore


class Seeds(NamedTuple):
    """What everything random about pairs follows from.

    The databases that a query is tried on, the pairs, and the noise that pairs are
    tried with.
    """

    asked: bytes
    pairs: bytes
    noise: bytes

    @classmethod
    def of(cls, rng: np.random.RandomState | np.random.Generator) -> Self:
        """Draw them, in this order."""
        return cls(rng.bytes(16), rng.bytes(16), rng.bytes(16))


class Known(NamedTuple):
    """A reference, and by what its records are known again."""

    reference: Reference | None
    sketch: RecordSketch | None

    def has(self, own: RecordSketch) -> bool:
        """Tell if it has some of these records."""
        return self.sketch is not None and own.overlaps(self.sketch)


@dataclass(frozen=True, eq=False)
class Draw:
    """All that sampled pairs depend on, and no private record."""

    query: Query
    reference: Reference
    n_pairs: int
    n_neighbors: int
    n_records: int
    form: Form
    relation: str
    seeds: Seeds
    # Of a reference that has been looked at; maybe another one.
    known: Known | None = None

    @cached_property
    def sketch(self) -> RecordSketch | None:
        """By what the records of the reference are known again, as they are now."""
        if self.known is not None and self.known.reference is self.reference:
            return self.known.sketch
        return self.reference.sketch

    @property
    def n_drawn(self) -> int:
        """Records of a database that are drawn."""
        return 1 if self.query.is_sum else self.n_records

    @property
    def about(self) -> dict[str, Any]:
        """What is not an object, by which pairs are known again."""
        return {
            "n_pairs": self.n_pairs,
            "neighbors_per_database": self.n_neighbors,
            "n_records": self.n_records,
            "form": self.form,
            "relation": self.relation,
            "seeds": [seed.hex() for seed in self.seeds],
        }

    def pairs(
        self, schema: Schema, *, store: PairStore | None, private: bool, **how: Any
    ) -> SampledPairs:
        """Return the pairs as they are kept, or else as they are drawn now.

        `schema` is that of the records that the query will be asked about, which may be
        private: it is compared, and nothing is kept of it. That of the pairs is of
        records of the reference. Pairs of private records are never kept.
        """
        check_neighbors(
            self.n_neighbors, self.n_pairs, self.n_records, self.query, self.reference
        )
        if store is None or private:
            return self._drawn(schema, private=private, **how)
        key = store.key_of(self.query, self.reference, self.sketch, self.about)
        pairs = store.find(key)
        if pairs is None:
            pairs = self._drawn(schema, private=private, **how)
            store.keep(key, pairs)
        else:
            assert pairs.schema is not None
            pairs.schema.check_same(schema)
        assert pairs.drawing is not None
        pairs.drawing = dataclasses.replace(pairs.drawing, kept=store.folder_of(key))
        return pairs

    def _drawn(self, schema: Schema, *, private: bool, **how: Any) -> SampledPairs:
        asked = check_repeatable(
            self.query,
            self.reference,
            n_records=self.n_drawn,
            form=self.form,
            entropy=self.seeds.asked,
            private=private,
        )
        pairs = sample_pairs(
            self.query,
            self.reference,
            n_pairs=self.n_pairs,
            n_records=self.n_records,
            schema=schema,
            form=self.form,
            relation=self.relation,
            entropy=self.seeds.pairs,
            private=private,
            n_neighbors=self.n_neighbors,
            **how,
        )
        pairs.draw_seed = int.from_bytes(self.seeds.noise, "little")
        pairs.answer = None if self.query.is_sum else asked.answer  # that of one record
        pairs.weights, pairs.schema = asked.weights, asked.schema
        if pairs.drawing is not None:
            pairs.drawing = dataclasses.replace(
                pairs.drawing, reference=known_by(self.reference)
            )
        return pairs


def form_of(query: Query, schema: Schema) -> Form:
    """Return how a query is given records, if private ones have this schema."""
    if not query.any_table:
        return "numbers"
    return "array" if schema.container == "array" else "given"


def known_by(reference: Reference) -> str | None:
    """Return what a reference is known by, with the versions that draw from it."""
    return digest_or_none([reference, versions()])


def describe_pairs(pairs: SampledPairs, draw: Draw, schema: Schema) -> None:
    """Let pairs say what is known of the records that they come from.

    `schema` is that of the records that the query will be asked about.
    """
    reference, query = draw.reference, draw.query
    pairs.sketch, pairs.domain = draw.sketch, reference.domain
    pairs.learning = reference.learning
    pairs.n_independent = reference.n_independent(n_own(draw.relation))
    set_largest_move(pairs, query, schema.n_columns, draw.n_records, draw.relation)
    # What columns hold is as the reference says: `X` may be private.
    drawn = pairs.schema
    assert drawn is not None
    known = drawn if reference.schema is None else reference.schema
    pairs.schema = dataclasses.replace(
        schema, container=drawn.container, kinds=known.kinds
    )


def set_largest_move(
    pairs: SampledPairs, query: Query, n_columns: int, n_records: int, relation: str
) -> None:
    """Let pairs say how far answers can be apart, where that is proven."""
    # Sums of what is bounded itself move by no more, whatever the records are.
    anything = Domain([None] * n_columns)
    pairs.largest_move = query.largest_move(
        pairs.domain or anything, n_records, relation
    )


def shortcomings_of(draw: Draw, n_outputs: int, gamma: float) -> tuple[str, ...]:
    """Return sentences: why the reference cannot carry a risk, or nothing."""
    return draw.reference.shortcomings(
        n_records=draw.n_drawn,
        n_own=n_own(draw.relation),
        # Records of a pair tell all of a sum, however many numbers it has.
        n_outputs=1 if draw.query.is_sum else n_outputs,
        gamma=gamma,
    )
