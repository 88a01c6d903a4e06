"""The shape of the noise: how much of it each direction of the answer gets.

A shape is an invertible linear map, chosen from public pairs. The answer is mapped
to coordinates in which the noise is the same for all, and what is released is mapped
back: the second map is post-processing, so only the first matters for privacy, and it
is computed in whole numbers, without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_choice
from skparisk.core.laws import check_name
from skparisk.mechanisms._moments import root_mean_squares, shrunk_moments

NOISE_SHAPES = ("isotropic", "diagonal", "whitened")

# Python's whole numbers in an array, and the exponent: numbers * 2**exponent.
Dyadic: TypeAlias = tuple[NDArray[np.object_], int]

# Eigenvalues of standardized moments, the largest over the smallest; of weights, and of
# moments as these weigh them, from which the noise is the fourth root. Rounding is
# multiplied by sqrt(1e8), or by sqrt(1e6) times 1e4**(1 / 4).
_CONDITION, _WEIGHTS_CONDITION, _WEIGHED_CONDITION = 1e8, 1e6, 1e4
# Scales beyond that are multiplied beyond the largest float.
_LARGEST_SCALE = 2.0**900
# Condition number from which on a matrix has no inverse in floating point.
_SINGULAR = 1e12


@runtime_checkable
class NoiseShape(Protocol):
    """A map to coordinates in which the noise is the same for all, and back.

    A class that implements this guarantees that `whiten` and `whiten_exactly` are one
    and the same linear map, the first but for rounding; that no two answers are mapped
    to one; and that nothing of it depends on private data. It may assume that rows are
    finite. `color` may be any function: it is post-processing.
    """

    @property
    def name(self) -> str:
        """What certificates call it."""
        ...

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map rows of values, in floating point."""
        ...

    def whiten_errors(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far mapped rows may be off, for rows that may be off so far."""
        ...

    def whiten_exactly(self, values: NDArray[np.float64]) -> Dyadic:
        """Map rows of values, without any rounding."""
        ...

    def color(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map rows back, in floating point."""
        ...


@dataclass(frozen=True)
class IsotropicShape:
    """The same noise for each output: the map is the identity."""

    name: str = field(default="isotropic", init=False)

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values

    def whiten_errors(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return errors

    def whiten_exactly(self, values: NDArray[np.float64]) -> Dyadic:
        return to_dyadic(values)

    def color(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values


@dataclass(frozen=True, eq=False)
class DiagonalShape:
    """Noise of each output in proportion to a scale of its own.

    Parameters
    ----------
    scales : ndarray of shape (n_outputs,)
        Finite and above 0, in units of the outputs.
    """

    scales: NDArray[np.float64]
    name: str = field(default="diagonal", init=False)

    def __post_init__(self) -> None:
        scales = _frozen(self.scales)
        if scales.ndim != 1 or not _has_inverses(scales):
            raise ValueError(
                "scales must be of shape (n_outputs,), of numbers above 0 that are, as "
                f"their inverses, finite; got others, of shape {scales.shape}."
            )
        object.__setattr__(self, "scales", scales)

    @property
    def n_outputs(self) -> int:
        """Outputs that it is for."""
        return len(self.scales)

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values * (1 / self.scales)

    def whiten_errors(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.whiten(errors)

    def whiten_exactly(self, values: NDArray[np.float64]) -> Dyadic:
        numbers, exponent = to_dyadic(values)
        weights, weights_exponent = to_dyadic(1 / self.scales)
        return numbers * weights, exponent + weights_exponent

    def color(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values * self.scales


@dataclass(frozen=True, eq=False)
class WhitenedShape:
    """Noise whose covariance is a matrix times a number.

    Parameters
    ----------
    factor : ndarray of shape (n_outputs, n_outputs)
        L: noise of covariance L L' times a number. Invertible, in units of the
        outputs.
    """

    factor: NDArray[np.float64]
    name: str = field(default="whitened", init=False)
    # What it is rounded to is the map: one and the same wherever it is used.
    _inverse: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        factor = _frozen(self.factor)
        square = factor.ndim == 2 and len(factor) == factor.shape[1]
        if not square or not np.isfinite(factor).all():
            raise ValueError(
                "factor must be of shape (n_outputs, n_outputs), of finite numbers; "
                f"got another one, of shape {factor.shape}."
            )
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "_inverse", _frozen(_inverse(factor)))

    @property
    def n_outputs(self) -> int:
        """Outputs that it is for."""
        return len(self.factor)

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values @ self._inverse.T

    def whiten_errors(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return errors @ np.abs(self._inverse).T

    def whiten_exactly(self, values: NDArray[np.float64]) -> Dyadic:
        numbers, exponent = to_dyadic(values)
        weights, weights_exponent = to_dyadic(self._inverse)
        return numbers @ weights.T, exponent + weights_exponent

    def color(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values @ self.factor.T


@dataclass(frozen=True, eq=False)
class Constant:
    """Outputs that are not released, and what stands in their place.

    Parameters
    ----------
    outputs : ndarray of int of shape (n_constant,)
        Which they are.

    values : ndarray of shape (n_constant,)
        What they are on public records.
    """

    outputs: NDArray[np.intp]
    values: NDArray[np.float64]

    def without(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows of values with nothing of these outputs."""
        values = values.copy()
        values[:, self.outputs] = 0.0
        return values


@dataclass(frozen=True, eq=False)
class PartialShape:
    """A shape for answers of which some outputs are not released.

    Parameters
    ----------
    whole : NoiseShape
        Of all outputs.

    constant : Constant
        Those that are not released.
    """

    whole: NoiseShape
    constant: Constant

    @property
    def name(self) -> str:
        return self.whole.name

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.whole.whiten(self.constant.without(values))

    def whiten_errors(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.whole.whiten_errors(self.constant.without(errors))

    def whiten_exactly(self, values: NDArray[np.float64]) -> Dyadic:
        return self.whole.whiten_exactly(self.constant.without(values))

    def color(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.constant.without(self.whole.color(values))


def whole_shape(shape: NoiseShape) -> NoiseShape:
    """Return the shape of all outputs, released or not."""
    return shape.whole if isinstance(shape, PartialShape) else shape


def fit_noise_shape(
    name: str,
    differences: NDArray[np.float64],
    errors: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    n_independent: int | None = None,
) -> NoiseShape:
    """Return the shape of noise that fits how answers differ on public pairs.

    Parameters
    ----------
    name : {"isotropic", "diagonal", "whitened"}
        The same for all outputs; in proportion to the root mean square of each
        output; or with their second moments, which are shrunk by Ledoit and Wolf's
        rule so that few pairs do. "whitened" is "diagonal" where there are more outputs
        than pairs.

    differences : ndarray of shape (n_pairs, n_outputs)
        Answer on the first database minus answer on the second, finite. Not used for
        "isotropic". Pairs that calibrate the noise must not be among these.

    errors : ndarray of shape (n_pairs, n_outputs), default=None
        The most that each difference may be off, by rounding. None: not at all.

    weights : ndarray of shape (n_outputs, n_outputs), default=None
        How much an error in the outputs weighs in what these are for: the error e costs
        e' weights e. Symmetric, without negative eigenvalues; only for "whitened",
        which then costs least (:ref:`thm-noise-shape`). None: not known.

    n_independent : int, default=None
        As how many independent pairs these count, >= 1, such as half as many as a
        table has rows from which they are drawn. None: all.

    Returns
    -------
    shape : NoiseShape
        An output that never moves, by more than rounding and 2**-50 of the one that
        moves most, gets noise of the usual size of the others. So does one that moves
        seldom, as a count of few people, up to half of its size when it moves: at its
        own, each of its moves would be far more than the noise.

    Raises
    ------
    ValueError
        If the name is unknown.

    Notes
    -----
    **Guarantee** (:ref:`thm-noise-shape`). Any shape is right for privacy, if it does
    not depend on the private data; the better it fits the less noise there is.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.mechanisms import fit_noise_shape
    >>> differences = np.random.default_rng(0).normal(scale=[1, 10], size=(500, 2))
    >>> fit_noise_shape("diagonal", differences).scales.round()
    array([ 1., 10.])
    """
    check_choice(name, "noise_shape", NOISE_SHAPES)
    if name == "isotropic":
        return IsotropicShape()
    sizes = root_mean_squares(differences, errors)
    moves = sizes > 0
    if not moves.any():
        return DiagonalShape(np.ones(len(moves)))
    # What has no scale gets one of the size of the others'.
    usual = np.median(sizes[moves])
    scales = np.full(len(moves), usual)
    scales[moves] = np.maximum(
        sizes[moves],
        np.minimum(usual, _sizes_when_moved(differences, errors, moves) / 2),
    )
    scales = np.minimum(scales, _LARGEST_SCALE)
    if name == "diagonal" or len(differences) < len(scales):
        return DiagonalShape(scales)
    chosen = np.ix_(moves, moves)
    standard = differences[:, moves] / scales[moves]
    # What is added to second moments of outputs whose scale is above their own size.
    raised = np.maximum(1 - np.square(sizes / scales)[moves], 0.0)
    costs = None if weights is None else _standardized(weights, scales)[chosen]
    if costs is None or not np.trace(costs) > 0:
        moments = shrunk_moments(standard, n_independent) + np.diag(raised)
        values, vectors = _eigen(moments, _CONDITION)
        part = vectors * np.sqrt(values)
    else:
        part = _least_cost(standard, raised, costs, n_independent)
    # Rows about 1, as is that of an output which does not move: a number between the
    # singular values of the others.
    factor = np.eye(len(scales))
    factor[chosen] = part / np.median(np.linalg.norm(part, axis=1))
    return WhitenedShape(scales[:, None] * factor)


def as_shape(shape: Any) -> str | NoiseShape:
    """Return the name of a shape that is taken from pairs, or the one that is given."""
    if not isinstance(shape, str | type) and isinstance(shape, NoiseShape):
        check_name(shape, "noise_shape", (*NOISE_SHAPES, "auto"))
        return shape
    return check_choice(shape, "noise_shape", (*NOISE_SHAPES, "auto"))


def check_n_outputs(shape: NoiseShape, n_outputs: int) -> None:
    """Refuse a shape that is known to be for another number of outputs."""
    size = getattr(shape, "n_outputs", n_outputs)
    if size != n_outputs:
        raise ValueError(
            f"noise_shape must be for {n_outputs} outputs, as the query has, got one "
            f"for {size}."
        )


def _least_cost(
    differences: NDArray[np.float64],
    raised: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_independent: int | None,
) -> NDArray[np.float64]:
    """Return the factor L of the noise that costs least, for how these outputs move.

    With `raised` added to their second moments.

    M = L L' is that of least tr(weights M) at the same tr(moments M^-1): the geometric
    mean of the moments and the inverse of the weights. Of all its factors that in whose
    coordinates nothing is correlated, for laws that are not the same in all directions.
    """
    values, vectors = _eigen(weights, _WEIGHTS_CONDITION)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    # In the coordinates of what outputs are for: the same for all units of theirs.
    moments = shrunk_moments(differences @ root, n_independent)
    moments += (root * raised) @ root
    squares, axes = _eigen(moments, _WEIGHED_CONDITION)
    return (inverse @ axes) * np.sqrt(np.sqrt(squares))


def _sizes_when_moved(
    differences: NDArray[np.float64],
    errors: NDArray[np.float64] | None,
    moves: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the root mean square of each output over the pairs in which it moves."""
    sizes = np.abs(differences[:, moves])
    floor = (
        0.0 if errors is None else np.broadcast_to(errors, differences.shape)[:, moves]
    )
    moved = sizes > floor
    largest = sizes.max(axis=0)
    standard = np.where(moved, sizes / largest, 0.0)  # no overflow in squares
    return largest * np.sqrt((standard**2).sum(axis=0) / moved.sum(axis=0))


def _standardized(
    weights: NDArray[np.float64], scales: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return weights of outputs over their scales, times any number."""
    units = scales / scales.max()
    return units[:, None] * (weights / (np.abs(weights).max() or 1.0)) * units


def _eigen(
    matrix: NDArray[np.float64], condition: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues, with a floor, and eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, values[-1] / condition), vectors


def _inverse(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a matrix with rows in far units, or say it has none."""
    units = np.abs(factor).max(axis=1, initial=0.0)
    with np.errstate(all="ignore"):
        unitless = factor / units[:, None]  # no overflow between far units
        if np.isfinite(unitless).all() and np.linalg.cond(unitless) < _SINGULAR:
            inverse = np.linalg.inv(unitless) / units
            if np.isfinite(inverse).all():
                return inverse
    raise ValueError("factor must be invertible, without an overflow.")


def _frozen(values: Any) -> NDArray[np.float64]:
    """Return a copy that nobody changes after the noise was calibrated for it."""
    copied = np.array(values, dtype=np.float64)
    copied.flags.writeable = False
    return copied


def _has_inverses(scales: NDArray[np.float64]) -> bool:
    with np.errstate(all="ignore"):
        numbers = (scales > 0) & np.isfinite(scales) & np.isfinite(1 / scales)
    return bool(numbers.all())


def to_dyadic(values: Any) -> Dyadic:
    """Return numbers as whole numbers times one power of two, exactly.

    Parameters
    ----------
    values : array-like
        Finite numbers.

    Returns
    -------
    numbers : ndarray of object
        Whole numbers of Python.

    exponent : int
        ``numbers * 2**exponent`` are the values.

    Examples
    --------
    >>> from skparisk.mechanisms import to_dyadic
    >>> to_dyadic([0.75, 2.0])
    (array([6755399441055744, 18014398509481984], dtype=object), -53)
    """
    mantissas, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    exponents = np.where(mantissas == 0, 0, exponents - 53)
    whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    least = int(exponents.min(initial=0))
    return whole << (exponents - least).astype(object), least
