"""The pages of the documentation: what they name is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.rst"))
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
LABELS = {
    label
    for text in TEXTS.values()
    for label in re.findall(r"^\.\. _(.+):$", text, re.M)
}
TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)\(", file.read_text())
}


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


@pytest.mark.parametrize("page", TEXTS)
def test_objects_that_a_page_refers_to_exist(page):
    roles = r":(?:class|func|mod|meth):`~?(?:[^`<]*<)?([\w.]+)>?`"
    missing = [t for t in re.findall(roles, TEXTS[page]) if not is_there(t)]
    assert not missing


@pytest.mark.parametrize("page", TEXTS)
def test_pages_and_theorems_that_a_page_refers_to_exist(page):
    text = TEXTS[page]
    labels = re.findall(r":ref:`(?:[^`<]*<)?([^`<>]+)>?`", text)
    assert set(labels) <= LABELS
    folder = (ROOT / page).parent
    documents = re.findall(r":doc:`(?:[^`<]*<)?([^`<>]+)>?`", text)
    assert all((folder / f"{name}.rst").is_file() for name in documents)


@pytest.mark.parametrize("page", TEXTS)
def test_tests_that_a_page_refers_to_exist(page):
    text = TEXTS[page]
    files = re.findall(r"``(tests/[\w/.]+)``", text)
    assert all((ROOT / file).is_file() for file in files)
    names = set(re.findall(r"``(test_\w+)``", text))
    assert names <= TESTS


def test_theorems_that_docstrings_refer_to_exist():
    named = {
        label
        for file in (ROOT / "skparisk").rglob("*.py")
        for label in re.findall(r":ref:`([^`<>]+)`", file.read_text())
    }
    assert named <= LABELS
    assert named
