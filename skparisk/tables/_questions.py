"""What is asked of a table, checked against what is declared of its columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from skparisk.core.checks import check_at_least, check_positive
from skparisk.queries._cells import WEIGHT_BITS, Bins, CellsQuery, CellSums, Kinds
from skparisk.reference import SchemaReference
from skparisk.reference._columns import Categories, Column, Interval

Group: TypeAlias = tuple[str, ...]

_MOST_OUTPUTS = 2**20
_HOW = (
    "a column, a tuple of columns for their cross table, () for all records, or a list "
    "of these"
)


def find_query(
    schema: Any, counts: Any, means: Any, bins: Any, shares: Any, relation: str
) -> CellsQuery:
    """Return the sums from which all that is asked for follows."""
    declared = _declared(schema)
    asked: dict[frozenset[str], tuple[Group, list[str]]] = {}
    given = {} if means is None else means
    if not isinstance(given, Mapping):
        raise ValueError(f"means must map columns to {_HOW}; got {means!r}.")
    wanted = [] if counts is None else as_groups(counts, "counts")
    for group in wanted:
        asked.setdefault(frozenset(group), (group, []))
    for value, by in given.items():
        for group in as_groups(by, f"means[{value!r}]"):
            values = asked.setdefault(frozenset(group), (group, []))[1]
            if value in values:
                raise ValueError(f"means[{value!r}] must not have {group} twice.")
            values.append(value)
    public = relation == "replace-one"
    questions = [
        _question(declared, group, values, bins, counted=bool(group) or not public)
        for group, values in asked.values()
        if group or values or not public
    ]
    if not questions:
        raise ValueError(
            "counts or means must ask for something that is not public; got "
            f"counts={counts!r}, means={means!r} with relation={relation!r}."
        )
    n_outputs = sum(each.n_outputs for each in questions)
    if n_outputs > _MOST_OUTPUTS:
        raise ValueError(
            f"counts and means must ask for at most 2**20 numbers, got {n_outputs}: "
            "take fewer columns for a cross table, or fewer bins."
        )
    if shares is not None:
        questions = _weighted(questions, shares, relation)
    return CellsQuery(tuple(questions))


def as_groups(given: Any, name: str) -> list[Group]:
    """Return groups of columns, each a tuple of names."""
    listed = given if isinstance(given, list) else [given]
    return [check_group(group, name) for group in listed]


def check_group(given: Any, name: str) -> Group:
    """Return one group of columns."""
    group = (given,) if isinstance(given, str) else given
    names = isinstance(group, tuple) and all(isinstance(each, str) for each in group)
    if not names or len({*group}) < len(group):
        raise ValueError(f"{name} must be {_HOW}; got {given!r}.")
    return tuple(group)


def _declared(schema: Any) -> dict[str, Column]:
    """Return what columns may hold, by name."""
    if not isinstance(schema, SchemaReference):
        if not isinstance(schema, Mapping):
            raise ValueError(
                "schema must be a SchemaReference, or map columns to what they hold, "
                f"such as {{'age': (18, 90), 'sex': ['f', 'm']}}; got {schema!r}."
            )
        schema = SchemaReference(schema)
    declared: dict[str, Column] = schema.declared
    if not declared:
        raise ValueError("schema must have names of columns, got none.")
    return declared


def _column(declared: Mapping[str, Column], name: Any, where: str) -> Column:
    """Return what a column holds, if that was declared."""
    column = declared.get(name)
    if column is None:
        known = [each for each, held in declared.items() if held is not None]
        raise ValueError(
            f"{where} must name columns with declared ranges or categories, {known}; "
            f"got {name!r}."
        )
    return column


def _question(
    declared: Mapping[str, Column],
    group: Group,
    values: Sequence[str],
    bins: Any,
    *,
    counted: bool,
) -> CellSums:
    """Return counts and sums over the cells of some columns."""
    cells = [
        _cells(_column(declared, name, "counts and means"), name, bins)
        for name in group
    ]
    ranges = []
    for value in values:
        column = _column(declared, value, "means")
        if not isinstance(column, Interval):
            raise ValueError(
                "means must be of columns of numbers, declared as a range (low, high); "
                f"got {value!r}, which has categories: count them."
            )
        ranges.append(column)
    return CellSums(group, tuple(cells), tuple(values), tuple(ranges), counted)


def _cells(column: Column, name: str, bins: Any) -> Kinds | Bins:
    """Return the cells of one column."""
    if isinstance(column, Categories):
        return Kinds(tuple(column.present))
    assert column is not None
    asked = bins.get(name, 10) if isinstance(bins, Mapping) else bins
    what = f"bins[{name!r}]" if isinstance(bins, Mapping) else "bins"
    if isinstance(asked, Sequence | np.ndarray) and not isinstance(asked, str):
        edges = np.asarray(asked, dtype=np.float64)
    else:
        n_bins = check_at_least(asked, what, 1)
        # Of halves: the width may be beyond all numbers.
        edges = 2 * np.linspace(column.low / 2, column.high / 2, n_bins + 1)
    right = edges.ndim == 1 and edges.size > 1 and np.isfinite(edges).all()
    if not right or not (edges[1:] > edges[:-1]).all():
        raise ValueError(
            f"{what} must be a number of bins of a range that is no point, or finite "
            f"increasing edges, at least two; got {asked!r} for the range "
            f"({column.low}, {column.high})."
        )
    return Bins(tuple(edges.tolist()))


def _weighted(
    questions: Sequence[CellSums], shares: Any, relation: str
) -> list[CellSums]:
    """Return questions with weights that split the level as declared, or nearly so."""
    groups = [each.by for each in questions]
    if not isinstance(shares, Mapping):
        raise ValueError(f"shares must map groups to numbers, got {shares!r}.")
    given = {
        frozenset(check_group(group, "shares")): check_positive(share, "shares")
        for group, share in shares.items()
    }
    if {*given} != {frozenset(group) for group in groups}:
        raise ValueError(
            f"shares must have each group that is asked for, and no other: {groups}; "
            f"got {list(shares)}."
        )
    raw = [given[frozenset(each.by)] / each.bound(relation) for each in questions]
    return [
        dataclasses.replace(each, weight=_few_bits(weight / max(raw)))
        for each, weight in zip(questions, raw, strict=True)
    ]


def _few_bits(weight: float) -> float:
    """Return a weight in (0, 1] of few bits, so that weighted sums are exact."""
    mantissa, exponent = math.frexp(max(weight, 2.0**-40))
    return math.ldexp(round(math.ldexp(mantissa, WEIGHT_BITS)), exponent - WEIGHT_BITS)
