"""Draw the picture of the landing page: ``python docs/picture.py``."""

import sys
from pathlib import Path

from skparisk import SensitivityDisplay, SensitivitySampler
from skparisk.datasets import load_census
from skparisk.queries import RidgeQuery

FILE = Path(__file__).parent / "_static" / "sensitivities.svg"


def draw(file: Path, n_pairs: int = 2000) -> None:
    """Draw how far one record moves a ridge regression on census records."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    X, y = load_census(return_X_y=True)
    sampler = SensitivitySampler(
        RidgeQuery(1.0),
        gamma=0.05,
        noise_shape="isotropic",  # so that distances are in dollars
        n_records=9000,
        n_pairs=n_pairs,
        random_state=0,
    ).fit(X[9000:], y[9000:])
    with rc_context({"svg.hashsalt": "skparisk", "font.size": 11}):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        ax = figure.subplots()
        display = SensitivityDisplay.from_estimator(
            sampler, ax=ax, name="sampled pairs"
        )
        display.ax_.set_title(
            "How far does one person move a ridge regression?\n"
            f"{n_pairs} simulated pairs of tables of 9000 people, one replaced",
            fontsize=11,
        )
        display.ax_.set_xlabel("change of all coefficients together, dollars per week")
        display.ax_.set_ylabel("share of pairs that change more")
        figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
