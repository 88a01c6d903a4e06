"""Sums over the cells that records are in: leaves of public trees, or clusters."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skparisk.core.checks import check_relation
from skparisk.core.sealed import Records, take_rows
from skparisk.queries._base import Floats
from skparisk.queries._estimator import LearnedQuery
from skparisk.queries._labels import label_codes
from skparisk.queries._linear import predict_linear
from skparisk.queries._sums import SumQuery, sparse_rows
from skparisk.reference._records import concatenate, n_rows

# Doubles hold whole numbers to 2**53: sums of so many bits less are exact.
_BITS = 51
# What trees take.
_LARGEST = float(np.finfo(np.float32).max)

# Steps before, which see one record at a time

# Fitted, they work on each value or on each row, without a product of matrices.
_ROW_WISE = {
    "Binarizer",
    "CountVectorizer",
    "DictVectorizer",
    "FeatureHasher",
    "HashingVectorizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MissingIndicator",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PolynomialFeatures",
    "QuantileTransformer",
    "RobustScaler",
    "SelectFromModel",
    "SelectKBest",
    "SelectPercentile",
    "SimpleImputer",
    "SplineTransformer",
    "StandardScaler",
    "TargetEncoder",
    "TfidfTransformer",
    "TfidfVectorizer",
    "VarianceThreshold",
}


def is_row_wise(step: Any) -> bool:
    """Tell if a fitted step is known to transform each record by itself."""
    kind = type(step)
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return True
    if kind is Pipeline:
        return all(is_row_wise(part) for _, part in step.steps)
    if kind is FeatureUnion:
        return all(is_row_wise(part) for _, part in step.transformer_list)
    if kind is ColumnTransformer:
        return all(is_row_wise(part) for _, part, _ in step.transformers_)
    if kind is FrozenEstimator:
        return is_row_wise(step.estimator)
    package = kind.__module__.partition(".")[0]
    if kind.__name__ == "FunctionTransformer" and package == "sklearn":
        return step.func is None
    return package == "sklearn" and kind.__name__ in _ROW_WISE


def transform_each(step: Any, X: Records) -> Records:
    """Return what a fitted step makes of records one by one, a row for each."""
    if type(step) is FrozenEstimator:
        return transform_each(step.estimator, X)
    if type(step) is Pipeline:
        for _, part in step.steps:
            X = transform_each(part, X)
        return X
    if step is None or step == "passthrough":
        return X
    if is_row_wise(step):
        return _with_rows(step.transform(X), n_rows(X))
    ours = type(step).__module__.startswith("sklearn.decomposition.")
    projects = type(step).__name__ in ("IncrementalPCA", "PCA", "TruncatedSVD")
    plain = ours and projects and not getattr(step, "whiten", False)
    if plain and not issparse(X):
        # Column by column: a product of matrices may round a row by its place.
        numbers = as_numbers(X) - getattr(step, "mean_", 0.0)
        return predict_linear(step.components_.ravel(), numbers, len(step.components_))
    # A copy, because a step may count what it was given.
    return concatenate(
        [
            _with_rows(copy.deepcopy(step).transform(take_rows(X, [row])), 1)
            for row in range(n_rows(X))
        ]
    )


def _with_rows(records: Records, n: int) -> Records:
    """Return records, of which there must be so many: a record counts once."""
    shape = np.shape(records)
    if len(shape) != 2 or shape[0] != n:
        raise ValueError(
            f"A step must return one row for each of {n} records, got shape {shape}."
        )
    return records


def _is_alike(find: Callable[[Any], Any], step: Any, X: Records, rtol: float) -> bool:
    """Tell if a step makes the same of public records together as one by one."""
    apart = find(transform_each(step, X))
    if is_row_wise(step):
        return True
    together = find(copy.deepcopy(step).transform(X))
    return np.allclose(together, apart, rtol=rtol, equal_nan=True)


def _answer_each(
    answer: Callable[[Records], Any], X: Records, spare: Callable[[], Any]
) -> Any:
    """Return a row for each record; a spare one where steps refuse: that would tell."""
    try:
        return answer(X)
    except Exception:  # of some record: each half is asked by itself
        n_records = n_rows(X)
        if n_records == 1:
            return spare()
        halves = slice(n_records // 2), slice(n_records // 2, None)
        return np.concatenate(
            [_answer_each(answer, take_rows(X, half), spare) for half in halves]
        )


def as_numbers(records: Any) -> Floats:
    """Return a table of numbers, such as a sparse matrix or a frame, as an array."""
    dense = records.toarray() if issparse(records) else records
    return np.asarray(dense, dtype=np.float64)


# What records add


def _on_grid(numbers: Floats, n_records: int, largest: float) -> Floats:
    """Round numbers to steps, tiny powers of 2, that sums of so many are exact on."""
    steps = math.ldexp(1.0, _BITS - math.ceil(math.log2(n_records * largest)))
    return np.asarray(np.round(numbers * steps) / steps)


# What a record adds to a cell: so much to a count, and numbers between two ends.
_Ends: TypeAlias = tuple[float, Floats, Floats]


@dataclass(frozen=True)
class ClassAddend:
    """One, in the column of the record's class."""

    classes: tuple[float, ...]

    @property
    def n_columns(self) -> int:
        return len(self.classes)

    def __call__(self, y: Any) -> Floats:
        return np.eye(self.n_columns)[label_codes(y, self.classes)]

    @property
    def ends(self) -> _Ends:
        """One to a count: another class has another count, as another cell has."""
        return 1.0, np.zeros(0), np.zeros(0)


@dataclass(frozen=True)
class MarginAddend:
    """One for the second of two classes, and minus one for the first.

    A count of each class would have the same sensitivity, and noise twice: in the
    difference, which is all that decides, it is larger by a factor of the root of 2.
    """

    classes: tuple[float, ...]

    n_columns = 1

    def __call__(self, y: Any) -> Floats:
        return np.asarray(2.0 * label_codes(y, self.classes)[:, None] - 1.0)

    @property
    def ends(self) -> _Ends:
        return 0.0, -np.ones(1), np.ones(1)


@dataclass(frozen=True, eq=False)
class TargetAddend:
    """One, and the targets: clipped, centered, and in public units.

    Parameters
    ----------
    low, high : ndarray of shape (n_targets,)
        What targets are clipped to.

    center, unit : ndarray of shape (n_targets,)
        Shift, and divisor after it.

    n_records : int
        Of a database: its sums are exact, whatever the order.
    """

    low: Floats
    high: Floats
    center: Floats
    unit: Floats
    n_records: int

    @property
    def n_columns(self) -> int:
        return 1 + len(self.low)

    def _add(self, y: Floats) -> Floats:
        """Return what targets add."""
        # Divided first: differences of very large numbers may be beyond any.
        low, high, y = (each / self.unit for each in (self.low, self.high, y))
        center = self.center / self.unit
        reach = np.maximum(high - center, center - low).max()
        return _on_grid(y - center, self.n_records, max(1.0, reach))

    def __call__(self, y: Any) -> Floats:
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if targets.shape[1] != len(self.low) or np.isnan(targets).any():
            raise ValueError(
                f"Targets must be numbers in {len(self.low)} column(s), got shape "
                f"{targets.shape}."
            )
        clipped = np.clip(targets, self.low, self.high)
        return np.column_stack([np.ones(len(targets)), self._add(clipped)])

    def as_targets(self, values: Floats) -> Floats:
        """Return targets, in their range, from numbers in the units of the sums."""
        with np.errstate(over="ignore"):  # what is beyond all numbers is clipped
            return np.clip(self.center + self.unit * values, self.low, self.high)

    @property
    def ends(self) -> _Ends:
        return 1.0, self._add(self.low), self._add(self.high)


@dataclass(frozen=True, eq=False)
class ResidualAddend(TargetAddend):
    """What a public fit leaves of targets, and no count: its sums are 0 in public."""

    @property
    def n_columns(self) -> int:
        return len(self.low)

    def __call__(self, y: Any) -> Floats:
        return super().__call__(y)[:, 1:]

    @property
    def ends(self) -> _Ends:
        return 0.0, *super().ends[1:]


Addend: TypeAlias = ClassAddend | MarginAddend | TargetAddend

# Where they add it: one cell of each tree


def as_tree_input(records: Any) -> Any:
    """Return float32, clipped, as trees refuse larger numbers, which would tell."""
    if not issparse(records):
        numbers = np.asarray(records, dtype=np.float64)
        return np.clip(numbers, -_LARGEST, _LARGEST).astype(np.float32, order="C")
    numbers = csr_matrix(records, dtype=np.float64, copy=True)
    numbers.data = np.clip(numbers.data, -_LARGEST, _LARGEST)
    return numbers.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Leaves:
    """Cells of the trees in a fit to public records.

    Parameters
    ----------
    trees : estimator
        A fitted tree or forest of scikit-learn.

    cells : sequence of ndarray of shape (n_nodes,)
        For each tree, the cell of each of its nodes: cells are leaves, or nodes with
        everything below. Each tree has numbers of its own.

    n_cells : int
        Cells of all trees.

    before : estimator, default=None
        The fitted steps that records go through before, each by itself.
    """

    trees: Any
    cells: tuple[NDArray[np.intp], ...]
    n_cells: int
    before: Any = None

    @property
    def n_trees(self) -> int:
        """Number of cells of each record."""
        return len(self.cells)

    def of(self, X: Any) -> NDArray[np.intp]:
        """Return the cell of each record in each tree, (n_records, n_trees).

        A record that a step before the trees refuses is in the first cell.
        """
        first = [[cells[cells >= 0].min() for cells in self.cells]]
        found = _answer_each(self._of_all, X, lambda: np.array(first))
        return np.asarray(found, dtype=np.intp)

    def keeps_apart(self, X: Any) -> bool:
        """Tell if records are in the same leaves if steps see all of them at once."""
        return _is_alike(self._nodes, self.before, X, 0.0)

    def predict(self, X: Any) -> Floats:
        """Return predictions of trees, (n_records, n_targets); 0 for a refused one."""
        trees = getattr(self.trees, "estimators_", [self.trees])

        def each(X: Any) -> Floats:
            numbers = as_tree_input(transform_each(self.before, X))
            total = sum(tree.predict(numbers, check_input=False) for tree in trees)
            return np.reshape(total / len(trees), (n_rows(X), -1))

        nothing = np.zeros((1, trees[0].n_outputs_))
        return np.asarray(_answer_each(each, X, lambda: nothing))

    def _of_all(self, X: Any) -> NDArray[np.intp]:
        """Return the cells of records, none of which is refused."""
        nodes = self._nodes(transform_each(self.before, X))
        each = zip(self.cells, nodes.T, strict=True)
        return np.column_stack([cells[found] for cells, found in each])

    def _nodes(self, records: Any) -> NDArray[np.intp]:
        """Return the leaf of each transformed record in each tree."""
        numbers = as_tree_input(records)
        trees = getattr(self.trees, "estimators_", [self.trees])
        found = [tree.apply(numbers, check_input=False) for tree in trees]
        return np.column_stack(found)


@dataclass(frozen=True, eq=False)
class CenterCells:
    """One cell for each public center: the records that are nearest to it.

    Parameters
    ----------
    centers : ndarray of shape (n_cells, n_features)
        The centers.

    low, high : ndarray of shape (n_features,)
        What features are clipped to, after the steps before.

    before : estimator, default=None
        The fitted steps that records go through before, each by itself.
    """

    centers: Floats
    low: Floats
    high: Floats
    before: Any = None

    n_trees = 1

    @classmethod
    def of_public(cls, centers: Floats, X: Any, before: Any) -> CenterCells:
        """Return the cells of centers, with three times the range of public records."""
        numbers = as_numbers(transform_each(before, X))
        low, high = numbers.min(axis=0), numbers.max(axis=0)
        return cls(centers, 2 * low - high, 2 * high - low, before)

    @property
    def n_cells(self) -> int:
        return len(self.centers)

    def keeps_apart(self, X: Any) -> bool:
        """Tell if steps make the same of records that they see all at once."""
        return _is_alike(as_numbers, self.before, X, 2.0**-20)

    def place(self, X: Any) -> tuple[NDArray[np.intp], Floats]:
        """Return cells, and places from centers; refused records are at the first."""
        numbers = _answer_each(self._numbers, X, lambda: self.centers[:1])
        # Sums over columns depend on the order in memory, and so on who was refused.
        numbers = np.ascontiguousarray(numbers)
        # Center by center, and not by a product of matrices, whose rounding depends on
        # how many records there are.
        squares = [((numbers - center) ** 2).sum(axis=1) for center in self.centers]
        cells = np.argmin(squares, axis=0)
        return cells[:, None], numbers - self.centers[cells]

    def _numbers(self, X: Any) -> Floats:
        numbers = as_numbers(transform_each(self.before, X))
        if numbers.shape[1] != len(self.low):
            raise ValueError(f"There must be {len(self.low)} columns.")
        clipped = numbers.clip(self.low, self.high)
        return np.where(np.isnan(clipped), self.low / 2 + self.high / 2, clipped)


@dataclass(frozen=True, eq=False)
class LeafQuery(LearnedQuery, SumQuery):
    """Sums over the records in each cell of trees with public splits.

    Parameters
    ----------
    leaves : Leaves
        The cells.

    addend : ClassAddend or TargetAddend
        Terms of the sums: counts of classes, or a count and sums of targets.

    asked : estimator
        The estimator whose leaf values follow from the sums. Queries are equal if they
        are for equal estimators, whatever splits these have.

    labels : ndarray of shape (n_classes,), default=None
        For classifiers: the labels of the classes.

    template : object, default=None
        Model to put the released sums into. It knows nothing of private records.

    public_steps : object, default=None
        Names of all steps fitted on public records.

    Notes
    -----
    **Guarantee** (:ref:`thm-leaves`). Differences of pairs, and the largest of any
    neighbors, are exact: sums are of whole grid steps, and steps before the trees see
    one record at a time, unless they are known to treat each by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skparisk.queries import ClassAddend, LeafQuery, Leaves
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> tree = DecisionTreeClassifier().fit(X, y)
    >>> leaves = Leaves(tree, (np.array([0, 0, 1]),), 2)
    >>> LeafQuery(leaves, ClassAddend((0.0, 1.0)), tree)(X, y)
    array([1., 0., 0., 2.])
    """

    leaves: Leaves | CenterCells
    addend: Addend
    asked: Any
    labels: NDArray[Any] | None = None
    template: Any = None
    public_steps: Any = None

    needs_y = True
    is_sum = True  # neighbors differ by what one record adds to its cells
    if_bare = "give sensitivity='bound', whose noise is enough for everyone"

    @property
    def classes(self) -> tuple[float, ...] | None:
        """Numbers that encode the classes in a database."""
        return getattr(self.addend, "classes", None)

    @property
    def n_outputs(self) -> int:
        """Numbers in an answer."""
        return self.leaves.n_cells * self.addend.n_columns

    def rows(self, X: Any, y: Any) -> Any:
        """Return the terms of each record in each cell, as a sparse array."""
        cells, added = self._place(X, y)
        width = added.shape[1]
        places = cells[:, :, None] * width + np.arange(width)
        numbers = np.broadcast_to(added[:, None], places.shape)
        flat = (len(cells), cells.shape[1] * width)
        return sparse_rows(places.reshape(flat), numbers.reshape(flat), self.n_outputs)

    def _place(self, X: Any, y: Any) -> tuple[NDArray[np.intp], Floats]:
        """Return the cells of each record, and what it adds to these."""
        assert isinstance(self.leaves, Leaves)
        return self.leaves.of(X), self.addend(y)

    def bound(self, norm: str = "l1", relation: str = "replace-one") -> float:
        """Return the largest distance of answers on any neighbors.

        Parameters
        ----------
        norm : {"l1", "l2"}, default="l1"
            Of the distance.

        relation : {"replace-one", "add-remove"}, default="replace-one"
            How neighbors differ.

        Notes
        -----
        **Guarantee** (:ref:`thm-leaves`). For counts of classes in T trees: 2 T, and
        the square root of 2 T, attained by neighbors; T and its root with "add-remove".
        """
        check_relation(relation)
        count, low, high = self.addend.ends
        size, apart = np.maximum(high, -low), high - low
        l1, squared = count + size.sum(), count**2 + (size**2).sum()
        if relation == "replace-one":
            # In two cells of a tree, or in the same one, where only the numbers differ.
            l1, squared = max(2 * l1, apart.sum()), max(2 * squared, (apart**2).sum())
        n_trees = self.leaves.n_trees
        l2 = math.sqrt(n_trees) * math.sqrt(squared)
        return float(n_trees * l1 if norm == "l1" else l2)

    @property
    def _question(self) -> list[Any]:
        return [*super()._question, self.classes or self.addend.n_columns]

    def __str__(self) -> str:
        return f"{type(self.asked).__name__} (leaves)"


@dataclass(frozen=True, eq=False)
class ResidualsQuery(LeafQuery):
    """Sums over the records in each cell of what the public trees leave of targets.

    As `LeafQuery`. `cross_fitted` tells if pairs are of rows that the trees have seen:
    then these have targets as they are under trees of the others.

    Notes
    -----
    **Guarantee** (:ref:`thm-leaves`). As for leaves: what is left of a target depends
    on that record and on public trees alone.
    """

    cross_fitted: bool = False

    @property
    def is_correction(self) -> bool:  # type: ignore[override]
        return self.cross_fitted

    def _place(self, X: Any, y: Any) -> tuple[NDArray[np.intp], Floats]:
        assert isinstance(self.leaves, Leaves)
        predicted = self.leaves.predict(X)
        left = np.asarray(y, dtype=np.float64).reshape(predicted.shape) - predicted
        return self.leaves.of(X), self.addend(left)

    def __str__(self) -> str:
        return f"{type(self.asked).__name__} (residuals in leaves)"


@dataclass(frozen=True, eq=False)
class CentersQuery(LeafQuery):
    """Sums over the records of each public cluster, of where they are from its center.

    As `LeafQuery`: `leaves` are clusters, and the addend is of these vectors.

    Notes
    -----
    **Guarantee** (:ref:`thm-centers`). As for leaves: the largest difference of any
    neighbors is known, and sums are exact.
    """

    needs_y = False

    def _place(self, X: Any, y: Any) -> tuple[NDArray[np.intp], Floats]:
        assert isinstance(self.leaves, CenterCells)
        cells, around = self.leaves.place(X)
        return cells, self.addend(around)

    def __str__(self) -> str:
        return f"{type(self.asked).__name__} (sums of clusters)"
