"""Draw the pictures of the landing page and the gallery: ``python docs/pictures.py``.

A page of the gallery draws its picture itself, as what it calls ``figure``.
"""

import doctest
import sys
from pathlib import Path
from typing import Any

from skparisk import SensitivityDisplay, SensitivitySampler
from skparisk.datasets import load_census
from skparisk.queries import RidgeQuery

DOCS = Path(__file__).parent
STYLE = {"svg.hashsalt": "skparisk"}


def draw_sensitivities(file: Path, n_pairs: int = 2000) -> None:
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
    with rc_context({**STYLE, "font.size": 11}):
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


def run_page(page: Path) -> tuple[doctest.TestResults, dict[str, Any]]:
    """Return how a page's examples went, and what they have named."""
    text = page.read_text("utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    results = doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False)
    return results, test.globs


def draw_page(page: Path, folder: Path) -> doctest.TestResults:
    """Run a page of the gallery, and save its picture if it has one."""
    from matplotlib import pyplot as plt
    from matplotlib import rc_context

    with rc_context(STYLE):
        results, names = run_page(page)
        if "figure" in names:
            file = folder / f"{page.stem}.svg"
            names["figure"].savefig(file, metadata={"Date": None})
            plt.close(names["figure"])
    return results


def main(names: list[str]) -> None:
    """Draw all pictures, or those of the named pages of the gallery."""
    for page in sorted((DOCS / "gallery").glob("*.rst")):
        drawn = f":: pictures/{page.stem}.svg" in page.read_text("utf-8")
        if drawn and (not names or page.stem in names):
            draw_page(page, DOCS / "gallery" / "pictures")
    if not names:
        draw_sensitivities(DOCS / "_static" / "sensitivities.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
