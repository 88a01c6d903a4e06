"""The package's modules import each other in one direction, and only what they need."""

import ast
import importlib
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import skparisk

ROOT = Path(skparisk.__file__).parent


def module_name(path):
    """Return the dotted name of a module's file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(tree):
    """Return the modules of the package that a syntax tree imports, anywhere in it.

    In functions and for type checkers alike.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not used here"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in SOURCES else node.module for name in inside]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "skparisk")


def graph(sources):
    """Return what each module imports."""
    return {name: {*imported(ast.parse(text))} for name, text in sources.items()}


def circle(edges):
    """Return a circle of imports, or None."""
    try:
        tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        return error.args[1]
    return None


def read_sources():
    """Return the text of each module."""
    return {name: path.read_text("utf-8") for name, path in SOURCES.items()}


@pytest.mark.slow
def test_no_module_imports_itself_by_way_of_others():
    """For type checkers neither."""
    edges = graph(read_sources())
    assert len(edges) > 100
    assert circle(edges) is None


def as_parts(edges):
    """Return what each part of the package imports: a folder, or a file beside them."""

    def part(name):
        return ".".join(name.split(".")[:2])

    parts = {part(name): set() for name in edges}
    for name, others in edges.items():
        parts[part(name)] |= {part(other) for other in others} - {part(name)}
    return parts


@pytest.mark.slow
def test_parts_import_each_other_in_one_direction():
    """A folder whose modules import another folder is not imported there."""
    assert circle(as_parts(graph(read_sources()))) is None


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "line",
    [
        "from skparisk.ledger import spend",
        "if TYPE_CHECKING:\n    from skparisk.ledger import spend",
        "def late():\n    import skparisk.ledger._book",
    ],
)
def test_a_circle_is_found(line):
    """Also one that is only for type checkers, or made in a function."""
    sources = read_sources()
    sources["skparisk.core.rounding"] += f"\n{line}\n"
    assert circle(graph(sources)) is not None
    assert circle(as_parts(graph(sources))) is not None


def loaded(code):
    """Return the modules that a fresh interpreter has after some code."""
    code = f"{code}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return {*run.stdout.split()}


def test_the_package_alone_imports_nothing_heavy():
    """What it exports is imported when it is asked for."""
    names = loaded("import skparisk")
    assert {name for name in names if "skparisk" in name} == {
        *("skparisk", "skparisk._version", "skparisk.core")
    }
    assert not {"numpy", "scipy", "sklearn", "joblib", "narwhals"} & names


@pytest.mark.slow
def test_estimators_import_no_part_of_scikit_learn_that_they_do_not_need():
    """Nor what only ledgers, pictures, costs and other extras need."""
    of_scikit_learn = loaded("import sklearn.linear_model")
    found = loaded("from skparisk import PrivateRidge") - of_scikit_learn
    heavy = {"cluster", "decomposition", "ensemble", "manifold", "naive_bayes", "svm"}
    assert not {f"sklearn.{name}" for name in heavy} & found
    assert not {"matplotlib", "pandas", "sqlite3", "dp_accounting", "tqdm"} & found
    assert "matplotlib" not in loaded("import skparisk.displays")
    assert not {f"skparisk.{name}" for name in ("cost", "displays", "papers")} & found


def test_all_that_is_exported_is_there(monkeypatch):
    """By name, by `dir`, and for type checkers."""
    for name in skparisk.__all__:
        assert name in dir(skparisk)
        assert getattr(skparisk, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'PublicRidge'"):
        _ = skparisk.PublicRidge
    for name in SOURCES:
        parts = name.split(".")
        if len(parts) == 2 and not parts[1].startswith("_"):
            assert parts[1] in dir(skparisk)
            assert getattr(skparisk, parts[1]).__name__ == name
    monkeypatch.delattr(skparisk, "papers")  # as before it is first imported
    assert skparisk.papers is importlib.import_module("skparisk.papers")
    checked = ast.parse(SOURCES["skparisk"].read_text("utf-8"))
    (block,) = (node for node in checked.body if isinstance(node, ast.If))
    names = {alias.name for node in block.body for alias in node.names}
    assert names | {"__version__"} == {*skparisk.__all__}


@pytest.mark.slow
def test_threads_may_ask_for_names_at_once():
    """None of them sees a module that another one is importing."""
    code = (
        "import skparisk\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from functools import partial\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    found = pool.map(partial(getattr, skparisk), skparisk.__all__)\n"
        "    assert None not in [*found]\n"
    )
    for _ in range(3):
        assert "skparisk.wrappers" in loaded(code)
