"""What sampled pairs depend on, and drawing them."""

from __future__ import annotations

import dataclasses
import math
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.calibrate import Exchangeable, Terms
from skparisk.core.checks import CalibrationError, check_random_state, is_whole
from skparisk.core.claim import Assumption, Population, Unit
from skparisk.core.laws import Law
from skparisk.core.noise import Constant, NoiseShape
from skparisk.core.pairs import SampledPairs, norms_of_pairs
from skparisk.core.release import silenced
from skparisk.core.rounding import ceil_text
from skparisk.core.sealed import PublicForm, copy_records, take_rows
from skparisk.neighbors import Database, n_own, sample_database
from skparisk.queries import Query
from skparisk.queries._base import same_but_for
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._parted import Parted
from skparisk.reference._records import Schema, n_rows
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity._parallel import PairSpec
from skparisk.sensitivity._terms import MOST_SHAPE_PAIRS, find_noise

# Databases that a query is asked about twice, until it has an answer.
_MOST_ASKED = 3
# Rows of a table that are looked at for what errors of outputs weigh.
_MOST_WEIGHED = 2**14
# Of the largest number: more than what rounding in another order changes.
_SAME = 2.0**-20
# Halves of a table that are looked at, with so many pairs each for one of the table, of
# tables that have so many rows.
_N_HALVES, _SHARE_OF_PAIRS, _FEW_ROWS = 6, 0.08, 8


# Risks at which it is looked for clusters.
_RISKS = (0.05, 0.1, 0.2)
# There is one if twice as many pairs as the risk are above so much of the quantile; or
# if that of a risk so much smaller is so much larger.
_BELOW, _SMALLER, _JUMP = 0.93, 0.6, 2.0
# Smaller risks that are tried, one after the other.
_STEP, _LEAST = 0.05, 0.2
# Of another cluster, so far above, halves have as many pairs on average as the table.
_MOST = 1.5


class Seeds(NamedTuple):
    """What everything random about pairs follows from.

    The databases that a query is tried on, the pairs, and the noise that pairs are
    tried with.
    """

    asked: bytes
    pairs: bytes
    noise: bytes

    @classmethod
    def of(cls, random_state: Any) -> Self:
        """Draw them, in this order."""
        if is_whole(random_state):  # to seed the generator of scikit-learn takes longer
            state = np.random.SeedSequence(int(random_state)).generate_state(12)
            return cls(*(part.tobytes() for part in state.reshape(3, 4)))
        rng = check_random_state(random_state, "random_state")
        return cls(rng.bytes(16), rng.bytes(16), rng.bytes(16))


class Known(NamedTuple):
    """A reference, and by what its records are known again."""

    reference: Reference | None
    sketch: RecordSketch | None

    def has(self, own: RecordSketch) -> bool:
        """Tell if it has some of these records."""
        return self.sketch is not None and own.overlaps(self.sketch)


@dataclass(frozen=True, eq=False)
class Draw(PairSpec):
    """All that sampled pairs depend on, and no private record."""

    seeds: Seeds
    # Of a reference that has been looked at; maybe another one.
    known: Known | None = None

    @cached_property
    def sketch(self) -> RecordSketch | None:
        """By what the records of the reference are known again, as they are now."""
        if self.known is not None and self.known.reference is self.reference:
            return self.known.sketch
        return self.reference.sketch

    def placed(self) -> Draw:
        """Return the draw with a query that has its constants from public records."""
        if type(self.query).placed is Query.placed:
            return self
        database = self._rows_of_table()
        if database is None:
            root = np.random.SeedSequence(int.from_bytes(self.seeds.asked, "little"))
            database = sample_database(self.reference, self.n_drawn, root, self.form)
        if self.query.needs_y and database[1] is None:
            return self  # said where pairs are drawn
        return dataclasses.replace(
            self, query=self.query.placed(*database, self.n_records)
        )

    def pairs(self, schema: Schema, *, private: bool, **how: Any) -> SampledPairs:
        """Draw the pairs, and say what is known of the records that they come from.

        `schema` is that of the records that the query will be asked about, which may be
        private: it is compared, and nothing of it is kept but names and their number.
        """
        self.check()  # before the query is asked
        answer, database = self._ask_twice(private)
        weights = None
        if answer is not None and not private:
            weights = self._find_weights(database[0], answer.size)
        pairs = self.sample(schema, self.seeds.pairs, private=private, **how)
        query, reference = self.query, self.reference
        drawn = Schema.of(database[0])  # of records as they were given to the query
        # The number of rows in a mean depends on whose they are.
        means = query.is_mean and self.relation == "replace-one"
        per_person = reference.rows_per_person
        alone = query.is_sum or (means and per_person is None)
        n_rows_alone = None
        if isinstance(reference, TableReference) and alone and self.n_neighbors == 1:
            n_rows_alone = reference.n_records if reference.is_thin else None
        # What columns hold is as the reference says: that may tell of private records.
        of_columns = dataclasses.replace(
            schema, container=drawn.container, kinds=(reference.schema or drawn).kinds
        )
        pairs = dataclasses.replace(
            pairs,
            draw_seed=int.from_bytes(self.seeds.noise, "little"),
            sketch=self.sketch,
            schema=of_columns,
            form=None if private else reference.form or PublicForm.of(*database),
            domain=reference.domain,
            learning=reference.learning,
            unit=Unit.PERSON if per_person else Unit.RECORD,
            rows_per_person=per_person,
            answer=None if query.is_sum else answer,  # that of one record
            weights=weights,
            n_independent=reference.n_independent(n_own(self.relation)),
            for_new_people=reference.for_new_people,
            n_rows_alone=n_rows_alone,
            population=Population.DECLARED if reference.made_up else pairs.population,
        )
        still = np.array([], dtype=np.intp) if private else pairs.still()
        if 0 < still.size < pairs.n_outputs:
            if query.is_sum:
                answer = self._ask_about_many(database)
            assert answer is not None
            pairs.constant = Constant(still, answer[still])
        return pairs

    def shortcomings(self, n_outputs: int) -> dict[Assumption, str]:
        """Return why the reference may not be like people, each with a sentence."""
        reference, query = self.reference, self.query
        # Records of a pair tell all of a sum, however many numbers it has.
        found = reference.shortcomings(
            n_records=self.n_drawn, n_outputs=1 if query.is_sum else n_outputs
        )
        if (
            isinstance(reference, TableReference)
            and reference.for_new_people is not None
            and reference.n_records < query.rows_per_record * self.n_drawn
        ):
            found[Assumption.ROWS_PER_RECORD] = (
                f"The reference table has {reference.n_records} rows, fewer than "
                f"{query.rows_per_record} times the {self.n_drawn} records of a "
                "database: components and centers, which are matched to a fit of the "
                "table, and predictions at points move less between databases of its "
                "rows than between databases of real people."
            )
        return found

    def margin(
        self, pairs: SampledPairs, terms: Terms, schema: Schema, n_jobs: int | None
    ) -> HalvesMargin | None:
        """Return what halves of a table say, where many pairs may be beyond at once.

        As those of a class may, if pairs were resampled from the table.
        """
        table = self.reference
        if (
            not isinstance(table, TableReference)
            or table.for_new_people is None
            or self.query.is_sum
            or self.n_neighbors > 1
            or not _FEW_ROWS <= table.n_records <= _MOST_WEIGHED
            or terms.target.randomness == "both"
        ):
            return None
        found = find_noise(pairs, terms, self.query)
        if not has_clusters(found.distances):
            return None
        seed = np.random.SeedSequence(int.from_bytes(self.seeds.pairs, "little"))
        rng = np.random.default_rng(seed.spawn(3)[2])  # two are of the pairs
        halves = []
        for _ in range(_N_HALVES):
            half = dataclasses.replace(
                self,
                reference=table._half(rng),
                n_pairs=math.ceil(_SHARE_OF_PAIRS * len(pairs)),
            )
            with suppress(CalibrationError):  # none of its databases has an answer
                halves.append(half.sample(schema, rng.bytes(16), n_jobs=n_jobs))
        return HalvesMargin(tuple(halves)) if halves else None

    def _ask_about_many(self, one: Database) -> NDArray[np.float64]:
        """Return the answer of a sum on as many public records, repeated if need be."""
        pool = self._whole_table()
        if pool is None:
            pool = RecordPool(*one, np.array([n_rows(one[0])]))
        return _ask(self.query, pool.take(np.resize(_spread(pool), self.n_records)))

    def _rows_of_table(self) -> Database | None:
        """Return rows from all over a table, if it has them for more than one thing."""
        pool = self._whole_table()
        return None if pool is None else pool.take(_spread(pool))

    def _whole_table(self) -> RecordPool | None:
        reference = self.reference
        if not isinstance(reference, TableReference) or reference.whole is None:
            return None
        return reference.whole.in_form(self.form)

    def _ask_twice(self, private: bool) -> tuple[NDArray[np.float64] | None, Database]:
        """Return an answer, and the sampled database that it is of.

        Refuse a query that answers the same database differently when asked twice,
        unless it is known to answer alike. It is asked about another database if it has
        no answer to one. If it has none to several, the last reason is shown, unless
        the reference is private.
        """
        query = self.query
        root = np.random.SeedSequence(int.from_bytes(self.seeds.asked, "little"))
        parts = not (query.is_plain or query.any_table)  # others need all at once
        for seed in root.spawn(_MOST_ASKED):
            database = sample_database(
                self.reference, self.n_drawn, seed, self.form, in_parts=parts
            )
            if query.needs_y and database[1] is None:
                break  # said where pairs are drawn
            try:
                with silenced() if private else nullcontext():
                    answer = _ask(query, database)
                    alike = query.is_repeatable or same_but_for(
                        _SAME, _ask(query, database), answer
                    )
            except Exception as error:
                failure = error
                continue
            if alike:
                return answer, tuple(map(_first_of, database))
            raise ValueError(
                f"The query {query} gives different answers on the same database when "
                "it is asked twice: it must be a function of the database. Seed the "
                "random numbers that it uses."
            )
        else:
            if not private:  # else it is said without a reason where pairs are drawn
                raise failure
        return None, database

    def _find_weights(self, X: Any, n_outputs: int) -> NDArray[np.float64] | None:
        """Return what errors of outputs weigh, on rows of a table, or on a database."""
        if n_outputs > MOST_SHAPE_PAIRS:
            return None
        if isinstance(self.reference, TableReference):
            # A database has some rows of a table again, and lacks others.
            table = self._rows_of_table()
            if table is None:  # records serve for one thing each
                return None
            X = table[0]
        given = self.query.output_weights(copy_records(X), n_outputs)
        if given is None:
            return None
        weights = np.asarray(given, dtype=np.float64)
        if weights.shape != (n_outputs, n_outputs) or not np.isfinite(weights).all():
            raise ValueError(
                f"output_weights of the query {self.query} must return None or finite "
                f"numbers of shape {(n_outputs, n_outputs)}, got shape {weights.shape}."
            )
        return (weights + weights.T) / 2


def _spread(pool: RecordPool) -> NDArray[np.intp]:
    """Return records from all over a pool."""
    most = min(pool.n_records, _MOST_WEIGHED)
    return np.linspace(0, pool.n_records - 1, most).astype(np.intp)


def _first_of(records: Any) -> Any:
    """Return records, of very many the first, which do not keep the others."""
    if records is None or n_rows(records) <= _MOST_WEIGHED:
        return records
    return copy_records(take_rows(records, slice(_MOST_WEIGHED)))


def _ask(query: Query, database: Database) -> NDArray[np.float64]:
    """Return the answer on a copy: a query may work in place. Parts are made anew."""
    parted = isinstance(database[0], Parted)
    return np.asarray(query(*(database if parted else map(copy_records, database))))


def means_for_new_people(pairs: SampledPairs, terms: Terms) -> str | None:
    """Return what the risk means for new people, where it is over resamples.

    Of a theorem whose conditions hold: differences of the differing records alone, an
    order statistic of independent pairs, and noise of a shape that the table does not
    tell (:ref:`thm-leave-out`).
    """
    n_rows, plain = pairs.n_rows_alone, isinstance(terms.rule, Exchangeable)
    if (
        n_rows is None
        or not plain
        or terms.target.randomness == "both"
        or terms.n_shape_pairs
    ):
        return pairs.for_new_people
    more = ceil_text(min(1.0, 4 / (n_rows + 1)), 3)
    return f"risk at most {more} larger, because the table has only so many rows"


def unseen_tail(pairs: SampledPairs, gamma: float) -> str | None:
    """Return why pairs of few rows cannot carry so small a risk, if they cannot."""
    n_independent = pairs.n_independent
    if not pairs.lacks_tail(gamma):
        return None
    return (
        f"The reference table has {n_independent} pairs without a row in common, and "
        f"does not show the tail that a risk of {gamma:g} is about, which takes "
        f"{math.ceil(1 / gamma)} of them."
    )


@dataclass(frozen=True, eq=False)
class HalvesMargin:
    """What halves of a table say that noise is to be multiplied by.

    For the quantile of the largest risk at which, on average over the halves, no more
    than a share `gamma` of the pairs of the table are beyond theirs. These are compared
    as if their median were its own: few rows, which repeat, are farther apart.
    """

    halves: tuple[SampledPairs, ...]

    def __call__(
        self,
        distances: NDArray[np.float64],
        shape: NoiseShape,
        law: Law,
        index: int,
        gamma: float,
    ) -> float:
        """Return the factor, at least 1, for the distance with this number."""
        ordered = np.sort(distances)
        base = ordered[index - 1]
        asked = 1 - index / (len(ordered) + 1)
        halves = [np.sort(norms_of_pairs(half, shape, law)) for half in self.halves]
        found = base
        for share in np.arange(1.0, _LEAST, -_STEP):
            at = _quantile(ordered, share * asked)
            beyond_gap = at > _MOST * base
            found = float(ordered[ordered <= _MOST * base][-1]) if beyond_gap else at
            found = max(base, found)
            if beyond_gap:
                break
            theirs = np.array([_quantile(half, share * asked) for half in halves])
            usual = np.median(theirs)
            if 0 < usual < math.inf:
                theirs *= found / usual
            beyond = 1 - np.searchsorted(ordered, theirs, side="right") / len(ordered)
            if beyond.mean() <= gamma:
                break
        return float(found / base)


def has_clusters(distances: NDArray[np.float64]) -> bool:
    """Tell if an order statistic of distances may lie in a cluster, or below one."""
    ordered = np.sort(distances)
    for risk in _RISKS:
        quantile = _quantile(ordered, risk)
        many = np.mean(ordered > _BELOW * quantile) > 2 * risk
        jump = _quantile(ordered, _SMALLER * risk) > _JUMP * quantile
        if quantile > 0 and (many or jump):
            return True
    return False


def _quantile(ordered: NDArray[np.float64], risk: float) -> float:
    """Return the order statistic that a fresh one exceeds with a risk, or the last."""
    n = len(ordered)
    index = math.ceil((n + 1) * (1 - risk) * (1 - 2.0**-40))
    return float(ordered[min(max(index, 1), n) - 1])
