"""How much of the package one fit runs: what somebody reads to know what it does.

Claim: with defaults, and after a first fit, one fit of `PrivateRidge` runs at most 600
functions of the package in at most 54 files, and one of `PrivateEstimator` with a
pipeline of two steps 670 in 62. A third as many is the aim.

The pipeline ends with a lasso whose penalty is in dollars a week, as the target is.
With a thousandth of it coordinate descent does not converge on these columns: each of a
thousand refits takes all of its iterations, and 1 000 records are too few to be served.

    python benchmarks/warm_fit.py
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from types import FrameType
from typing import Any

from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import PrivateEstimator, PrivateRidge
from skparisk.datasets import load_census

X, Y = load_census(return_X_y=True)
PUBLIC = {"X_reference": X[:300], "y_reference": Y[:300]}
MOST = {
    "PrivateRidge": (PrivateRidge(random_state=0), 600, 54),
    "PrivateEstimator, two steps": (
        PrivateEstimator(make_pipeline(StandardScaler(), Lasso(100.0)), random_state=0),
        670,
        62,
    ),
}


def functions_of(model: Any) -> set[tuple[str, str]]:
    """Return file and name of each function of the package that a second fit runs."""
    model.fit(X[300:1300], Y[300:1300], **PUBLIC)
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        _, ours, file = frame.f_code.co_filename.rpartition("/skparisk/")
        if event == "call" and ours:
            seen.add((file, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        model.fit(X[300:1300], Y[300:1300], **PUBLIC)
    finally:
        sys.setprofile(None)
    return seen


def main() -> int:
    """Print both, and return 1 if there are more."""
    warnings.simplefilter("ignore")
    held = True
    for name, (model, most, most_files) in MOST.items():
        files = Counter(file for file, _ in functions_of(model))
        n = files.total()
        held &= n <= most and len(files) <= most_files
        print(f"{name}: {n} functions (at most {most}), {len(files)} files")
        print("  most in", ", ".join(f"{f} {k}" for f, k in files.most_common(6)))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
