"""A ledger as lines of JSON, which are imported with the same head."""

import hashlib
import io
import itertools
import json
import os
import stat
from pathlib import Path

import pytest
from ledgers import as_filed, every_composition

from skparisk.core.claim import DominatingLoss, Leak, as_certificate, mint
from skparisk.ledger import LedgerError, PrivacyLedger


def exported(ledger):
    """Return a ledger as text."""
    stream = io.StringIO()
    ledger.to_jsonl(stream)
    return stream.getvalue()


def imported(text, **options):
    """Return a ledger that was text."""
    return PrivacyLedger.from_jsonl(io.StringIO(text), **options)


def charged(ledger):
    """Return a ledger with two charges."""
    loss = DominatingLoss("laplace", 0.1, excess=1e-7)
    ledger.spend(mint(epsilon=0.1, relation="add-remove", loss=loss), note="ü\n\ud800")
    ledger.spend((0.1, 0.0, 0.1), mint(epsilon=0.2, leaks={Leak.CHOSEN}))
    return ledger


@every_composition
@pytest.mark.parametrize("in_file", [True, False])
def test_an_export_is_imported_with_the_same_head(make, budget, in_file, tmp_path):
    ledger = charged(make(**budget, gamma=0.5))
    path = tmp_path / "imported" if in_file else None
    again = imported(exported(ledger), path=path, head=ledger.head)
    assert again.path == (str(path) if in_file else None)
    for _ in range(2):
        assert again.head == ledger.head
        assert again.releases == as_filed(ledger)
        assert again.limit == ledger.limit
        assert again.spent == ledger.spent
        assert exported(again) == exported(ledger)
    again.spend(0.01)  # a ledger of its own from now on
    assert len(again.releases) == len(ledger.releases) + 1
    assert imported(exported(again), head=ledger.head).head == again.head


def test_an_export_is_lines_of_json_with_a_chain_of_hashes(make):
    ledger = make(1.0)
    ledger.spend(0.3, note="mean age")
    lines = exported(ledger).splitlines()
    budget, charge, checkpoint = map(json.loads, lines)
    assert budget["schema"] == "skparisk.ledger"
    assert (budget["epsilon"], budget["composition"]) == (1.0, "basic")
    assert charge["note"] == "mean age"
    assert charge["releases"] == [as_certificate(0.3).to_dict()]
    previous = ""
    for document in (budget, charge):
        stated = document.pop("sha256")
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256((previous + text).encode()).hexdigest()
        assert stated == previous
    assert checkpoint == {"lines": 2, "sha256": ledger.head}
    assert ledger.head == previous


def test_an_export_is_a_new_file_of_its_owner(make, tmp_path):
    ledger = charged(make(1.0, gamma=0.5))
    for file in (tmp_path / "a.jsonl", os.fsencode(tmp_path / "b.jsonl")):
        ledger.to_jsonl(file)
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        assert Path(os.fsdecode(file)).read_text() == exported(ledger)
        assert PrivacyLedger.from_jsonl(file).head == ledger.head
        with pytest.raises(FileExistsError):
            ledger.to_jsonl(file)


def test_an_import_does_not_write_over_anything(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    with pytest.raises(FileExistsError):
        imported(exported(ledger), path=ledger.path)


@pytest.mark.parametrize("in_file", [True, False])
def test_an_export_that_was_changed_is_refused(tmp_path, in_file):
    path = tmp_path / "ledger" if in_file else None
    text = exported(charged(PrivacyLedger(1.0)))
    for position in range(0, len(text), 7):
        changed = chr(ord(text[position]) ^ (1 + position % 31))
        with pytest.raises(LedgerError, match="the export"):
            imported(text[:position] + changed + text[position + 1 :], path=path)
    assert list(tmp_path.iterdir()) == []


def test_lines_of_an_export_that_are_missing_or_moved_are_noticed():
    lines = exported(charged(PrivacyLedger(1.0))).splitlines(keepends=True)
    orders = {
        order
        for n in range(len(lines) + 1)
        for order in itertools.permutations(range(len(lines)), n)
    }
    for order in orders - {(0, 1, 2, 3)}:
        with pytest.raises(LedgerError, match="the export"):
            imported("".join(lines[number] for number in order))


def test_a_file_that_is_no_export_is_refused(filed):
    with pytest.raises(LedgerError, match=f"line 1 of {filed} is not JSON"):
        PrivacyLedger.from_jsonl(filed)


def test_an_export_that_was_rewritten_is_found_out_by_a_head(make, tmp_path):
    head = charged(make(1.0, gamma=0.5)).head
    with pytest.raises(LedgerError, match="the export has no line with the hash"):
        imported(exported(PrivacyLedger(1.0)), head=head, path=tmp_path / "imported")
    assert not (tmp_path / "imported").exists()
