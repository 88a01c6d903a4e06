"""Draw the pictures of the pages: ``python docs/pictures.py``.

The code of a page draws its picture, and names it ``figure``.
"""

import doctest
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
STYLE = {"svg.hashsalt": "skparisk"}


def has_picture(page: Path) -> bool:
    """Tell if a page shows a picture that its code draws."""
    return f"pictures/{page.stem}.svg" in page.read_text("utf-8")


def run_page(page: Path) -> tuple[doctest.TestResults, dict[str, Any]]:
    """Return how a page's examples went, and what they have named."""
    text = page.read_text("utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    results = doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False)
    return results, test.globs


def draw_page(page: Path, folder: Path) -> doctest.TestResults:
    """Run a page, and save its picture if it has one."""
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
    """Draw all pictures, or only for the named pages."""
    for page in [*DOCS.glob("*.rst"), *DOCS.glob("gallery/*.rst")]:
        if has_picture(page) and (not names or page.stem in names):
            draw_page(page, DOCS / "gallery" / "pictures")


if __name__ == "__main__":
    main(sys.argv[1:])
