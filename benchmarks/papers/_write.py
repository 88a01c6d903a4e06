"""Pictures, the table of README.md and the page of figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from ._study import Picture, Study

FOLDER = Path(__file__).parent
README = FOLDER / "README.md"
PAGE = FOLDER.parents[1] / "docs" / "theory" / "papers.rst"
TABLE, END = "<!-- table -->\n", "<!-- end of table -->\n"
FIGURES = ".. Figures: written by ``python -m benchmarks.papers --fast --write``.\n"


def save_picture(picture: Picture, folder: Path, kind: str) -> Path:
    """Draw a picture into a file, the same bytes each time as far as numbers are."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{picture.file_stem}.{kind}"
    settings = {"svg.hashsalt": picture.item, "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context(settings):
        figure = Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(file, metadata=metadata, dpi=120)
    return file


def save_pictures(study: Study, folder: Path, kind: str) -> list[Path]:
    return [save_picture(picture, folder, kind) for picture in study.pictures]


def table(studies: Iterable[Study]) -> str:
    """Return the rows of README.md."""
    head = ("item", "what", "in the paper", "here", "agrees?", "why not; what to know")
    rows = [head, ("---",) * len(head)]
    for study in studies:
        for line in study.lines:
            item = f"{study.source}, {line.item}"
            remark = " ".join(filter(None, (line.why_not, line.note)))
            cells = (item, line.what, line.paper, line.here, line.verdict, remark)
            rows.append(tuple(cell.replace("|", "\\|") for cell in cells))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_table(studies: Iterable[Study]) -> None:
    before, _, rest = README.read_text().partition(TABLE)
    _, _, after = rest.partition(END)
    README.write_text(before + TABLE + "\n" + table(studies) + "\n" + END + after)


def figures(studies: Iterable[Study]) -> str:
    """Return the sections of the page, one for each picture."""
    return "".join(_section(picture) for study in studies for picture in study.pictures)


def _section(picture: Picture) -> str:
    parts = [
        picture.item + "\n" + "-" * len(picture.item),
        textwrap.fill(f"*The paper:* {picture.claim}", 88),
        f".. image:: papers/{picture.file_stem}.svg\n   :alt: {picture.item}, again",
        textwrap.fill(f"*True?* {picture.verdict}", 88),
    ]
    return "\n\n".join(parts) + "\n\n"


def write_page(studies: list[Study]) -> None:
    before, _, _ = PAGE.read_text().partition(FIGURES)
    for study in studies:
        save_pictures(study, PAGE.with_suffix(""), "svg")
    PAGE.write_text(before + FIGURES + "\n" + figures(studies).rstrip() + "\n")
