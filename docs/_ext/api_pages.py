"""The API reference: pages made from what the package exports.

Nothing is listed by hand. Each public module of skparisk gets a page, made from its
``__all__``. An object that two modules export is described once, under its shortest
name, and references to its other names lead there.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PACKAGE = "skparisk"
FOLDER = "api"
_LONGEST_VALUE = 300
_AUTOSUMMARY = ".. autosummary::\n   :nosignatures:\n\n"


@dataclass(frozen=True)
class Entry:
    """An exported object: the names it has, shortest first, and the object."""

    names: tuple[str, ...]
    target: Any

    @property
    def name(self) -> str:
        """The name it is described under: the shortest one to import."""
        return self.names[0]

    @property
    def module(self) -> str:
        """The module on whose page it is: the one its longest name is in."""
        return self.names[-1].rpartition(".")[0]

    @property
    def page(self) -> str:
        """The page it has if it is a class.

        By its longest name: skparisk.Report and skparisk.report would be one file on
        systems that do not tell upper from lower case.
        """
        return self.names[-1]

    @property
    def kind(self) -> str:
        """Its kind, as autodoc calls it."""
        if inspect.isclass(self.target):
            is_error = issubclass(self.target, BaseException)
            return "exception" if is_error else "class"
        return "function" if inspect.isroutine(self.target) else "data"


def public_modules(package: str = PACKAGE) -> list[str]:
    """Return the package and all modules in it that export something, in order."""
    found = importlib.import_module(package)
    names = [package] if hasattr(found, "__all__") else []
    for info in pkgutil.iter_modules(getattr(found, "__path__", ())):
        if not info.name.startswith("_"):
            names += public_modules(f"{package}.{info.name}")
    return names


def exports(module: str) -> list[str]:
    """Return the full names of what a module exports, but for modules."""
    found = importlib.import_module(module)
    own = [name for name in found.__all__ if not inspect.ismodule(getattr(found, name))]
    return [f"{module}.{name}" for name in own]


def lookup(name: str) -> Any:
    """Return the exported object of this name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def entries(package: str = PACKAGE) -> list[Entry]:
    """Return each exported object once, with all its names."""
    names: dict[Any, list[str]] = {}
    for module in public_modules(package):
        for name in exports(module):
            target = lookup(name)
            # By its name as well: equal constants may be one object by chance.
            key = (name.rpartition(".")[2], id(target))
            names.setdefault(key, []).append(name)
    listed = (sorted(same, key=lambda n: (n.count("."), n)) for same in names.values())
    return [Entry(tuple(same), lookup(same[0])) for same in listed]


def members(cls: type) -> tuple[list[str], list[str]]:
    """Return the public methods and properties: the package's own, and others."""
    own: dict[str, bool] = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            is_method = callable(value) or hasattr(value, "__get__")
            if is_method and not name.startswith("_"):
                own.setdefault(name, _is_own(value, base))
    mine = sorted(name for name in own if own[name])
    return mine, sorted(set(own).difference(mine))


def shown_members(cls: type) -> list[str]:
    """Return the members that get an entry of their own.

    Those of the package, but for what has no docstring and is in the class's own.
    """
    listed = inspect.getdoc(cls) or ""
    return [
        name
        for name in members(cls)[0]
        if callable(getattr(cls, name))
        or inspect.getdoc(inspect.getattr_static(cls, name))
        or not re.search(rf"^(.*, )?{name}(, .*)? : ", listed, re.MULTILINE)
    ]


def _is_own(value: Any, base: type) -> bool:
    """Tell if a method was written in the package, and not put there by a base."""
    for inside in ("fget", "func", "fn", "__func__"):
        value = getattr(value, inside, value)
    written = getattr(value, "__module__", None) or base.__module__
    return f"{written}.".startswith(f"{PACKAGE}.")


def pages() -> dict[str, str]:
    """Return the text of each page of the reference, by file name."""
    listed = entries()
    made = {"index.rst": _index()}
    for module in public_modules():
        made[f"{module}.rst"] = _module_page(module, listed)
    for entry in listed:
        if entry.kind == "class":
            made[f"{entry.page}.rst"] = _class_page(entry)
    return made


def _title(text: str, line: str = "=") -> str:
    escaped = text.replace("_", r"\_")
    return f"{escaped}\n{line * len(escaped)}\n\n"


def _index() -> str:
    modules = "\n".join(f"   {module}" for module in public_modules())
    linked = modules.replace("   ", "   ~")
    return (
        f"{_title('Reference')}"
        "Most programs need only names from :mod:`skparisk`; each is described in its\n"
        "own module. Parameters that all private estimators share are explained once,\n"
        "in :ref:`private-parameters`; :doc:`../extending` adds your own classes.\n\n"
        f"{_AUTOSUMMARY}{linked}\n\n.. toctree::\n   :hidden:\n\n"
        f"   ../private_parameters\n   ../extending\n{modules}\n"
    )


def _module_page(module: str, listed: list[Entry]) -> str:
    shown = [entry for entry in listed if module in _modules(entry)]
    here = [entry for entry in shown if entry.module == module]
    text = f"{_title(module)}.. automodule:: {module}\n   :no-members:\n\n"
    documented = [entry for entry in shown if entry.kind != "data"]
    if documented:
        lines = "\n".join(f"   ~{entry.name}" for entry in documented)
        text += f".. currentmodule:: None\n\n{_AUTOSUMMARY}{lines}\n\n"
    classes = [entry.page for entry in here if entry.kind == "class"]
    if classes:
        lines = "\n".join(f"   {name}" for name in classes)
        text += f".. toctree::\n   :hidden:\n\n{lines}\n\n"
    for heading, kinds in (
        ("Functions", ("function",)),
        ("Errors and warnings", ("exception",)),
        ("Constants", ("data",)),
    ):
        chosen = [entry for entry in here if entry.kind in kinds]
        if chosen:
            text += _title(heading, "-") + "".join(map(_describe, chosen))
    return text


def _class_page(entry: Entry) -> str:
    _, inherited = members(entry.target)
    text = _title(entry.name.rpartition(".")[2]) + _describe(entry)
    if inherited:
        names = ", ".join(f"``{name}``" for name in inherited)
        text += f"Methods of base classes outside the package: {names}.\n\n"
    return f"{text}.. minigallery:: {entry.name}\n   :add-heading: Examples\n"


def _modules(entry: Entry) -> set[str]:
    return {name.rpartition(".")[0] for name in entry.names}


def _describe(entry: Entry) -> str:
    module, _, name = entry.name.rpartition(".")
    text = f".. currentmodule:: {module}\n\n"
    if entry.kind == "data":
        value = repr(entry.target)
        tells = len(value) <= _LONGEST_VALUE and " at 0x" not in value
        shown = f"   :value: {value}\n" if tells else ""
        return f"{text}.. py:data:: {name}\n{shown}\n"
    text += f".. auto{entry.kind}:: {name}\n"
    own = shown_members(entry.target) if inspect.isclass(entry.target) else []
    if own:
        text += f"   :members: {', '.join(own)}\n   :undoc-members:\n"
    return f"{text}\n"


def write_pages(folder: Path) -> None:
    """Write the pages that changed, and remove those of names that are gone."""
    made = pages()
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.rst"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


@functools.cache
def described_names() -> dict[str, str]:
    """Return under which name each object is described, by all names for it.

    Bare names count where only one object is exported under them.
    """
    listed = entries()
    names = {name: entry.name for entry in listed for name in entry.names}
    bare = {(name.rpartition(".")[2], home) for name, home in names.items()}
    counts = Counter(name for name, _ in bare)
    names.update((name, home) for name, home in bare if counts[name] == 1)
    return names


def described_name(target: str) -> str | None:
    """Return the name under which what a reference leads to is described."""
    names = described_names()
    parts = target.split(".")
    for size in range(len(parts), 0, -1):
        head, rest = ".".join(parts[:size]), parts[size:]
        if head in names:
            return ".".join([names[head], *rest])
    return None


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.reference | None:
    """Lead a reference by another name of an object to where it is described."""
    if node.get("refdomain") != "py":
        return None
    name = described_name(node["reftarget"])
    if name is None or name == node["reftarget"]:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], name, node, contnode
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    write_pages(Path(app.srcdir) / FOLDER)
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
