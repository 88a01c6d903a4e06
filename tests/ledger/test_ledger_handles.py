"""A ledger is a handle: its copies are the same, and its words are safe to file."""

import copy
import dataclasses
import html
import pickle
import re

import pytest
from ledgers import every_composition
from sklearn.base import clone

from skparisk.core.rounding import ceil_text
from skparisk.ledger import LedgerEntry, PrivacyLedger


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        clone,
        lambda ledger: clone(ledger, safe=False),
        lambda ledger: copy.deepcopy({"inside": [ledger]})["inside"][0],
    ],
)
def test_copies_are_the_same_ledger(make, duplicate):
    ledger = make(1.0)
    assert duplicate(ledger) is ledger


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_ledger_cannot_be_pickled(make, protocol):
    with pytest.raises(TypeError, match=r"PrivacyLedger\.open"):
        pickle.dumps(make(1.0), protocol)


def test_an_entry_cannot_be_changed():
    ledger = PrivacyLedger(1.0)
    ledger.spend(0.1)
    (entry,) = ledger.releases
    assert isinstance(entry, LedgerEntry)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.note = "other"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", entry.time)


@every_composition
def test_a_ledger_is_filed_in_words(budget, tmp_path):
    ledger = PrivacyLedger(**budget, gamma=0.5, path=tmp_path / "ledger")
    ledger.spend((0.25, 1e-7 if "delta" in budget else 0.0, 0.05), note="mean <age>")
    ledger.spend(0.1, note="a\n  2. forged line")
    text, page = str(ledger), ledger._repr_html_()
    for words in (
        "epsilon 1",
        "risk 0.5",
        f"epsilon {ceil_text(ledger.spent.epsilon)}",
        "one release at epsilon 0.6",
        "epsilon 0.25",
        "mean <age>",
        "a 2. forged line",
        ledger.spent.guarantee,
        *ledger.spent.conditions,
        str(tmp_path / "ledger"),
        ledger.head,
    ):
        assert words in text
        assert html.escape(words) in page
    assert "<age>" not in page
    assert sum("forged" in line for line in text.splitlines()) == 1
    assert repr(ledger).startswith("PrivacyLedger(epsilon=1.0, delta=")


def test_a_note_cannot_act_on_a_terminal(make):
    ledger = make(1.0)
    note = "\x1b[2J\ud800\u202eü\u2028end"
    ledger.spend(0.1, note=note)
    assert ledger.releases[0].note == note
    for text in (str(ledger), ledger._repr_html_()):
        assert "\\x1b[2J\\ud800\\u202eü end" in text
        assert all(line.isprintable() for line in text.splitlines())


def test_numbers_in_words_are_rounded_to_the_safe_side():
    ledger = PrivacyLedger(1.0)
    ledger.spend(0.12345671)
    assert "spent: epsilon 0.123457" in str(ledger)
    assert "one release at epsilon 0.876543" in str(ledger)
