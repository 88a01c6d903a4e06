"""What the laws share: floats that are checked, and roots that are safe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
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


def unwrap(values: Any) -> Any:
    """Return a float for a single number, the array otherwise."""
    return float(values) if np.ndim(values) == 0 else values
