"""Pages that search engines can describe and screen readers can read."""

import re
import textwrap
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# Sphinx lists the parameters of a long signature as definitions without terms.
_PARAMETERS = re.compile(r"<dl>\n(?:<dd>.*</dd>\n)+</dl>")


def _mend(app: Sphinx, page: str, _: str, context: Any, doctree: Any) -> None:
    if doctree is None:
        return
    notes = nodes.Admonition  # above the text of examples
    paragraphs = doctree.findall(nodes.paragraph)
    texts = [p.astext() for p in paragraphs if not isinstance(p.parent, notes)]
    if texts and 'name="description"' not in context["metatags"]:
        text = escape(textwrap.shorten(texts[0], 160, placeholder="…"))
        context["metatags"] += f'<meta name="description" content="{text}" />\n'
    context["body"] = _PARAMETERS.sub(
        lambda found: re.sub("d[dl]>", "span>", found[0]), context["body"]
    )
    listed = context["generate_toctree_html"]
    # Sidebars have toggles without a name.
    context["generate_toctree_html"] = lambda *args, **options: str(
        listed(*args, **options)
    ).replace("<summary>", '<summary aria-label="Pages below">')


def setup(app: Sphinx) -> dict[str, Any]:
    """Mend each page after the theme has made its parts."""
    app.connect("html-page-context", _mend, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
