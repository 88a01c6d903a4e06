"""The Bernstein mechanism: release of a function on a cube.

The mechanism, the polynomial that it releases and their lattice stand in one file, as
each is read with the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, xlog1py, xlogy

from skparisk.core.checks import check_at_least, check_epsilon
from skparisk.core.claim import Certificate
from skparisk.mechanisms._additive import LaplaceMechanism, check_sensitivity

Function: TypeAlias = Callable[[NDArray[np.float64]], ArrayLike]

_MOST_NODES = 2**20
# Numbers that are worked on together.
_CHUNK = 2**23


def bernstein_lattice(lattice_size: int, n_dims: int = 1) -> NDArray[np.float64]:
    """Return the nodes of a regular lattice of the unit cube.

    Parameters
    ----------
    lattice_size : int
        Intervals along each axis, k >= 1.

    n_dims : int, default=1
        Dimensions of the cube, d >= 1.

    Returns
    -------
    nodes : ndarray of shape ((lattice_size + 1)**n_dims, n_dims)
        All points with coordinates in {0, 1/k, ..., 1}, the last one changing fastest.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are more than 2**20 nodes.

    Examples
    --------
    >>> from skparisk.mechanisms import bernstein_lattice
    >>> bernstein_lattice(1, 2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    count_nodes(lattice_size, n_dims)
    axis = np.arange(lattice_size + 1) / lattice_size
    grids = np.meshgrid(*[axis] * n_dims, indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1)


def count_nodes(lattice_size: Any, n_dims: Any) -> int:
    """Return the number of nodes of a lattice, if they are not too many."""
    size = check_at_least(lattice_size, "lattice_size", 1)
    dims = check_at_least(n_dims, "n_dims", 1)
    if dims * math.log2(size + 1) > math.log2(_MOST_NODES):
        most = math.floor(_MOST_NODES ** (1 / dims) * (1 + 2.0**-40)) - 1
        advice = (
            f"lattice_size must be at most {most}"
            if most
            else "that is too many features"
        )
        raise ValueError(
            f"lattice_size={size} makes (lattice_size + 1)**{dims} nodes for {dims} "
            f"features, but at most 2**20 are allowed: {advice}."
        )
    return (size + 1) ** dims


@dataclass(frozen=True, eq=False)
class BernsteinPolynomial:
    r"""Iterated Bernstein polynomial of values on a lattice of the unit cube.

    Parameters
    ----------
    values : array-like of shape (lattice_size + 1,) * n_dims
        Values at the nodes {0, 1/k, ..., 1}\ :sup:`d`, finite. Copied, and read-only.

    order : int, default=1
        How often the operator is iterated, h >= 1. 1: the plain Bernstein polynomial.

    Attributes
    ----------
    lattice_size, n_dims : int
        Intervals along each axis, and dimensions of the cube.

    coefficients : ndarray of the shape of `values`
        Of the products of Bernstein basis polynomials.

    Raises
    ------
    ValueError
        If the values are not finite, or not as many along each axis, at least two; or
        `order` is out of range.

    Notes
    -----
    With the operator B on functions on the cube, the tensor product of the Bernstein
    operators of its axes, this is
    :math:`B^{(h)} f = \sum_{i=1}^h \binom{h}{i} (-1)^{i-1} B^i f
    = B \sum_{i<h} (I - B)^i f = (I - (I - B)^h) f` (Aldà and Rubinstein 2017,
    Definition 5). For a smooth f the error shrinks like k\ :sup:`-h`.

    Examples
    --------
    >>> from skparisk.mechanisms import BernsteinPolynomial
    >>> square = BernsteinPolynomial([0.0, 0.25, 1.0])
    >>> square([[0.0], [0.5], [1.0]]).round(12).tolist()
    [0.0, 0.375, 1.0]
    """

    values: NDArray[np.float64]
    order: int = 1

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim < 1 or len(set(values.shape)) > 1 or values.shape[0] < 2:
            raise ValueError(
                "values must have the shape (lattice_size + 1,) * n_dims, with "
                f"lattice_size and n_dims >= 1; got {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("values must be finite numbers, got NaN or infinity.")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "order", check_at_least(self.order, "order", 1))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.values, self.order)

    @property
    def lattice_size(self) -> int:
        return self.values.shape[0] - 1

    @property
    def n_dims(self) -> int:
        return self.values.ndim

    @cached_property
    def coefficients(self) -> NDArray[np.float64]:
        axis = np.arange(self.lattice_size + 1) / self.lattice_size
        coefficients = self.values
        for _ in range(self.order - 1):  # sum_{i<h} (I - B)^i f, by Horner's rule
            smoothed = _on_grid(coefficients, [axis] * self.n_dims)
            coefficients = self.values + coefficients - smoothed
        coefficients.flags.writeable = False
        return coefficients

    def __call__(self, points: ArrayLike) -> NDArray[np.float64]:
        """Evaluate the polynomial.

        Parameters
        ----------
        points : array-like of shape (n_points, n_dims)
            In the unit cube.

        Returns
        -------
        values : ndarray of shape (n_points,)

        Raises
        ------
        ValueError
            If the points have another shape, or one is outside the cube.
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.n_dims:
            raise ValueError(
                f"points must have shape (n_points, {self.n_dims}), got {points.shape}."
            )
        if not ((points >= 0) & (points <= 1)).all():
            raise ValueError("points must be in the unit cube, [0, 1] in each column.")
        k = self.lattice_size
        matrix = self.coefficients.reshape(k + 1, -1)
        values = np.empty(len(points))
        for rows in _chunks(len(points), k + 1 + matrix.shape[1]):
            tensor = _basis(k, points[rows, 0]) @ matrix
            for column in points[rows, 1:].T:
                tensor = tensor.reshape(len(tensor), k + 1, tensor.shape[1] // (k + 1))
                tensor = np.einsum("nj,njr->nr", _basis(k, column), tensor)
            values[rows] = tensor[:, 0]
        return values

    def on_grid(self, axes: Sequence[ArrayLike]) -> NDArray[np.float64]:
        """Evaluate the polynomial on all points of a grid.

        Parameters
        ----------
        axes : sequence of n_dims array-like of shape (n_points_along_the_axis,)
            Coordinates in [0, 1].

        Returns
        -------
        values : ndarray of shape (len(axes[0]), len(axes[1]), ...)

        Raises
        ------
        ValueError
            If there are not as many axes as dimensions, or one is outside the cube.
        """
        arrays = [np.asarray(axis, dtype=np.float64) for axis in axes]
        if len(arrays) != self.n_dims or any(axis.ndim != 1 for axis in arrays):
            raise ValueError(f"axes must be {self.n_dims} one-dimensional arrays.")
        if any(not ((axis >= 0) & (axis <= 1)).all() for axis in arrays):
            raise ValueError("axes must be in [0, 1].")
        return _on_grid(self.coefficients, arrays)


def _basis(k: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return C(k, j) x^j (1 - x)^(k - j), of shape (len(x), k + 1)."""
    j = np.arange(k + 1.0)
    x = x[:, None]
    basis = np.exp(xlogy(j, x) + xlog1py(k - j, -x) - betaln(j + 1, k - j + 1))
    return np.asarray(basis / basis.sum(axis=1, keepdims=True))


def _on_grid(
    coefficients: NDArray[np.float64], axes: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    tensor = coefficients
    k = len(coefficients) - 1
    for axis in axes:  # takes the first axis away and appends the new one
        matrix = tensor.reshape(k + 1, -1).T
        parts = [matrix @ _basis(k, axis[rows]).T for rows in _chunks(len(axis), k + 1)]
        tensor = np.hstack(parts).reshape(*tensor.shape[1:], len(axis))
    return tensor


def _chunks(n_rows: int, row_size: int) -> Iterator[slice]:
    """Yield slices of rows that are worked on together, one at least."""
    step = max(1, _CHUNK // row_size)
    for start in range(0, max(1, n_rows), step):
        yield slice(start, start + step)


@dataclass(frozen=True)
class BernsteinMechanism:
    """Laplace noise on the values of a function, and a polynomial in between.

    Parameters
    ----------
    sensitivity : float
        Largest distance, at any point of the unit cube, of the functions of
        neighboring databases (sup norm); finite, > 0, or >= 0 with
        ``epsilon=inf``. In units of the values.

    epsilon : float
        Privacy level, in (0, inf]. Infinite: the polynomial of the exact values.

    lattice_size : int
        Intervals of the lattice along each axis, k >= 1.

    n_dims : int, default=1
        Dimensions of the cube, d >= 1; at most 2**20 nodes.

    order : int, default=1
        Iterations of the Bernstein operator, h >= 1.

    Attributes
    ----------
    n_nodes : int
        Nodes of the lattice, (k + 1)**d.

    noise_scale : float
        Scale b of the noise of each node's value, slightly above
        sensitivity * n_nodes / epsilon.

    laplace : LaplaceMechanism
        Of the values, for their l1 sensitivity.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    See Also
    --------
    skparisk.SensitivitySampler : With a query of the values at the nodes, such as
        :class:`~skparisk.queries.DensityQuery`, it samples their l1 sensitivity, often
        far below sensitivity * n_nodes; make the :class:`BernsteinPolynomial` from its
        `release`.

    Notes
    -----
    **Guarantee**. If functions of neighboring databases nowhere differ by more than
    `sensitivity`, the release is epsilon-differentially private. The l1 distance of the
    values at the nodes is at most sensitivity * n_nodes, and all else is computed from
    the noisy values (Aldà and Rubinstein 2017, Theorem 1; Rubinstein and Aldà, ICML
    2017, Corollary 14).

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.mechanisms import BernsteinMechanism
    >>> mechanism = BernsteinMechanism(0.01, epsilon=1.0, lattice_size=4, order=2)
    >>> mechanism.n_nodes, round(mechanism.noise_scale, 6)
    (5, 0.05)
    >>> polynomial = mechanism.release(lambda points: np.sin(points[:, 0]))
    >>> polynomial([[0.1], [0.9]]).shape
    (2,)
    """

    sensitivity: float
    epsilon: float
    _: KW_ONLY
    lattice_size: int
    n_dims: int = 1
    order: int = 1
    laplace: LaplaceMechanism = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity, check_epsilon(self.epsilon))
        check_at_least(self.order, "order", 1)
        n_nodes = count_nodes(self.lattice_size, self.n_dims)
        sensitivity = float(self.sensitivity)
        total = sensitivity * n_nodes
        if math.isfinite(total) and total < Fraction(sensitivity) * n_nodes:
            total = math.nextafter(total, math.inf)
        laplace = LaplaceMechanism(total, self.epsilon, n_nodes)
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "epsilon", laplace.epsilon)
        object.__setattr__(self, "laplace", laplace)

    @property
    def n_nodes(self) -> int:
        return self.laplace.n_outputs

    @property
    def noise_scale(self) -> float:
        return self.laplace.noise_scale

    def as_certificate(self) -> Certificate:
        """Return the claim of one release, for composition and budgets."""
        return self.laplace.as_certificate()

    def release(
        self,
        function_or_values: Function | ArrayLike,
        *,
        noise_random_state: Any = None,
    ) -> BernsteinPolynomial:
        """Return the polynomial of the function's values with fresh noise.

        Parameters
        ----------
        function_or_values : callable or array-like of `n_nodes` numbers
            A function that maps points of shape (n_nodes, n_dims) to as many finite
            numbers; or these, at the nodes of :func:`bernstein_lattice` in their
            order.

        noise_random_state
            As in :meth:`LaplaceMechanism.release`.

        Raises
        ------
        ValueError
            If there are not `n_nodes` values, or one is NaN or infinite.

        BudgetExceededError
            If a ledger is open and refuses.
        """
        values = function_or_values
        if callable(values):
            with np.errstate(all="ignore"):  # a warning would be a release
                values = values(bernstein_lattice(self.lattice_size, self.n_dims))
        values = np.asarray(values, dtype=np.float64)
        if values.size != self.n_nodes:
            raise ValueError(
                f"function_or_values must have a value for each of the {self.n_nodes} "
                f"nodes, got shape {values.shape}."
            )
        released = self.laplace.release(
            values.ravel(), noise_random_state=noise_random_state
        )
        shape = (self.lattice_size + 1,) * self.n_dims
        return BernsteinPolynomial(released.reshape(shape), self.order)
