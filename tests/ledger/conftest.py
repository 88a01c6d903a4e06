"""Ledgers in memory and in files, for each test of them."""

import os
import tempfile
from pathlib import Path

import pytest

from skparisk.ledger import PrivacyLedger


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """Return what makes ledgers, in memory and in files."""
    names = iter(range(1000))

    def in_file(*budget, **options):
        return PrivacyLedger(*budget, path=tmp_path / f"{next(names)}", **options)

    return PrivacyLedger if request.param == "memory" else in_file


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch, tmp_path_factory):
    """Markers of these tests are seen by no one else."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def filed(tmp_path):
    """Return the file of a ledger with two charges."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    ledger.spend(0.1, note="first")
    ledger.spend((0.2,), (0.3, 0.0, 0.1), note="second")
    return Path(ledger.path)


@pytest.fixture
def marker_folder():
    """Return the folder of markers."""
    return Path(tempfile.gettempdir(), f"skparisk-{os.getuid()}")
