"""What the laws share: arrays of floats that are checked, and roots that are safe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq


def safe_root(
    excess: Callable[[float], float], unsafe: float, safe: float, root: float | None
) -> float:
    """Return a root, moved toward `safe` until the excess is not negative."""
    if root is None:
        root = float(brentq(excess, unsafe, safe, xtol=1e-300, rtol=1e-15, maxiter=999))
    clamp = min if unsafe < safe else max
    root, step = clamp(root, safe), math.copysign(math.ulp(root), safe - unsafe)
    while root != safe and excess(root) < 0:
        root, step = clamp(root + step, safe), 2 * step
    return root


def check_floats(
    value: Any, name: str, allowed: str, inside: Callable[[NDArray[Any]], Any]
) -> NDArray[np.float64]:
    """Return an array of floats that are all inside the range."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not np.all(inside(array)):
        raise ValueError(f"{name} must be in {allowed}, got {value!r}.")
    return array.astype(np.float64)


def check_float(
    value: Any, name: str, allowed: str, inside: Callable[[NDArray[Any]], Any]
) -> float:
    """Return one float that is inside the range."""
    if np.ndim(value) != 0:
        raise ValueError(f"{name} must be one number in {allowed}, got {value!r}.")
    return float(check_floats(value, name, allowed, inside))


def unwrap(values: Any) -> Any:
    """Return a float for a single number, the array otherwise."""
    return float(values) if np.ndim(values) == 0 else values
