"""Hashes of rows, by which records are known again in another table."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skparisk.core.exact import noise_source
from skparisk.core.sealed import Records, is_missing, rows_of, take_rows
from skparisk.reference._records import columns_of, is_numbers, n_rows

# Rows whose hashes are kept: those that are smallest, whatever the table.
_MOST_KEPT = 2**16
# Numbers that are hashed together fit into a cache, with what is made of them.
_NUMBERS_PER_BLOCK, _ROWS_PER_BLOCK = 2**14, 2**18
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MISSING = int(np.float64(np.nan).view(np.uint64))
_LONE = "surrogatepass"
# Bits that a float has more than are compared in tables of one column, of two, and of
# more, so that it is known again where it was rounded, as to 32 bits: 21 binary digits
# are left, 17 or 13. A row is as likely as there are columns to have a number that is
# rounded to another one than its copy, but the fewer digits tell rows apart.
_DROPPED = (32, 36, 40)

# Fewer rows in common, or a smaller share of a table, are no sign of anything.
_LEAST_COMMON = 5
_LEAST_SHARE = 0.05
# How often records may be in a table that has each of them as often.
_TIMES = (1, 2, 3)


@dataclass(frozen=True, eq=False)
class RecordSketch:
    """The smallest hashes of the rows of a table, sorted: the same in any order."""

    # Rows of the table.
    n_rows: int
    # A hash of all rows in their order.
    ordered: int
    # Hashes of the features of each row, and in a second line of rounded ones, which
    # are the same for rows that differ by less.
    features: NDArray[np.uint64]
    # The same of features and targets together, where there are targets.
    records: NDArray[np.uint64] | None = None
    # Whether these are all rows that there are, and not some that were made.
    whole: bool = True

    @classmethod
    def of(
        cls, X: Records, y: NDArray[Any] | None = None, *, keyed: bool = False
    ) -> Self:
        """Return the sketch of records, and of targets or labels if there are any.

        Those of private records that outlive a call are `keyed`, and compared with each
        other alone: who has such hashes, and not the secret key of this process, learns
        nothing of the records.
        """
        X, y = rows_of(X), rows_of(y)
        hashes_of = _keyed_row_hashes if keyed else _row_hashes
        size, ordered = n_rows(X), 0
        features = _smallest([])
        records = None if y is None else features
        # Some rows at a time, as there may be more hashes than there is memory.
        for start in range(0, size, _ROWS_PER_BLOCK):
            stop = min(start + _ROWS_PER_BLOCK, size)
            hashes = hashes_of(take_rows(X, slice(start, stop)))
            places = np.arange(2 * start + 1, 2 * stop, 2, dtype=np.uint64)
            ordered += int(_mixed(hashes[0] * places).sum(dtype=np.uint64))
            features = _smallest([features, hashes])
            if records is not None:
                targets = hashes_of(take_rows(y, slice(start, stop)))
                records = _smallest([records, _mixed(hashes * _MULTIPLIER + targets)])
        return cls(size, ordered % 2**64, features, records)

    def overlaps(self, other: RecordSketch) -> bool:
        """Tell if two tables have records in common that chance cannot explain.

        Either they are the same rows in the same order, or enough rows are the same
        that are single here, and single in the other table as well or there at all.
        This one is of people, who are drawn by chance; the other may be a design.
        """
        if (self.n_rows, self.ordered) == (other.n_rows, other.ordered):
            return len(np.unique(self.features[0])) > 1
        sides = [(self.features, other.features)]
        if self.records is not None and other.records is not None:
            sides.append((self.records, other.records))
        return any(
            _share_rows(one, two, self.n_rows, other.n_rows)
            for side in sides
            for one, two in zip(*side, strict=True)
        )

    def same_rows(self, other: RecordSketch) -> bool:
        """Tell if tables have the same rows, and targets if both have some."""
        same = np.array_equal(self.features, other.features)
        if self.records is not None and other.records is not None:
            same &= np.array_equal(self.records, other.records)
        return same and self.n_rows == other.n_rows


def _share_rows(
    one: NDArray[np.uint64], two: NDArray[np.uint64], n_one: int, n_two: int
) -> bool:
    """Tell if more rows are single in both tables, and the same, than by chance.

    In independent tables of one population a value of probability p is single in both
    with a probability of at most n_one n_two p**2 (1 - p)**(n_one - 1), and twice in
    one table with n_one (n_one - 1) / 2 p**2 (1 - p)**(n_one - 2). So chance expects at
    most 2 n_two / (n_one - 1) times as many common singles as values that are twice in
    one, and the same of two.

    Or if more are single in the first, and in the second at all: see `_is_drawn`.
    """
    # Of both tables, what both would have kept.
    limits = [int(kept[-1]) for kept in (one, two) if len(kept) == _MOST_KEPT]
    if limits:
        one, two = (kept[kept <= min(limits)] for kept in (one, two))
    fewer, more = sorted((one, two), key=len)
    least = max(_LEAST_COMMON, _LEAST_SHARE * len(fewer))
    if len(fewer) < least or _found(fewer, more)[0].sum() < least:
        return False
    (values, counts), (others, other_counts) = _counted(one), _counted(two)
    known, places = _found(values, others)
    n_common = int((known & (counts == 1) & (other_counts[places] == 1)).sum())
    n_twice, n_others_twice = (int((c == 2).sum()) for c in (counts, other_counts))
    by_chance = min(
        2 * n_two / max(n_one - 1, 1) * _most_expected(n_twice),
        2 * n_one / max(n_two - 1, 1) * _most_expected(n_others_twice),
    )
    n_absent = len(others) - int(known.sum())
    common = n_common >= least and _is_no_chance(n_common, by_chance)
    return common or _is_drawn(len(one), counts[known], n_absent, least)


def _is_drawn(n: int, known: NDArray[np.int64], n_absent: int, least: float) -> bool:
    """Tell if more values that are single in a table are among others than by chance.

    Or twice or three times, in a table that has its rows as often. `known` says how
    often the table has those of the others that it has; `n_absent` it has not. A value
    of probability p that is independent of its n rows is there k times with probability
    (n over k) p**k (1 - p)**(n - k). So by Cauchy and Schwarz chance expects at most as
    many k times as the root of the absent ones, times those that are there 2 k times,
    times (n over k)**2 / (n over 2 k).
    """
    absent = _most_expected(n_absent)
    there = np.bincount(known, minlength=2 * _TIMES[-1] + 1).tolist()
    for times in _TIMES[: n // 2]:
        ratio = math.comb(n, times) ** 2 / math.comb(n, 2 * times)
        most = absent * _most_expected(there[2 * times])
        enough = times * there[times] >= least
        if enough and _is_no_chance(there[times], math.sqrt(ratio * most)):
            return True
    return False


def _found(
    some: NDArray[np.uint64], others: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Tell which of some hashes are among others, which are sorted, and where."""
    places = np.minimum(np.searchsorted(others, some), len(others) - 1)
    return others[places] == some, places


def _counted(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return each of some sorted hashes once, and how often it is there."""
    first = np.append(True, hashes[1:] != hashes[:-1]).nonzero()[0]
    return hashes[first], np.diff(first, append=len(hashes))


def _is_no_chance(count: int, expected: float) -> bool:
    return count > expected + 2.5 * math.sqrt(expected)


def _most_expected(count: int) -> float:
    """Return the most that was expected where so many were counted, but for luck."""
    return count + 3 * math.sqrt(count + 1) + 2


def _row_hashes(table: Records) -> NDArray[np.uint64]:
    """Return two 64-bit hashes of each row, in lines; equal values have equal ones.

    Whatever container holds them: numbers are hashed as floats, and as rounded ones,
    booleans as 0 and 1, dates as microseconds, texts by content, and all that is
    missing is the same.
    """
    n_columns = max(math.prod(table.shape[1:]), 1)
    dropped = _DROPPED[min(n_columns, len(_DROPPED)) - 1]
    factors = _column_factors(n_columns)
    length = n_rows(table)
    hashes = np.empty((2, length), dtype=np.uint64)
    # Columns of a frame are hashed one by one.
    together = 1 if hasattr(table, "columns") else n_columns
    step = max(1, _NUMBERS_PER_BLOCK // together)
    for start in range(0, length, step):
        rows = slice(start, start + step)
        hashes[:, rows] = _block_hashes(take_rows(table, rows), factors, dropped)
    return _mixed(hashes)


def _keyed_row_hashes(table: Records) -> NDArray[np.uint64]:
    """Return BLAKE2 of the hashes of rows, with the secret key of this process."""
    keyed = partial(hashlib.blake2b, digest_size=8, key=_process_key())
    hashes = _row_hashes(table)
    found = b"".join(
        keyed(word).digest() for word in hashes.ravel().view("V8").tolist()
    )
    return np.frombuffer(found, dtype=np.uint64).reshape(hashes.shape)


@cache
def _process_key() -> bytes:
    """Return a key that this process draws once, and tells nobody."""
    return noise_source(None)(32)


def _block_hashes(
    block: Records, factors: NDArray[np.uint64], dropped: int
) -> NDArray[np.uint64]:
    """Return for each row the sums of what its values contribute."""
    if is_numbers(block):
        bits = _mixed(_float_bits(block, dropped))
        # As `bits * factors` summed up modulo 2**64, in a third of the time.
        return np.asarray(np.einsum("gij,j->gi", bits, factors))
    if sparse.issparse(block):
        # Zeros contribute nothing. Sums of rows are differences of sums, modulo 2**64.
        sums = np.zeros((2, len(block.data) + 1), dtype=np.uint64)
        contributed = _mixed(_float_bits(block.data, dropped)) * factors[block.indices]
        np.cumsum(contributed, axis=1, out=sums[:, 1:])
        return sums[:, block.indptr[1:]] - sums[:, block.indptr[:-1]]
    hashes = np.zeros((2, n_rows(block)), dtype=np.uint64)
    for factor, column in zip(factors, columns_of(block), strict=True):
        hashes += _mixed(_column_bits(column, dropped)) * factor
    return hashes


def _column_bits(column: NDArray[Any], dropped: int) -> NDArray[np.uint64]:
    """Return 64 bits for each value of a column, and for each rounded one."""
    if column.dtype.kind in "mM":
        whole = column.astype(f"{column.dtype.kind}8[us]")
        return np.where(np.isnat(whole), np.uint64(_MISSING), whole.view(np.uint64))
    if column.dtype != object:
        return _float_bits(column, dropped)
    # Each value is looked at once, however often it is there.
    known = {value: _value_bits(value, dropped) for value in {*column}}
    found = [known[value] for value in column]
    return np.array(found, dtype=np.uint64).reshape(-1, 2).T


def _float_bits(numbers: NDArray[Any], dropped: int) -> NDArray[np.uint64]:
    """Return bits of numbers, with one zero and one NaN, and of rounded ones."""
    block = np.asarray(numbers, dtype=np.float64) + 0.0
    np.copyto(block, np.nan, where=np.isnan(block))
    bits = np.empty((2, *block.shape), dtype=np.uint64)
    bits[0] = block.view(np.uint64)
    np.add(bits[0], np.uint64(2 ** (dropped - 1)), out=bits[1])
    bits[1] &= np.uint64(2**64 - 2**dropped)
    return bits


def _value_bits(value: Any, dropped: int) -> tuple[int, int]:
    """Return bits of an object, the same in all processes, and of it rounded."""
    if is_missing(value):
        bits = _MISSING
    elif isinstance(value, datetime.date | np.datetime64):
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        bits = int(np.asarray(value, dtype="M8[us]").view(np.uint64))
    elif isinstance(value, datetime.timedelta | np.timedelta64):
        bits = int(np.asarray(value, dtype="m8[us]").view(np.uint64))
    elif isinstance(value, str | bytes | datetime.time):
        text = value if isinstance(value, bytes) else str(value).encode(errors=_LONE)
        digest = hashlib.blake2b(text, digest_size=8).digest()
        bits = int.from_bytes(digest, "little")
    else:
        first, second = _float_bits(np.array([float(value)]), dropped)[:, 0].tolist()
        return first, second
    return bits, bits


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread each bit over the word (the finalizer of MurmurHash3)."""
    bits = np.asarray(bits ^ (bits >> np.uint64(33)))
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        bits *= np.uint64(multiplier)
        bits ^= bits >> np.uint64(33)
    return bits


@cache
def _column_factors(n_columns: int) -> NDArray[np.uint64]:
    """Return odd numbers, so that columns cannot change places."""
    drawn = np.random.default_rng(n_columns).integers(2**63, size=n_columns)
    return drawn.astype(np.uint64) * np.uint64(2) + np.uint64(1)


def _smallest(parts: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return those of some hashes that are kept, sorted."""
    hashes = np.concatenate([np.empty((2, 0), dtype=np.uint64), *parts], axis=1)
    if hashes.shape[1] > _MOST_KEPT:
        hashes = np.partition(hashes, _MOST_KEPT - 1)[:, :_MOST_KEPT]
    return np.sort(hashes)
