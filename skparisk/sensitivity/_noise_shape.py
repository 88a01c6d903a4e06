"""Which shape of noise fits how answers differ on public pairs.

No guarantee rests on it: any shape is right that does not depend on private data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_choice
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.queries._linear import shrunk_moments

NOISE_SHAPES = ("isotropic", "diagonal", "whitened")

# Eigenvalues of standardized moments, the largest over the smallest; of weights, and of
# moments as these weigh them, from which the noise is the fourth root. Rounding is
# multiplied by sqrt(1e8), or by sqrt(1e6) times 1e4**(1 / 4).
_CONDITION, _WEIGHTS_CONDITION, _WEIGHED_CONDITION = 1e8, 1e6, 1e4
# Scales beyond that are multiplied beyond the largest float.
_LARGEST_SCALE = 2.0**900
# Against the output that moves most: what moves less is next to constant.
_SMALLEST_SHARE = 2.0**-50
# What moves less has no inverse.
_LEAST_MOVE = 2.0**-960


def root_mean_squares(
    differences: NDArray[np.float64], errors: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the root mean square of each output; 0 for one that does not move.

    That is one that differs by no more than `errors`, than 2**-50 of the one that moves
    most, or than 2**-960.
    """
    sizes = np.abs(differences)
    largest = sizes.max(axis=0)
    moves = (sizes > (0.0 if errors is None else errors)).any(axis=0)
    moves &= largest > max(_SMALLEST_SHARE * largest.max(), _LEAST_MOVE)
    scales = np.zeros(len(largest))
    scales[moves] = _mean_sizes(sizes[:, moves])
    return scales


def _mean_sizes(
    sizes: NDArray[np.float64], counted: NDArray[np.bool_] | bool = True
) -> NDArray[np.float64]:
    """Return the root mean square of each output, over the pairs that are counted."""
    largest = sizes.max(axis=0)
    squares = (sizes / largest) ** 2  # no overflow
    return np.asarray(largest * np.sqrt(squares.mean(axis=0, where=counted)))


def fit_noise_shape(
    name: str,
    differences: NDArray[np.float64],
    errors: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    n_independent: int | None = None,
) -> NoiseShape:
    """Return the noise shape that fits the differences on public pairs.

    Parameters
    ----------
    name : {"isotropic", "diagonal", "whitened"}
        The same for all outputs; in proportion to the root mean square of each output;
        or with their second moments, shrunk by Ledoit and Wolf's rule for few pairs.
        "whitened" is "diagonal" with more outputs than pairs.

    differences : ndarray of shape (n_pairs, n_outputs)
        Answer on the first database minus answer on the second, finite. Not used for
        "isotropic". Pairs that calibrate the noise must not be among these.

    errors : ndarray of shape (n_outputs,), default=None
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
    >>> from skparisk.sensitivity import fit_noise_shape
    >>> differences = np.random.default_rng(0).normal(scale=[1, 10], size=(500, 2))
    >>> fit_noise_shape("diagonal", differences).factor.round()
    array([ 1., 10.])
    """
    check_choice(name, "noise_shape", NOISE_SHAPES)
    if name == "isotropic":
        return NoiseShape()
    sizes = root_mean_squares(differences, errors)
    moves = sizes > 0
    if not moves.any():
        return NoiseShape(np.ones(len(moves)))
    moved = np.abs(differences) > (0.0 if errors is None else errors)
    when_moved = _mean_sizes(np.abs(differences[:, moves]), moved[:, moves])
    # What has no scale gets one of the size of the others'.
    usual = np.median(sizes[moves])
    scales = np.full(len(moves), usual)
    scales[moves] = np.maximum(sizes[moves], np.minimum(usual, when_moved / 2))
    scales = np.minimum(scales, _LARGEST_SCALE)
    if name == "diagonal" or len(differences) < len(scales):
        return NoiseShape(scales)
    chosen = np.ix_(moves, moves)
    standard = differences[:, moves] / scales[moves]
    # What is added to second moments of outputs whose scale is above their own size.
    raised = np.maximum(1 - np.square(sizes / scales)[moves], 0.0)
    costs = None
    if weights is not None:  # of outputs over their scales, times any number
        units = scales / scales.max()
        weights = weights / (np.abs(weights).max() or 1.0)
        costs = (units[:, None] * weights * units)[chosen]
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
    return NoiseShape(scales[:, None] * factor)


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


def _eigen(
    matrix: NDArray[np.float64], condition: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues, with a floor, and eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, values[-1] / condition), vectors


def sampling_spread(
    pairs: SampledPairs, n_records: int, relation: str
) -> NDArray[np.float64]:
    """Return the standard deviation of an answer on `n_records` people drawn by chance.

    By the jackknife: one record that is replaced moves the answer by the difference of
    two influences, each the share 1/n of what makes up its error, and one that comes or
    goes by one of them. At the number of records that the pairs were sampled with.
    """
    changed = 2 if relation == "replace-one" else 1
    scales = root_mean_squares(pairs.differences[pairs.answered], pairs.floor)
    return scales * np.sqrt(n_records / changed)
