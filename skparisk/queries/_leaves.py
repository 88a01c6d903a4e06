"""Sums over the leaves of trees whose splits are public, as a query."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from skparisk.core.checks import check_relation
from skparisk.core.pairs import LargestMove
from skparisk.queries._addends import Addend
from skparisk.queries._base import Floats
from skparisk.queries._estimator import plain_params
from skparisk.queries._given import are_alike
from skparisk.queries._padding import Unpadded
from skparisk.queries._row_wise import answer_each, is_row_wise, transform_each
from skparisk.queries._sums import SumQuery, sparse_rows
from skparisk.reference._domain import Domain

# What trees take.
_LARGEST = float(np.finfo(np.float32).max)


def _as_trees_take_them(records: Any) -> Any:
    """Return numbers as float32, the largest for larger ones.

    Trees refuse others, which would tell of a private record.
    """
    if not issparse(records):
        numbers = np.asarray(records, dtype=np.float64)
        return np.clip(numbers, -_LARGEST, _LARGEST).astype(np.float32, order="C")
    numbers = csr_matrix(records, dtype=np.float64, copy=True)
    numbers.data = np.clip(numbers.data, -_LARGEST, _LARGEST)
    return numbers.astype(np.float32)


class Cells(Protocol):
    """Where records are counted: one cell of each tree."""

    @property
    def n_cells(self) -> int:
        """Cells of all trees."""
        ...

    @property
    def n_trees(self) -> int:
        """Cells that a record is in."""
        ...

    def of(self, records: Any, /) -> NDArray[np.intp]:
        """Return the cells of each record, (n_records, n_trees)."""
        ...


@dataclass(frozen=True, eq=False)
class Leaves:
    """The cells that a fit to public records, with trees in it, puts a record in.

    Parameters
    ----------
    trees : estimator
        A fitted tree or forest of scikit-learn.

    cells : sequence of ndarray of shape (n_nodes,)
        For each tree, the cell of each of its nodes: cells are leaves, or nodes with
        all that is below. Each tree has numbers of its own.

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
        """Cells that a record is in."""
        return len(self.cells)

    def of(self, X: Any) -> NDArray[np.intp]:
        """Return the cell of each record in each tree, (n_records, n_trees).

        A record that a step before the trees refuses is in the first cell.
        """
        first = [[cells[cells >= 0].min() for cells in self.cells]]
        found = answer_each(self._of_all, X, lambda: np.array(first))
        return np.asarray(found, dtype=np.intp)

    def keeps_apart(self, X: Any) -> bool:
        """Tell if records are in the same cells where steps see all of them at once.

        Of public records, whose errors are shown.
        """
        apart = self._of_all(X)
        if self.before is None or is_row_wise(self.before):
            return True
        together = copy.deepcopy(self.before).transform(X)
        return bool((self._find(together) == apart).all())

    def _of_all(self, X: Any) -> NDArray[np.intp]:
        """Return the cells of records, none of which is refused."""
        return self._find(X if self.before is None else transform_each(self.before, X))

    def _find(self, records: Any) -> NDArray[np.intp]:
        """Return the cells of transformed records."""
        numbers = _as_trees_take_them(records)
        found = [
            tree.apply(numbers, check_input=False)
            for tree in getattr(self.trees, "estimators_", [self.trees])
        ]
        cells = [cells[nodes] for cells, nodes in zip(self.cells, found, strict=True)]
        return np.column_stack(cells)


@dataclass(frozen=True, eq=False)
class LeafQuery(Unpadded, SumQuery):
    """Sums over the records in each cell of trees whose splits are public.

    Parameters
    ----------
    leaves : Leaves
        The cells.

    addend : ClassAddend or TargetAddend
        What is summed: counts of classes, or a count and sums of targets.

    asked : estimator
        The estimator whose leaf values follow from the sums. Queries are equal if they
        are for equal estimators, whatever splits these have.

    labels : ndarray of shape (n_classes,), default=None
        For classifiers: the labels of the classes.

    template : object, default=None
        What the released sums are put into. It knows nothing of private records.

    Notes
    -----
    **Guarantee** (:ref:`thm-leaves`). Differences of pairs, and the largest of any
    neighbors, are exact: sums are of whole numbers of steps of a grid, and steps before
    the trees are given one record at a time, unless they are known to look at no other.

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

    leaves: Cells
    addend: Addend
    asked: Any
    labels: NDArray[Any] | None = None
    template: Any = None

    ranges: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {}
    )  # what noise takes out of these is brought back with leaf values
    needs_y = True
    any_table = True  # whatever the estimator takes
    is_sum = True  # neighbors differ by what one record adds to its cells

    @property
    def classes(self) -> tuple[float, ...] | None:
        """The numbers that stand for the classes in a database."""
        return getattr(self.addend, "classes", None)

    @property
    def n_outputs(self) -> int:
        """Numbers in an answer."""
        return self.leaves.n_cells * self.addend.n_columns

    def rows(self, X: Any, y: Any) -> Any:
        """Return what records add to each cell, as a sparse array."""
        cells, added = self._place(X, y)
        width = added.shape[1]
        places = cells[:, :, None] * width + np.arange(width)
        numbers = np.broadcast_to(added[:, None], places.shape)
        flat = (len(cells), cells.shape[1] * width)
        return sparse_rows(places.reshape(flat), numbers.reshape(flat), self.n_outputs)

    def _place(self, X: Any, y: Any) -> tuple[NDArray[np.intp], Floats]:
        """Return the cells of each record, and what it adds to these."""
        return self.leaves.of(X), self.addend(y)

    def split(self, answer: Floats) -> Mapping[str, Floats]:
        """Return the sums of each cell, (n_cells, n_columns)."""
        return {"sums": answer.reshape(self.leaves.n_cells, -1)}

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
        **Guarantee** (:ref:`thm-leaves`). For counts of classes in T trees that is 2 T,
        and the square root of 2 T, and neighbors attain it; T and its root with
        "add-remove".
        """
        check_relation(relation)
        _, l1, l2 = self.addend.largest(relation)
        n_trees = self.leaves.n_trees
        return n_trees * l1 if norm == "l1" else math.sqrt(n_trees) * l2

    def largest_move(
        self, domain: Domain, n_records: int, relation: str
    ) -> LargestMove:
        outputs, _, _ = self.addend.largest(relation)
        return LargestMove(
            np.tile(outputs, self.leaves.n_cells),
            self.bound("l2", relation),
            self.bound("l1", relation),
        )

    def __eq__(self, other: object) -> bool:
        """Tell if the same is asked; splits may differ."""
        return isinstance(other, LeafQuery) and are_alike(
            self._question, other._question
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _question(self) -> list[Any]:
        columns = self.classes or self.addend.n_columns
        return [type(self.asked), plain_params(self.asked), columns]

    def __str__(self) -> str:
        return f"{type(self.asked).__name__} (leaves)"
