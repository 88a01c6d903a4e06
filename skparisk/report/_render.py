"""A report as a page, which needs nothing else, and as Markdown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skparisk._text import printable
from skparisk.report._sections import Section

# No script, no network: the page says so itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1c20; --page: #ffffff; --quiet: #565b66;
  --rule: #c9ccd3; --mark: #0b57a4; --alarm: #9b1c00; --track: #e3e6eb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9eaee; --page: #15171b;
  --quiet: #a7adba; --rule: #444a55; --mark: #8ab8ff; --alarm: #ffb19e;
  --track: #333945; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 50rem; padding: 1rem; color: var(--ink);
  background: var(--page); font: 1rem/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; padding-top: 0.5rem;
  border-top: 1px solid var(--rule); }
p.verdict { font-size: 1.1rem; font-weight: 600; }
.alarm { color: var(--alarm); font-weight: 600; }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0;
  border-bottom: 1px solid var(--rule); }
table.pairs { table-layout: fixed; }
table.pairs th { width: 36%; font-weight: 500; color: var(--quiet); }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
.wide { overflow-x: auto; overflow-wrap: break-word; margin-top: 1rem; }
figure { margin: 1rem 0; max-width: 32rem; }
figcaption { color: var(--quiet); }
svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.track { fill: var(--track); } .bar { fill: var(--mark); }
.quiet { fill: var(--quiet); }
.axis, .line { fill: none; stroke: var(--quiet); }
.line { stroke: var(--mark); stroke-width: 2; }
@media print { :root { --ink: #000; --page: #fff; --quiet: #333; --alarm: #000; }
  body { max-width: none; font-size: 10pt; } h2 { break-after: avoid; }
  tr, figure { break-inside: avoid; } }
"""


def as_page(title: str, verdict: str, sections: Iterable[Section], alarm: bool) -> str:
    """Return a page of HTML: all that is in it is escaped, but for its own pictures."""
    mark = " alarm" if alarm else ""
    body = "".join(map(_section_in_html, sections))
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{_text(title)}</h1>\n"
        f"<p class='verdict{mark}'>{_text(verdict)}</p>\n"
        f"{body}</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return html.escape(printable(text))


def _section_in_html(section: Section) -> str:
    mark = " class='alarm'" if section.alarm else ""
    parts = [f"<h2>{_text(section.title)}</h2>"]
    parts += [f"<p{mark}>{_text(text)}</p>" for text in section.texts]
    if section.items:
        listed = "".join(f"<li>{_text(item)}</li>" for item in section.items)
        parts.append(f"<ul>{listed}</ul>")
    caption = f"<caption>{_text(section.title)}</caption>"
    if section.rows:
        rows = "".join(
            f"<tr><th scope='row'>{_text(name)}</th><td>{_text(value)}</td></tr>"
            for name, value in section.rows
        )
        parts.append(f"<table class='pairs'>{caption}<tbody>{rows}</tbody></table>")
    if section.table:
        head, *others = section.table
        titles = "".join(f"<th scope='col'>{_text(name)}</th>" for name in head)
        rows = "".join(
            f"<tr><th scope='row'>{_text(row[0])}</th>"
            f"{''.join(f'<td>{_text(cell)}</td>' for cell in row[1:])}</tr>"
            for row in others
        )
        # It may be wider than a phone, and is then scrolled, also by keys.
        parts.append(
            f"<div class='wide' role='region' tabindex='0' "
            f"aria-label='{_text(section.title)}'>"
            f"<table>{caption}<thead><tr>{titles}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )
    return f"<section>{''.join((*parts, *section.pictures))}</section>\n"


def as_markdown(
    title: str, verdict: str, sections: Iterable[Section], head: Mapping[str, Any]
) -> str:
    """Return Markdown with a head of YAML, as model cards have."""
    # What JSON writes on one line is YAML as well.
    given = {name: json.dumps(head[name], ensure_ascii=False) for name in head}
    lines = ["---", *(f"{name}: {given[name]}" for name in given), "---", ""]
    lines += [f"# {_plain(title)}", "", f"**{_plain(verdict)}**"]
    for section in sections:
        lines += ["", f"## {_plain(section.title)}"]
        for text in section.texts:
            lines += ["", _plain(text)]
        lines += ["", *(f"- {_plain(item)}" for item in section.items)]
        if section.rows:
            lines += ["", *_table((("field", "value"), *section.rows))]
        if section.table:
            lines += ["", *_table(section.table)]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *others = ["| " + " | ".join(map(_plain, row)) + " |" for row in rows]
    return [head, "|" + " --- |" * len(rows[0]), *others]


def _plain(text: str) -> str:
    """Return a text that Markdown, and HTML in it, show as it is."""
    escaped = re.sub(r"([\\`*_\[\]#|~$!])", r"\\\1", printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
