"""The documentation: what it names is there, and all that is exported is in it."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import os
import re
import runpy
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import skparisk
from benchmarks import worth
from skparisk import PrivateRidge, cost

ROOT = Path(__file__).parent.parent
MADE = {"_build", "api", "examples"}  # by a build
PAGES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.rst")
    if page.relative_to(ROOT / "docs").parts[0] not in {*MADE, "gallery"}
)
# The scripts of the gallery, without the marks of comments, where a build puts them.
SCRIPTS = {
    f"docs/examples/{script.stem}.rst": re.sub("(?m)^# ?", "", script.read_text())
    for script in (ROOT / "docs" / "gallery").glob("*.py")
}
GALLERY = "docs/examples/index.rst"
TEXTS = {
    **{page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES},
    **SCRIPTS,
    GALLERY: (ROOT / "docs" / "gallery" / "GALLERY_HEADER.rst").read_text(),
}
LABELS = {
    label
    for text in TEXTS.values()
    for label in re.findall(r"^\.\. _(.+):$", text, re.M)
}
NAMED = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff")
TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)\(", file.read_text())
}


def load_api_pages():
    """Import the extension, which needs no Sphinx for making the pages."""
    file = ROOT / "docs" / "_ext" / "api_pages.py"
    spec = importlib.util.spec_from_file_location("api_pages", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["api_pages"] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module


api_pages = load_api_pages()


def documented():
    """Return the names that the reference describes, each as often as it does."""
    found = []
    for text in api_pages.pages().values():
        module = None
        for directive, name in re.findall(r"^\.\. ([\w:]+):: (\S+)", text, re.M):
            if directive == "currentmodule":
                module = name
            elif directive in {"autoclass", "autoexception", "autofunction", "py:data"}:
                found.append(f"{module}.{name}")
    return found


def is_there(target):
    """Tell if a dotted name leads to a module or to an object in one."""
    parts = target.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for name in parts[size:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_a_name_that_leads_nowhere_is_noticed():
    assert is_there("skparisk.SensitivitySampler.fit")
    assert not is_there("skparisk.SensitivitySampler.fitt")
    assert not is_there("skparisq.SensitivitySampler")


def test_objects_that_pages_refer_to_exist():
    roles = r":(?:attr|class|func|mod|meth):`~?(?:[^`<]*<)?([\w.]+)>?`"
    named = {target for text in TEXTS.values() for target in re.findall(roles, text)}
    assert len(named) > 100
    assert not [target for target in named if not is_there(target)]


def test_pages_and_theorems_that_pages_refer_to_exist():
    for page, text in TEXTS.items():
        labels = re.findall(r":ref:`(?:[^`<]*<)?([^`<>]+)>?`", text)
        assert set(labels) <= LABELS, page
        folder = Path(page).parent
        documents = re.findall(r":doc:`(?:[^`<]*<)?([^`<>]+)>?`", text)
        # The reference is written when the site is built.
        kept = [name for name in documents if not name.startswith("api/")]
        paths = {os.path.normpath(folder / f"{name}.rst") for name in kept}
        assert paths <= set(TEXTS), page


def test_tests_that_pages_refer_to_exist():
    for page, text in TEXTS.items():
        files = re.findall(r"``(tests/[\w/.]+)``", text)
        assert all((ROOT / file).is_file() for file in files), page
        assert set(re.findall(r"``(test_\w+)``", text)) <= TESTS, page


def test_theorems_that_docstrings_refer_to_exist():
    named = {
        label
        for file in (ROOT / "skparisk").rglob("*.py")
        for label in re.findall(r":ref:`([^`<>]+)`", file.read_text())
    }
    assert named <= LABELS
    assert named


def links(page):
    """Return the pages that a page links to, in its text and its table of contents."""
    text, folder = TEXTS[page], Path(page).parent
    named = re.findall(r":doc:`(?:[^`<]*<)?([^`<>]+)>?`", text)
    for listed in re.findall(r"^\.\. toctree::\n((?:(?: .*)?\n)*)", text, re.M):
        named += re.findall(r"^ +([\w/]+)$", listed, re.M)
    found = {os.path.normpath(folder / f"{name}.rst") for name in named}
    found |= set(SCRIPTS) if page == GALLERY else set()
    for label in re.findall(r":ref:`(?:[^`<]*<)?([^`<>]+)>?`", text):
        found |= {other for other in TEXTS if f".. _{label}:\n" in TEXTS[other]}
    return found & set(TEXTS)


def clicks(start="docs/index.rst"):
    """Return how many clicks each page is from the landing page, where it is linked."""
    found, now = {start: 0}, {start}
    while now:
        step = {other for page in now for other in links(page)} - set(found)
        found.update(dict.fromkeys(step, 1 + max(found.values())))
        now = step
    return found


def test_every_page_is_reached_from_the_landing_page():
    assert set(clicks()) == set(TEXTS)


def test_what_a_newcomer_asks_is_two_clicks_away_at_most():
    far = clicks()
    for page, answer in (
        ("no_public_data", "I have no public data"),
        ("choosing", "How do I choose?"),
        ("choosing", "What does γ mean?"),
        ("tutorial", "words beside numbers, and gaps"),
        ("which_guarantee", "Which tool?"),
        ("getting_started", "A pipeline"),
        ("people", "People with several rows"),
        ("help", "How many public rows do I need?"),
        ("stewards_guide", "Before you sign"),
        ("stewards_guide", "GDPR Art. 35"),
        ("stewards_guide", "Keep a budget"),
        ("stewards_guide", "File it"),
        ("command_line", "Verify the files"),
        ("reading_certificate", "The verdict."),
        ("help", "Search by message"),
        ("help", "Is it faster with more cores?"),
        ("help", "Can I publish the score"),
        ("help", "How do I cite it?"),
        ("privacy_promise", "Who is not protected"),
    ):
        assert answer in TEXTS[f"docs/{page}.rst"]
        assert far[f"docs/{page}.rst"] <= 2


def said():
    """Return all texts of the package, with a mark for what is filled in."""
    texts = []
    for file in (ROOT / "skparisk").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", "") for part in node.values]
                texts.append("".join(p if isinstance(p, str) else "\0" for p in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


@pytest.mark.slow
def test_messages_that_are_explained_are_those_of_the_package():
    page = TEXTS["docs/help.rst"]
    messages = re.findall(r'^"(.+)"$', page, re.M)
    assert len(messages) > 15
    texts = said()
    for message in messages:
        assert all(part.strip() in texts for part in message.split("...")), message


@pytest.mark.slow
def test_the_readme_says_what_is_so():
    """Its example runs, and the files that it names are there."""
    text = (ROOT / "README.md").read_text()
    flags = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    example = text.replace("```", "")
    test = doctest.DocTestParser().get_doctest(example, {}, "README.md", None, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=flags).run(test).failed == 0
    named = re.findall(r"\]\(([^)]+)\)|`((?:docs|tests)/[\w/.]+|[A-Z]+\.\w+)`", text)
    files = {one or other for one, other in named}
    assert {"docs/_static/worth.svg", "SECURITY.md"} <= files
    assert all((ROOT / file).exists() for file in files - {"docs/_build/html"})


def test_pictures_of_pages_are_there():
    for page, text in TEXTS.items():
        for file in re.findall(r"^\.\. (?:image|figure):: (\S+)$", text, re.M):
            drawn = re.fullmatch(r"/(examples)/images/sphx_glr_(\w+)_\d+\.png", file)
            if drawn:
                assert "docs/{}/{}.rst".format(*drawn.groups()) in SCRIPTS
            else:
                assert (ROOT / page).parent.joinpath(file).is_file()


@pytest.mark.slow
def test_the_picture_of_the_landing_page_is_drawn_by_its_script(tmp_path):
    medians = np.array([worth.scores(repeat, sizes=(100, 300)) for repeat in range(2)])
    assert medians.shape == (2, 2, len(worth.WAYS))
    worth.draw(medians[0], tmp_path / "picture.svg", sizes=(100, 300))
    assert "<svg" in (tmp_path / "picture.svg").read_text()


def test_the_citation_is_of_this_version():
    assert f"version: {skparisk.__version__}\n" in (ROOT / "CITATION.cff").read_text()


# Many fits.
LONG = ("docs/no_public_data.rst", "docs/tutorial.rst")


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in LONG))
        for page in TEXTS
        if "/examples/" not in page
    ],
)
def test_examples_of_a_page_run(page):
    """Those of the gallery run in `test_gallery`."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    result = doctest.testfile(str(ROOT / page), False, optionflags=flags)
    assert result.failed == 0


UNTOLD = re.compile(r"True|False|\([\d, ]*\)")


def test_outputs_are_something_to_read():
    """Never a bare truth value, and never a shape or counts without a word."""
    for page in TEXTS:
        examples = doctest.DocTestParser().get_examples(TEXTS[page])
        outputs = {example.want.strip() for example in examples}
        found = [output for output in outputs if UNTOLD.fullmatch(output)]
        assert not found or "/theory/" in page, page


@pytest.mark.parametrize("output", ["True", "False", "(4,)", "(1, 26)", "()"])
def test_an_output_that_teaches_nothing_is_noticed(output):
    assert UNTOLD.fullmatch(output)
    assert not UNTOLD.fullmatch(f"{output} people")


# Blocks of the README and of the guides that no test runs as they are, and why.
NOT_RUN = {
    "python -m pip install . && python -m skparisk demo": "continuous integration does",
    'python -m pip install ".[test]" && python -m pytest -n auto': "it runs the tests",
    "python -m pip install .": "installs",
    '$ python -m pip install ".[cli]"': "installs",
    "mech <- DPMechLaplace(": "R, of another package",
    "skparisk/\n": "a tree of folders",
    "import joblib\nfrom dask.distributed import Client": "test_dask.py has a cluster",
    'python -m pip install -e ".[dev,docs]"': "what developers run, as .ci/run does",
    'python -m pip install "mutmut>=3.8"': "installs, and takes long",
}
COMMANDS = r"(\$ )?skparisk [a-z]"  # run by test_command_line_page.py
# Read by it.
FILES = (
    "epsilon = 1.5\ngamma = 0.05\n",
    'target = "cost"\n[columns',
    'project = "Costs of injuries"\n',
    "The guarantee stands: ",
)


def blocks(text, page):
    """Return the blocks of code of a text that have no prompt of Python."""
    if page.endswith(".md"):
        found = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    else:
        opened = r"^(?:\.\. code-block:: \w+|(?!\.\. ).*::)\n\n((?:(?: +.*)?\n)+)"
        found = re.findall(opened, text + "\n", re.M)
    return [b for b in map(inspect.cleandoc, found) if not b.startswith(">>>")]


def test_every_block_of_code_is_run_or_named_with_a_reason():
    guides = {p: text for p, text in TEXTS.items() if p.count("/") == 1}
    for name in ("README.md", "CONTRIBUTING.md"):
        guides[name] = (ROOT / name).read_text()
    found = [b for page, text in guides.items() for b in blocks(text, page)]
    run = [b for b in found if re.match(COMMANDS, b) or b.startswith(FILES)]
    others = [b for b in found if b not in run]
    named = [[start for start in NOT_RUN if b.startswith(start)] for b in others]
    assert all(named), others
    assert {start for starts in named for start in starts} == set(NOT_RUN)
    assert len(run) > 5


def test_a_block_that_nobody_runs_is_noticed():
    page = "Text::\n\n    rm -rf\n    all\n\n.. code-block:: bash\n\n   ls\n"
    assert blocks(page, "docs/page.rst") == ["rm -rf\nall", "ls"]
    assert blocks("```sh\nls\n```\n```python\n>>> 1\n1\n```\n", "a.md") == ["ls"]


def test_links_to_other_sites_are_well_formed():
    """Nothing is opened: the tests need no network."""
    texts = [*TEXTS.values(), *((ROOT / name).read_text() for name in NAMED)]
    found = {link for text in texts for link in re.findall(r"https?:[^\s<>`]+", text)}
    assert found
    for link in found:
        parts = urlsplit(link.rstrip(".,;)"))
        assert parts.scheme == "https"
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc), link
        assert not re.search(r"[()\[\]{}\"\\|^]", parts.path), link


def test_all_that_is_exported_is_described_once():
    times = Counter(documented())
    assert set(times.values()) == {1}
    described = {id(api_pages.lookup(name)) for name in times}
    modules = api_pages.public_modules()
    exported = {name for module in modules for name in api_pages.exports(module)}
    assert set(times) <= exported
    assert {id(api_pages.lookup(name)) for name in exported} == described


def test_modules_of_the_reference_are_those_without_an_underscore():
    modules = api_pages.public_modules()
    assert {"skparisk", "skparisk.core", "skparisk.datasets"} <= set(modules)
    assert not any("._" in module for module in modules)
    assert not any(module.startswith("skparisk.core.") for module in modules)
    index = api_pages.pages()["index.rst"]
    assert re.findall(r"^   (skparisk\S*)$", index, re.M) == modules


def test_a_name_that_is_not_exported_any_more_leaves_the_reference(monkeypatch):
    assert "skparisk.cost.CostModel" in documented()
    assert "skparisk.cost.CostModel.rst" in api_pages.pages()
    left = [name for name in cost.__all__ if name != "CostModel"]
    monkeypatch.setattr(cost, "__all__", left)
    assert "skparisk.cost.CostModel" not in documented()
    assert "CostModel" not in "".join(api_pages.pages())


def test_all_names_of_an_object_lead_to_one_entry():
    for above in ("skparisk.linear_model.", "skparisk.", ""):
        target = f"{above}PrivateRidge.fit"
        assert api_pages.described_name(target) == "skparisk.PrivateRidge.fit"


def test_a_name_that_is_not_exported_leads_nowhere():
    assert api_pages.described_name("skparisk.linear_model.PrivateRigde") is None


def test_pages_are_the_same_in_every_process():
    assert not any(" at 0x" in text for text in api_pages.pages().values())


def test_pages_have_names_that_differ_in_more_than_case():
    assert set(Counter(name.lower() for name in api_pages.pages()).values()) == {1}


def test_modules_that_are_exported_have_their_own_page_only(monkeypatch):
    names = documented()
    monkeypatch.setattr(skparisk, "__all__", [*skparisk.__all__, "cost"])
    assert documented() == names


def test_constants_of_one_name_are_told_apart(monkeypatch):
    monkeypatch.setattr(cost, "__all__", [*cost.__all__, "Database"])
    monkeypatch.setattr(cost, "Database", ("another",), raising=False)
    assert {"skparisk.cost.Database", "skparisk.neighbors.Database"} <= set(
        documented()
    )


def test_methods_that_scikit_learn_adds_are_named_only():
    own, others = api_pages.members(PrivateRidge)
    assert {"fit", "predict"} <= set(own)
    assert {"get_params", "score", "set_fit_request"} <= set(others)
    page = api_pages.pages()["skparisk.linear_model.PrivateRidge.rst"]
    assert "``set_fit_request``" in page
    assert "set_fit_request" not in re.search(r":members: (.*)", page)[1]


def test_public_members_are_in_the_reference():
    """Each has an entry, or is an attribute that the docstring of its class has."""
    for entry in api_pages.entries():
        if inspect.isclass(entry.target):
            own, _ = api_pages.members(entry.target)
            shown = set(api_pages.shown_members(entry.target))
            for name in set(own) - shown:
                assert not callable(getattr(entry.target, name))
                assert name in entry.target.__doc__


def test_guarantees_are_not_in_the_list_of_parameters():
    """After a section, the paragraph needs a heading of its own: Notes."""
    found = 0
    for file in (ROOT / "skparisk").rglob("*.py"):
        for text in re.findall(r'"""(.*?)"""', file.read_text(), re.S):
            before, marked, _ = inspect.cleandoc(text).partition("**Guarantee**")
            headings = re.findall(r"^(\w[\w ]*)\n-+$", before, re.M)
            assert not marked or headings[-1:] in ([], ["Notes"]), file
            found += bool(marked)
    assert found > 50


def test_pages_are_written_where_they_change_and_removed_with_their_names(tmp_path):
    folder = tmp_path / "api"
    api_pages.write_pages(folder)
    assert {file.name for file in folder.iterdir()} == set(api_pages.pages())
    written = folder / "skparisk.linear_model.PrivateRidge.rst"
    before = written.stat().st_mtime_ns
    (folder / "skparisk.Gone.rst").write_text("Gone\n====\n")
    (folder / "skparisk.cost.rst").write_text("")
    api_pages.write_pages(folder)
    assert {file.name for file in folder.iterdir()} == set(api_pages.pages())
    assert (folder / "skparisk.cost.rst").read_text()
    assert written.stat().st_mtime_ns == before


def test_the_build_needs_no_network(monkeypatch):
    """Inventories of other projects are here, and formulas need no server."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # conf.py adds to it
    conf = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    for _, inventory in conf["intersphinx_mapping"].values():
        lines = (ROOT / "docs" / inventory).read_text().splitlines()[3:]
        assert all(is_there(line.split()[0]) for line in lines)
    assert "sphinx-mathjax-offline" in conf["extensions"]
    assert (ROOT / "docs" / "conf.py").read_text().count("://") == 1
    assert conf["release"] == skparisk.__version__
