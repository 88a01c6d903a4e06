"""Where released numbers can be: told by how fits move with public records.

What noise has taken out of its range is brought back, which is post-processing. What
an array is follows from a fit to the same records in other units, from other zeros and
with the columns in reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import nnls

from skparisk.core.release import silenced
from skparisk.core.sealed import container_of, is_frame
from skparisk.neighbors import Database
from skparisk.queries import PredictionReader, Reader
from skparisk.queries._state import Numbers
from skparisk.queries._together import Floats
from skparisk.reference._domain import Domain
from skparisk.reference._records import as_numbers, frame_like
from skparisk.wrappers._public_records import PublicRecords
from skparisk.wrappers._served import as_probabilities

_Bounds: TypeAlias = tuple[Floats, Floats]

# The other unit: a power of two, which rounds nothing.
_UNIT = 2.0
# In units of a column's range: what fits that stop early may differ by.
_SAME = 1e-3
_SUM = 1e-9
# Records that make up the hull.
_MOST_RECORDS = 1024
# Weight of the sum of shares, which is one.
_ONE = 1e4
# In standard deviations of the records: with less noise than that, a hull of few
# records may be further from the truth than the release.
_LEAST_NOISE = 0.5


@dataclass(frozen=True, eq=False)
class Ranges:
    """Where released numbers can be."""

    # For arrays with a range: the least and the most that they can be, of shapes that
    # broadcast to theirs.
    bounds: Mapping[str, _Bounds]
    # Arrays whose last axis has shares of one.
    shares: tuple[str, ...] = ()
    # Arrays whose last axis is the columns, and which are means of records.
    means: tuple[str, ...] = ()

    def clip(self, numbers: Numbers) -> Numbers:
        """Return numbers that are in their range."""
        found = dict(numbers)
        for place, (low, high) in self.bounds.items():
            found[place] = np.clip(found[place], low, high)
        for place in self.shares:
            rows = found[place].reshape(-1, found[place].shape[-1])
            found[place] = as_probabilities(rows).reshape(found[place].shape)
        return found

    def bring_among(
        self, numbers: Numbers, records: Any, deviations: Numbers
    ) -> Numbers:
        """Return means that lie in the hull of public records, where noise is large.

        A box is much larger than what its records take up of it.
        """
        if not self.means:
            return numbers
        hull = _Hull.of(records)
        found = dict(numbers)
        for place in self.means:
            noise = np.broadcast_to(deviations[place], found[place].shape) / hull.unit
            if np.sqrt(np.mean(noise**2)) > _LEAST_NOISE:
                found[place] = np.apply_along_axis(hull.nearest, -1, found[place])
        return found


class _Hull(NamedTuple):
    """All means of some records, and the standard deviation of each column."""

    records: Floats
    unit: Floats

    @classmethod
    def of(cls, records: Any) -> _Hull:
        numbers = as_numbers(records, "X of the reference")
        some = numbers[:: -(-len(numbers) // _MOST_RECORDS)]
        unit = some.std(axis=0)
        return cls(some, np.where(unit > 0, unit, 1.0))

    def nearest(self, point: Floats) -> Floats:
        """Return the mean that is nearest to a point; the point, if it is one."""
        ones = np.full((1, len(self.records)), _ONE)
        centered = (self.records - point) / self.unit
        target = np.append(np.zeros(len(point)), _ONE)
        try:
            weights, _ = nnls(np.concatenate([centered.T, ones]), target)
        # It did not converge, or met a singular matrix in older versions of SciPy: what
        # is released is not lost.
        except (RuntimeError, np.linalg.LinAlgError):
            return point
        move = weights @ centered / weights.sum()
        inside = np.abs(move).max() <= _SAME
        return point if inside else point + move * self.unit


class _Columns(NamedTuple):
    """What columns of public records, or of their targets, hold, and in which unit."""

    low: Floats
    high: Floats
    unit: Floats

    @classmethod
    def of(cls, box: Floats) -> _Columns:
        width = box[1] - box[0]
        return cls(box[0], box[1], np.where(width > 0, width, 1.0))

    @property
    def _zeros(self) -> Floats:
        # More than twice the range above, so that what is not negative stays so.
        places = np.arange(len(self.unit)) / len(self.unit)
        return self.unit * (3 + places) + _UNIT * np.abs(self.high)

    @property
    def _signs(self) -> Floats:
        return np.where(np.arange(len(self.unit)) % 2, 1.0, -1.0)

    def move(self, values: Floats) -> Floats:
        """Return values in another unit, from other zeros, and in reverse."""
        return (_UNIT * values + self._zeros)[..., ::-1]

    def turn(self, values: Floats) -> Floats:
        """Return them with the signs of every other column changed as well."""
        return (_UNIT * self._signs * values + self._zeros)[..., ::-1]

    def bounds_of_location(
        self, values: Sequence[Floats], moved: Floats | None
    ) -> _Bounds | None:
        """Return the range of an array that moves as records do, and is in it."""
        if not self._fits(values, moved):
            return None
        found = self.low, self.high
        same = _are_same(moved, self.move(values[0]), self.unit[::-1])
        return found if same and _are_within(values, found, self.unit) else None

    def bounds_of_spread(
        self, values: Sequence[Floats], moved: Floats | None, turned: Floats | None
    ) -> _Bounds | None:
        """Return the range of deviations, variances or covariances of columns.

        They do not move with the zeros, and have the unit or its square; of the signs
        only covariances know. Variances are within the bound of Popoviciu.
        """
        if not (self._fits(values, moved) and self._fits(values, turned)):
            return None
        unit, half, none = self.unit, self.unit / 2, np.zeros(len(self.unit))
        first = values[0][..., ::-1]
        laws = [
            (_UNIT * first, _UNIT * first, unit, (none, unit)),
            (_UNIT**2 * first, _UNIT**2 * first, half**2, (none, half**2)),
        ]
        if values[0].shape[-2:] == 2 * unit.shape:
            most = np.outer(half, half)
            first = _UNIT**2 * values[0][..., ::-1, ::-1]
            signs = np.outer(self._signs, self._signs)[::-1, ::-1]
            laws.append((first, signs * first, most, (np.diag(half**2) - most, most)))
        for expected, other, size, found in laws:
            reverse = size[(slice(None, None, -1),) * size.ndim]
            if (
                _are_same(moved, expected, reverse)
                and _are_same(turned, other, reverse)
                and _are_within(values, found, size)
            ):
                return found
        return None

    def _fits(self, values: Sequence[Floats], moved: Floats | None) -> bool:
        shape = values[0].shape
        return (
            moved is not None
            and moved.shape == shape
            and shape[-1:] == self.unit.shape
            and bool(values[0].any())
        )


def find_ranges(
    estimator: Any, public: PublicRecords, reader: Reader, fits: Sequence[Any]
) -> Ranges:
    """Return the ranges of what is read from fits to public records."""
    domain = _domain_of(public)
    if domain is None:
        return Ranges({})
    readings = [_read(reader, fitted) for fitted in fits]
    seen = {
        place: [of[place] for of in readings]
        for place, values in readings[0].items()
        if all(place in of and of[place].shape == values.shape for of in readings)
    }
    bounds: dict[str, _Bounds] = {}
    means: tuple[str, ...] = ()
    if domain.box is not None and {*public.schema.kinds} == {"number"}:
        columns = _Columns.of(domain.box)
        table = as_numbers(public.databases[0][0], "X of the reference")
        moved, turned = (
            _read_moved(estimator, public, reader, each)
            for each in (columns.move(table), columns.turn(table))
        )
        for place, values in seen.items():
            found = columns.bounds_of_location(values, moved.get(place))
            if found is not None and public.is_resampled:
                means += (place,) * _are_among(values, public.databases)
            if found is None:
                found = columns.bounds_of_spread(
                    values, moved.get(place), turned.get(place)
                )
            if found is not None:
                bounds[place] = found
    bounds |= _bounds_of_predictions(reader, seen, domain.target_box)
    shares = tuple(place for place in seen if all(map(_are_shares, seen[place])))
    return Ranges(bounds, shares, means)


def _bounds_of_predictions(
    reader: Reader, seen: Mapping[str, Sequence[Floats]], box: Floats | None
) -> dict[str, _Bounds]:
    """Return the range of targets for predictions of a regressor that keep to it."""
    if not isinstance(reader, PredictionReader) or box is None:
        return {}
    low, high = box
    return {
        place: (low, high)
        for place, values in seen.items()
        if place == "predict"
        and _are_within(
            [each.reshape(len(each), -1) for each in values],
            (low, high),
            high - low,
        )
    }


def _read(reader: Reader, fitted: Any) -> Numbers:
    """Return what is read from a fit; nothing where it has nothing of the kind."""
    with suppress(Exception), silenced():
        return reader(fitted)
    return {}


def _read_moved(
    estimator: Any, public: PublicRecords, reader: Reader, table: Floats
) -> Numbers:
    """Return what is read from a fit to moved records of the first database.

    Nothing if they make no sense to the estimator.
    """
    X, y = public.databases[0]
    with suppress(ValueError), np.errstate(all="ignore"):
        moved = frame_like(X, table) if is_frame(X) else table
        return _read(reader, public.fit(estimator, (moved, y)))
    return {}


def _domain_of(public: PublicRecords) -> Domain | None:
    """Return what public records may hold: as declared, or as the table has it."""
    reference = public.reference
    if reference is None or container_of(public.databases[0][0]) == "sparse":
        return None
    if reference.domain is not None:
        return reference.domain
    # Not of records of which each is drawn once.
    return Domain.of(*public.whole) if public.is_resampled else None


def _are_same(values: Floats | None, expected: Floats, unit: Floats) -> bool:
    assert values is not None
    size = np.abs(expected / unit).max()
    return bool((np.abs(values - expected) <= _SAME * size * unit).all())


def _are_within(values: Sequence[Floats], bounds: _Bounds, unit: Floats) -> bool:
    low, high = bounds[0] - _SAME * unit, bounds[1] + _SAME * unit
    return all(bool(((each >= low) & (each <= high)).all()) for each in values)


def _are_among(values: Sequence[Floats], databases: Sequence[Database]) -> bool:
    """Tell if each row of each fit is a mean of the records of its database."""
    return all(
        np.abs(hull.nearest(row) - row).max() <= 0
        for each, database in zip(values, databases, strict=True)
        for hull in [_Hull.of(database[0])]
        for row in each.reshape(-1, each.shape[-1])
    )


def _are_shares(values: Floats) -> bool:
    """Tell if an array has rows of shares of one."""
    several = values.ndim > 0 and values.shape[-1] > 1
    return bool(
        several
        and (values >= 0).all()
        and (np.abs(values.sum(axis=-1) - 1) <= _SUM).all()
    )
