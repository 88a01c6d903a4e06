"""Trees and clusters: cells from public records, their values from released sums."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.queries._base import Floats
from skparisk.queries._leaves import (
    Addend,
    CenterCells,
    CentersQuery,
    ClassAddend,
    LeafQuery,
    Leaves,
    MarginAddend,
    ResidualAddend,
    ResidualsQuery,
    TargetAddend,
    as_tree_input,
    transform_each,
)
from skparisk.reference import Reference, SchemaReference, TableReference
from skparisk.reference._records import n_rows
from skparisk.wrappers._public import PublicRecords, PublicSteps
from skparisk.wrappers._template import known_class

# Targets that vary by less, against the largest, do not vary: their units are that one.
_LEAST_SPREAD = 2.0**-30
# Records that a node weighs in the values of the leaves below it.
_FROM_ABOVE = 1.0
# Where nothing is known of targets: how far the means of leaves are apart, as a share
# of the variance that the schema declares.
_BETWEEN_LEAVES = 0.25
# Least reach of what is left of a target, or from a center, in deviations, and fits
# that leave it.
_REACH, _N_FOLDS = 4.0, 10


def class_shares(
    sums: Floats, deviation: Floats, public: Floats, expected: Floats, n_trees: int
) -> Floats:
    """Return the share of each class in each cell, (n_cells, n_classes).

    Of counts that were released with noise of these standard deviations (all 0: shares
    are those of the counts), and those of `public` records, all 0 if their labels mean
    nothing; each of the same shape. `expected` tells how many private records there are
    in a cell, by public numbers. With as many trees that vote as much less does the
    noise of one matter.
    """
    if not deviation.any():
        total = sums.sum(axis=1, keepdims=True)
        spare = public if public.any() else np.ones_like(public)
        return _shares(np.where(total > 0, sums, spare))
    if not public.any():
        return _shares(np.maximum(sums, 0.0) + 1.0)
    weight = weight_of((deviation**2).sum(axis=1) / n_trees, expected)
    pooled = np.maximum(public + weight[:, None] * sums, 0.0)
    return _shares(np.where(pooled.any(axis=1, keepdims=True), pooled, public))


def weight_of(noise: Floats, signal: Floats) -> Floats:
    """Return how much a record that was summed with noise counts, by variances."""
    return np.asarray(signal / np.where(signal > 0, signal + noise, 1.0))


def votes(margins: Floats) -> Floats:
    """Return which of two classes has more records in each cell, (n_cells, 2).

    A tree has one vote, whatever the margin: large ones are in leaves that hold most
    records, where both classes are.
    """
    second = (1 + np.sign(margins)) / 2
    return np.column_stack([1 - second, second])


def target_means(
    sums: Floats,
    deviation: Floats,
    public: Floats,
    expected: Floats,
    n_trees: int,
    *,
    variance: Floats,
    n_records: float,
) -> Floats:
    """Return the mean of each target in each cell, (n_cells, n_targets).

    Of counts and sums of targets, (n_cells, 1 + n_targets), and else as `class_shares`.
    `variance` is that of public targets within cells, and `n_records` are private.
    """
    count, totals = sums[:, :1], sums[:, 1:]
    known = bool(public.any())
    # Sums over all cells of a tree are sums over all records.
    center = totals.sum(axis=0, keepdims=True) / (n_trees * n_records)
    if known:
        center = public[:, 1:] / public[:, :1]
    if not deviation.any():
        means = totals / np.where(count > 0, count, 1.0)
        return np.where(count > 0, means, center)
    off = totals - center * count
    noise = noise_of_totals(deviation, center, n_trees)
    if known:
        n_private = expected[:, None]
        weight = weight_of(noise, n_private * variance)
        return np.asarray(center + weight * off / (public[:, :1] + weight * n_private))
    n_private = np.maximum(count, 0.0)
    # Of a cell that no sampled pair moved there is neither noise nor a record.
    shrunk = n_private**2 + n_private + noise / _BETWEEN_LEAVES
    share = np.divide(n_private, shrunk, out=np.zeros_like(shrunk), where=shrunk > 0)
    return np.asarray(center + share * off)


def noise_of_totals(deviation: Floats, center: Floats, n_trees: int) -> Floats:
    """Return the variance of the noise of totals, around the center of each cell."""
    noise = deviation[:, 1:] ** 2 + (center * deviation[:, :1]) ** 2
    return np.asarray(noise / n_trees)


def below(shares: Floats, counts: Floats) -> Floats:
    """Return the shares of classes in leaves below cells, from those of the cells.

    In favor of the counts of public records there.
    """
    return _shares(counts + _FROM_ABOVE * shares)


def _shares(counts: Floats) -> Floats:
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


_TREES = (
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
)
_SPLITS = "splits"
# Private records that a cell has at least, as is expected by real public ones.
_FEWEST_EXPECTED = 5.0
# Released numbers: a sample of pairs holds as many for each pair.
_MOST_OUTPUTS = 2**13
# Shares of classes were worth their noise, on two tables of real records, where its
# scale was below this part of all records.
_WORTH_SHARES = 1 / 50
# Parameters that would have leaf values depend on more than sums.
_UNWEIGHTED = ("class_weight", "monotonic_cst")


def find_last(estimator: Any, names: Collection[str]) -> Any:
    """Return an estimator of such a name, or that at the end of a pipeline, or None."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return last if known_class(last) in names else None


def steps_before(fitted: Any) -> Pipeline | None:
    """Return the steps of a fitted pipeline before its last, if there are any."""
    several = isinstance(fitted, Pipeline) and len(fitted) > 1
    return fitted[:-1] if several else None


def check_apart(cells: Leaves | CenterCells, X: Any, model: Any) -> None:
    """Refuse steps before a model that do not transform each record by itself."""
    if not cells.keeps_apart(X):
        raise IncompatibleError(
            f"The steps before {type(model).__name__} must transform each record by "
            "itself, because a record would else move others, but on the reference "
            "they do not: take others, such as a StandardScaler."
        )


def find_trees(estimator: Any) -> Any:
    """Return a tree or forest, as `find_last` does."""
    return find_last(estimator, _TREES)


def make_leaf_query(
    estimator: Any,
    public: PublicRecords,
    labels: PublicClasses | None,
    epsilon: float,
    *,
    bounded: bool,
    paired: bool,
) -> tuple[LeafQuery, TableReference | None]:
    """Return the sums that leaf values follow from, and the rows for pairs.

    Splits are of public records. Numbers are summed as what public trees leave of them,
    unless there is no noise. `bounded` tells if noise is for the proven bound, and
    `paired` if pairs are of public records.
    """
    reference = _check_public(estimator, public)
    guessed = isinstance(reference, SchemaReference) and reference.learning is None
    fitted = public.fit(estimator, public.whole)
    if guessed:
        _grow_at_random(fitted, public)
    before = steps_before(fitted)
    model = find_trees(fitted)
    X, y = public.whole
    n_records = public.n_rows
    if labels is None:
        addend: Addend = _find_target_addend(y, reference, public.most_rows)
    else:
        addend, y = ClassAddend(labels.numbers), labels.encode(y, "y_reference")
    trees, added = _trees_of(model), addend(y)
    records = as_tree_input(transform_each(before, X))
    known = [tree.decision_path(records).T @ added for tree in trees]
    share = n_records / n_rows(X)
    expected = [share * _count(addend, own) for own in known]
    fewest = 0.0 if guessed else _FEWEST_EXPECTED
    cells, n_cells = _cut(trees, expected, fewest, addend.n_columns)
    leaves = Leaves(model, cells, n_cells, before)
    check_apart(leaves, X, model)

    known_in_cells = LeafQuery(leaves, addend, 0)(X, y).reshape(n_cells, -1)
    # Through much noise nothing is seen but which class has more records in a leaf.
    loud = bounded and 2 * len(trees) / epsilon > _WORTH_SHARES * n_records
    if guessed and loud and isinstance(addend, ClassAddend) and addend.n_columns == 2:
        addend = MarginAddend(addend.classes)
    supervised = (_SPLITS,) if public.table is not None and not guessed else ()
    public_steps = PublicSteps(
        (*getattr(before, "named_steps", ()), _SPLITS), supervised
    )
    if isinstance(addend, TargetAddend) and math.isfinite(epsilon) and not guessed:
        table = public.table if paired else None
        return _leave_residuals(estimator, public, fitted, leaves, public_steps, table)
    shown = None if labels is None else labels.labels
    query = LeafQuery(leaves, addend, estimator, shown)
    template = LeafTemplate(
        fitted,
        addend,
        n_records,
        leaves=leaves,
        in_nodes=tuple(known),
        in_cells=known_in_cells,
        share=0.0 if guessed else share,
        squares=(added**2).sum(axis=0),
    )
    return replace(query, template=template, public_steps=public_steps), None


def _leave_residuals(
    estimator: Any,
    public: PublicRecords,
    fitted: Any,
    leaves: Leaves,
    public_steps: PublicSteps,
    table: TableReference | None,
) -> tuple[ResidualsQuery, TableReference | None]:
    """Return sums of what public trees leave of targets, and the rows for pairs.

    Trees leave less of their own rows: these have targets of which they leave what
    trees of the other rows do.
    """
    X, y = public.whole
    pool, given = public.pool, np.asarray(y, dtype=np.float64)
    targets, n_known = given.reshape(n_rows(X), -1), n_rows(X)
    told, mixed = np.empty_like(targets), np.arange(pool.n_records)
    mixed = np.random.default_rng(0).permutation(mixed)  # of people
    for held in np.array_split(mixed, min(_N_FOLDS, len(mixed))):
        grown = public.fit(estimator, pool.take(np.setdiff1d(mixed, held)))
        found = grown.predict(pool.take(held)[0])
        told[pool.rows(held)] = np.reshape(found, (-1, targets.shape[1]))
    # Trees say too much of targets that they hardly know.
    center, most = targets.mean(axis=0), np.abs(targets).max(axis=0)
    most = np.where(most > 0, most, 1.0)
    off, known = (targets - center) / most, (told - center) / most
    slope = (off * known).sum(axis=0) / np.maximum((known**2).sum(axis=0), 2.0**-1000)
    slope = slope.clip(0.0, 1.0)
    for tree in _trees_of(leaves.trees):
        tree.value[...] = (center + slope * (tree.value[..., 0] - center))[..., None]
    predicted = leaves.predict(X)
    left = targets - center - slope * (told - center)
    size = np.abs(left).max(axis=0)
    size = np.where(size > _LEAST_SPREAD * most, size, most)
    unit = size * np.sqrt(((left / size) ** 2).mean(axis=0))
    unit = np.where(unit > _LEAST_SPREAD * size, unit, size)
    reach = np.maximum(size, _REACH * unit)
    addend = ResidualAddend(-reach, reach, 0 * unit, unit, public.most_rows)
    if table is not None:
        table = table._cross_fitted((predicted + left).reshape(given.shape))
    counts = np.bincount(leaves.of(X).ravel(), minlength=leaves.n_cells)
    in_cells = np.column_stack([counts, np.zeros((leaves.n_cells, len(unit)))])
    template = ResidualsTemplate(
        fitted,
        addend,
        public.n_rows,
        leaves=leaves,
        in_cells=in_cells,
        share=public.n_rows / n_known,
        squares=np.full(1 + len(unit), float(n_known)),  # of 1 each, in units
    )
    query = ResidualsQuery(
        leaves,
        addend,
        estimator,
        template=template,
        public_steps=public_steps,
        cross_fitted=table is not None,
    )
    return query, table


def _find_target_addend(y: Any, reference: Reference, n_records: int) -> TargetAddend:
    """Return what targets add, in the range of the reference, and in its units."""
    targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    low, high = targets.min(axis=0), targets.max(axis=0)
    domain = reference.domain
    if domain is not None and domain.target_box is not None:
        low, high = domain.target_box
    # Their squares, and what they add up to, may be beyond all numbers.
    size = np.maximum(np.abs(low), np.abs(high))
    size = np.where(size > 0, size, 1.0)
    shares = targets / size
    center, unit = size * shares.mean(axis=0), size * shares.std(axis=0)
    if isinstance(reference, SchemaReference) and reference.learning is None:
        center = low / 2 + high / 2
    unit = np.where(unit > _LEAST_SPREAD * size, unit, size)
    return TargetAddend(low, high, center, unit, n_records)


@dataclass(frozen=True, eq=False)
class LeafTemplate:
    """A fit to public records, whose leaf values are given by released sums."""

    # Numbers that methods would need besides: none.
    needs: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

    # With what is of public records.
    fitted: Any
    # What was summed.
    addend: Addend
    # Private records.
    n_records: float
    # The cells that sums were released of.
    leaves: Any
    # Shape (n_cells, n_columns). The same sums of public records, for each cell; for
    # margins counts of both classes.
    in_cells: Floats
    # Private records for each public one; 0 if targets of the latter are simulated, and
    # mean nothing.
    share: float
    # Shape (n_columns,). Sums of squares of what public records add.
    squares: Floats
    # Shape (n_nodes, n_columns). As `in_cells`, for each node of trees that classify.
    in_nodes: tuple[Floats, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Where leaf values are."""
        if hasattr(self.leaves.trees, "tree_"):
            return (self._inside("tree_.value"),)
        return tuple(
            self._inside(f"estimators_.{tree}.tree_.value")
            for tree in range(self.leaves.n_trees)
        )

    def _inside(self, name: str) -> str:
        """Return where an attribute is, of a fit that may be a pipeline's last step."""
        if isinstance(self.fitted, Pipeline):
            return f"steps.{self.fitted.steps[-1][0]}.{name}"
        return name

    def serve(self, answer: Floats, deviation: Floats) -> Any:
        """Return a copy with leaf values from sums with noise of these deviations."""
        values = self._values(answer, deviation)[:, None]
        if isinstance(self.addend, TargetAddend):  # of one or more targets each
            values = self.addend.as_targets(values[:, 0])[:, :, None]
        classifies = isinstance(self.addend, ClassAddend)
        pool = classifies and bool(self.share) and bool(deviation.any())
        served = copy.deepcopy(self.fitted)
        for tree, cells, known in zip(
            _trees_of(find_trees(served)), self.leaves.cells, self.in_nodes, strict=True
        ):
            is_leaf = cells >= 0
            own = cells[is_leaf]
            found = values[own]
            if pool:  # leaves that share a cell keep some of what is public there
                parts = np.bincount(own)[own] > 1
                found[parts, 0] = below(found[parts, 0], known[is_leaf][parts])
            tree.value[is_leaf] = found
        return served

    def private_weight(self, deviation: Floats) -> float:
        """Return the share of leaf values that is private, with noise on all sums.

        `deviation` is that of each released number, or of all. The share is a mean over
        private records, by public numbers; 1 where no public ones are pooled with them.
        """
        pools = not isinstance(self.addend, MarginAddend) and deviation.any()
        if not (self.share and pools):
            return 1.0
        deviation, n_trees = self._by_cell(deviation), self.leaves.n_trees
        public = _count(self.addend, self.in_cells)
        expected = self.share * public
        if isinstance(self.addend, ClassAddend):
            weight = weight_of((deviation**2).sum(axis=1) / n_trees, expected)
        else:
            center = self.in_cells[:, 1:] / public[:, None]
            noise = noise_of_totals(deviation, center, n_trees)
            weight = weight_of(noise, expected[:, None] * self._variance).mean(axis=1)
        told = weight * expected
        return float(np.average(told / (public + told), weights=expected))

    def _by_cell(self, numbers: Floats) -> Floats:
        """Return numbers, or one for all, by cell; beside a count of 0 if need be."""
        n_cells, n_columns = self.in_cells.shape
        shape = n_cells, self.addend.n_columns
        sums = np.broadcast_to(numbers, math.prod(shape)).reshape(shape)
        return np.pad(sums, ((0, 0), (n_columns - shape[1], 0)))

    @property
    def _variance(self) -> Floats:
        """Variance of public targets within cells."""
        counts, totals = self.in_cells[:, :1], self.in_cells[:, 1:]
        n_trees = self.leaves.n_trees
        within = self.squares[1:] - (totals**2 / counts).sum(axis=0) / n_trees
        return np.asarray(np.maximum(within, 0.0) / self.squares[0])

    def _values(self, answer: Floats, noise: Floats) -> Floats:
        """Return the value of each cell: shares of classes, or means of targets."""
        sums, deviation = self._by_cell(answer), self._by_cell(noise)
        known = self.in_cells * bool(self.share)
        expected = self.share * _count(self.addend, self.in_cells)
        n_trees = self.leaves.n_trees
        if isinstance(self.addend, MarginAddend):
            return votes(sums[:, -1])
        if isinstance(self.addend, ClassAddend):
            return class_shares(sums, deviation, known, expected, n_trees)
        return target_means(
            sums,
            deviation,
            known,
            expected,
            n_trees,
            variance=self._variance,
            n_records=self.n_records,
        )


@dataclass(frozen=True, eq=False)
class ResidualsTemplate(LeafTemplate):
    """A fit to public records, to whose leaves is added what private ones leave."""

    def serve(self, answer: Floats, deviation: Floats) -> Any:
        """Return a copy with leaf values corrected by sums with such noise."""
        assert isinstance(self.addend, ResidualAddend)
        moved = self.addend.unit * self._values(answer, deviation)
        served = copy.deepcopy(self.fitted)
        trees = _trees_of(find_trees(served))
        for tree, cells in zip(trees, self.leaves.cells, strict=True):
            tree.value[cells >= 0, :, 0] += moved[cells[cells >= 0]]
        return served


def _trees_of(model: Any) -> list[Any]:
    """Return the trees of a fitted tree or forest."""
    if hasattr(model, "tree_"):
        return [model.tree_]
    return [each.tree_ for each in model.estimators_]


def _count(addend: Addend, sums: Floats) -> Floats:
    """Return how many records there are, by sums over them."""
    counts = sums[:, :1] if isinstance(addend, TargetAddend) else sums
    return np.asarray(counts.sum(axis=1))


def _parents(tree: Any) -> NDArray[np.intp]:
    """Return the parent of each node; that of the root is the root."""
    parents = np.zeros(tree.node_count, dtype=np.intp)
    split = np.flatnonzero(tree.children_left >= 0)
    for children in (tree.children_left, tree.children_right):
        parents[children[split]] = split
    return parents


def _least_below(tree: Any, expected: Floats) -> Floats:
    """Return, for each node, what the parts have that it is split into, at least.

    Neither that split nor one above it leaves less to a child; 0 for leaves.
    """
    left, right = tree.children_left, tree.children_right
    parts = np.where(left < 0, 0.0, np.minimum(expected[left], expected[right]))
    least = parts
    above = parents = _parents(tree)
    while above.any():
        least, above = np.minimum(least, parts[above]), parents[above]
    return np.minimum(least, parts[0])


def _cut(
    trees: Sequence[Any], expected: Sequence[Floats], fewest: float, n_columns: int
) -> tuple[tuple[NDArray[np.intp], ...], int]:
    """Return the cells of leaves, -1 of others, and how many: all with enough rows."""
    least = [_least_below(tree, own) for tree, own in zip(trees, expected, strict=True)]
    ranked = np.sort(np.concatenate(least))[::-1]
    # A tree has one cell more than splits.
    most = max(_MOST_OUTPUTS // n_columns - len(trees), 0)
    beyond = ranked[most] if most < len(ranked) else 0.0
    cells, n_cells = [], 0
    for tree, own in zip(trees, least, strict=True):
        is_split, parents = (own >= fewest) & (own > beyond), _parents(tree)
        tops = np.flatnonzero(tree.children_left < 0)  # of what each leaf is part of
        while (rises := ~is_split[parents[tops]] & (tops > 0)).any():
            tops = np.where(rises, parents[tops], tops)
        found, numbers = np.unique(tops, return_inverse=True)
        cells.append(np.full(tree.node_count, -1))
        cells[-1][tree.children_left < 0] = numbers + n_cells
        n_cells += len(found)
    return tuple(cells), n_cells


def _check_public(estimator: Any, public: PublicRecords) -> Reference:
    """Return the reference that splits are from, or say why there can be none."""
    model, reference = find_trees(estimator), public.reference
    kind = type(model).__name__
    for name in _UNWEIGHTED:
        if (given := getattr(model, name, None)) is not None:
            raise ValueError(
                f"{name} of {kind} must be None, because leaf values are computed from "
                f"released sums over records, each of which counts once; got {given!r}."
            )
    if reference is None:
        raise IncompatibleError(
            f"The splits of {kind} are no numbers that noise could be added to: give "
            "X_reference, public records or a SchemaReference, to take them from. Only "
            "leaf values are then released."
        )
    return reference


def _grow_at_random(fitted: Any, public: PublicRecords) -> None:
    """Grow trees anew, with splits at random, as targets mean nothing."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    grown = find_trees(fitted)
    extra, name = clone(grown), "tree_"
    if not hasattr(grown, name):
        name = "estimators_"
        classifies = is_classifier(grown)
        extra = ExtraTreesClassifier() if classifies else ExtraTreesRegressor()
    given = grown.get_params(deep=False)
    other = {"max_features": 1, "splitter": "random", "bootstrap": False}
    other |= {"max_samples": None, "oob_score": False}
    extra.set_params(**given | {key: other[key] for key in other.keys() & given})
    X, y = public.whole
    if (before := steps_before(fitted)) is not None:
        X = before.transform(X)
    setattr(grown, name, getattr(public.fit(extra, (X, y)), name))


# Clusters: one step of Lloyd's algorithm, from public centers to private means

_CENTERS = "centers"


def find_centers(estimator: Any) -> Any:
    """Return an estimator of cluster centers, as `find_last` does."""
    return find_last(estimator, ("KMeans", "MiniBatchKMeans"))


def make_centers_query(
    estimator: Any, public: PublicRecords, *, paired: bool
) -> tuple[CentersQuery, TableReference | None]:
    """Return sums over the records of each public cluster, and the rows for pairs.

    Rows lie closer to centers that were fitted to them than others do. Where pairs are
    drawn from a table, half of it makes the centers, and pairs are of the other half.
    """
    model = find_centers(estimator)
    if public.reference is None:
        raise IncompatibleError(
            f"{type(model).__name__} starts from public centers: give X_reference, "
            "public records or a SchemaReference."
        )
    every, apart = public.whole[0], None
    made_of = every
    if paired and public.table is not None:
        half, apart = public.table._split_off(None)
        made_of, _ = public.pool.take(half)
    fitted = public.fit(estimator, (made_of, None))
    before = steps_before(fitted)
    cells = CenterCells.of_public(find_centers(fitted).cluster_centers_, every, before)
    check_apart(cells, every, model)
    places, around = cells.place(every)
    if len(np.unique(places)) < cells.n_cells:
        raise ValueError(
            f"n_clusters must be at most the number of different public records, got "
            f"{cells.n_cells}."
        )
    # Degrees of freedom: each center is fitted to its records.
    left = max(1, len(around) - cells.n_cells)
    unit = np.sqrt((around**2).sum(axis=0) / left)
    reach = np.maximum(np.abs(around).max(axis=0), _REACH * unit)
    unit = np.where(unit > 2.0**-20 * reach, unit, np.where(reach > 0, reach, 1.0))
    middle = np.zeros(len(unit))
    addend = TargetAddend(-reach, reach, middle, unit, public.most_rows)
    added, in_cells = addend(around), np.zeros((cells.n_cells, addend.n_columns))
    np.add.at(in_cells, places[:, 0], added)  # exact in any order
    template = CentersTemplate(
        fitted,
        addend,
        public.n_rows,
        leaves=cells,
        in_cells=in_cells,
        share=public.n_rows / n_rows(every) if public.table is not None else 0.0,
        squares=(added**2).sum(axis=0),
    )
    told = PublicSteps((*getattr(before, "named_steps", ()), _CENTERS))
    query = CentersQuery(cells, addend, estimator, template=template, public_steps=told)
    return query, apart


@dataclass(frozen=True, eq=False)
class CentersTemplate(LeafTemplate):
    """A fit to public records, whose centers are moved by means of released sums."""

    @property
    def places(self) -> tuple[str, ...]:
        """Where centers are."""
        return (self._inside("cluster_centers_"),)

    def serve(self, answer: Floats, deviation: Floats) -> Any:
        """Return a copy with centers from sums with noise of these deviations."""
        assert isinstance(self.addend, TargetAddend)
        moved = self.addend.as_targets(self._values(answer, deviation))
        served = copy.deepcopy(self.fitted)
        model = find_centers(served)
        centers, cells = model.cluster_centers_ + moved, self.leaves
        model.cluster_centers_ = np.clip(centers, cells.low, cells.high)
        vars(model).pop("labels_", None)  # of public records, by other centers
        return served
