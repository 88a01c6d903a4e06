"""A ledger as lines of JSON."""

import hashlib
import io
import json
import os
import stat
from pathlib import Path

import pytest

from skparisk.core.claim import DominatingLoss, Leak, as_certificate, mint


def exported(ledger):
    """Return a ledger as text."""
    stream = io.StringIO()
    ledger.to_jsonl(stream)
    return stream.getvalue()


def charged(ledger):
    """Return a ledger with two charges."""
    loss = DominatingLoss("laplace", 0.1, excess=1e-7)
    ledger.spend(mint(epsilon=0.1, relation="add-remove", loss=loss), note="ü\n\ud800")
    ledger.spend((0.1, 0.0, 0.1), mint(epsilon=0.2, leaks={Leak.CHOSEN}))
    return ledger


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
        with pytest.raises(FileExistsError):
            ledger.to_jsonl(file)
