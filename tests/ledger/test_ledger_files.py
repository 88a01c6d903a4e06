"""A ledger in a file: what it holds, where it may be, and what is not written over."""

import os
import stat
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from ledgers import database, every_composition, join, levels, reopened

from skparisk.core.claim import DominatingLoss, Leak, mint
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import LedgerError, PrivacyLedger, _book

# A ledger in a file


@every_composition
def test_a_file_holds_what_was_charged(budget, tmp_path):
    ledger = PrivacyLedger(**budget, gamma=0.5, path=tmp_path / "ledger")
    loss = DominatingLoss("laplace", 0.1, excess=1e-7)
    ledger.spend(mint(epsilon=0.1, relation="add-remove", loss=loss), note="ü\n")
    ledger.spend((0.1, 0.0, 0.1), mint(epsilon=0.2, leaks={Leak.CHOSEN}))
    again = reopened(ledger, head=ledger.head)
    assert again.releases == ledger.releases
    assert again.limit == ledger.limit
    assert again.spent == ledger.spent
    assert str(again) == str(ledger)
    assert repr(again) == repr(ledger)


def test_handles_of_one_file_know_of_each_other(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = reopened(ledger)
    ledger.spend(0.3)
    other.spend(0.4)
    assert levels(ledger) == levels(other) == [0.3, 0.4]
    assert ledger.remaining() == other.remaining() == 0.3
    with pytest.raises(BudgetExceededError):
        ledger.spend(0.31)
    assert ledger.head == other.head


def test_nothing_but_the_file_is_left_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "ledger"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.spend(0.1)
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_is_not_written_over(tmp_path):
    path = tmp_path / "ledger"
    PrivacyLedger(1.0, path=path).spend(0.1)
    content = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"PrivacyLedger\.open"):
        PrivacyLedger(1.0, path=path)
    assert path.read_bytes() == content


def test_a_journal_of_something_else_is_not_written_over(tmp_path):
    other = tmp_path / "ledger-journal"
    other.write_text("precious")
    with pytest.raises(FileExistsError, match="ledger-journal exists"):
        PrivacyLedger(1.0, path=tmp_path / "ledger")
    assert list(tmp_path.iterdir()) == [other]
    assert other.read_text() == "precious"


@pytest.mark.parametrize("name", ["a-journal", "A-WAL", "a-shm"])
def test_a_ledger_is_not_named_as_a_file_beside_another(tmp_path, name):
    for use in (PrivacyLedger.open, lambda path: PrivacyLedger(1.0, path=path)):
        with pytest.raises(ValueError, match="path must not end in -journal or"):
            use(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_of_a_journal_is_not_written_to(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = tmp_path / "other"
    other.write_text("precious")
    Path(f"{ledger.path}-journal").symlink_to(other)
    with pytest.raises(OSError, match="Nothing was released"):
        ledger.spend(0.1)
    assert other.read_text() == "precious"
    Path(f"{ledger.path}-journal").unlink()
    ledger.spend(0.2)
    assert levels(reopened(ledger)) == [0.2]


def test_a_ledger_has_one_name(tmp_path):
    """Each name would have a journal of its own, and a crash would not be mended."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    other = tmp_path / "other"
    other.hardlink_to(ledger.path)
    for use in (lambda: ledger.spend(0.1), lambda: PrivacyLedger.open(other)):
        with pytest.raises(LedgerError, match="2 names"):
            use()
    other.unlink()
    ledger.spend(0.2)
    assert levels(ledger) == [0.2]


@pytest.mark.parametrize(
    "content", [b"text", b"\n", b"SQLite format 3\0", b"\0" * 4096]
)
def test_a_file_with_something_else_is_not_written_over(tmp_path, content):
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(FileExistsError, match="exists"):
        PrivacyLedger(1.0, path=path)
    with pytest.raises(LedgerError, match="ledger"):
        PrivacyLedger.open(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_no_place_for_a_ledger(tmp_path):
    os.mkfifo(tmp_path / "ledger")
    with pytest.raises(FileExistsError):
        PrivacyLedger(1.0, path=tmp_path / "ledger")
    for other in (tmp_path / "ledger", tmp_path):
        with pytest.raises(LedgerError, match="is not a file"):
            PrivacyLedger.open(other)


@pytest.fixture
def as_any_user():
    """Run as a user who is not allowed everything, in a folder of theirs."""
    with ExitStack() as stack:
        if not os.getuid():
            os.seteuid(65534)
            stack.callback(os.seteuid, 0)
        yield Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))


def test_a_file_that_cannot_be_written_to_can_be_looked_at(as_any_user):
    ledger = PrivacyLedger(1.0, path=as_any_user / "ledger")
    ledger.spend(0.1)
    for target, mode in ((Path(ledger.path), 0o400), (as_any_user, 0o500)):
        before = target.stat().st_mode
        target.chmod(mode)
        assert levels(ledger) == levels(reopened(ledger)) == [0.1]
        with pytest.raises(PermissionError, match="is read-only"):
            ledger.spend(0.2)
        with pytest.raises(PermissionError, match="is read-only"):
            reopened(ledger).spend(0.2)
        target.chmod(before)
    Path(ledger.path).chmod(0o000)
    with pytest.raises(OSError, match="could not be read"):
        reopened(ledger)
    Path(ledger.path).chmod(0o600)
    ledger.spend(0.2)
    assert levels(reopened(ledger)) == [0.1, 0.2]


def test_who_waits_for_a_file_waits_as_long_as_it_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("skparisk.ledger._book._PATIENCE", 0.001)
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    thread = threading.Thread(target=ledger.spend, args=(0.1,))
    with database(ledger.path) as other:
        other.execute("BEGIN IMMEDIATE")
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        other.execute("COMMIT")
    join(thread)
    assert levels(ledger) == [0.1]


# Network file systems


MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
30 21 0:40 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/local rw - xfs /dev/sda2 rw
32 21 0:41 / /mnt/a\040b\134c rw - cifs //server/share rw
33 21 0:42 / /auto rw - autofs systemd-1 rw
34 33 0:43 / /auto rw - nfs server:/auto rw
35 21 0:44 / /ssh rw - fuse.sshfs me@server:/ rw
36 21 0:45 / /secret rw - fuse.gocryptfs /cipher rw
37 21 8:3 / /disk rw - fuseblk /dev/sdb1 rw
38 21 0:46 / /user rw - fuse grpcfuse rw
"""


def test_network_file_systems_are_known_by_their_mount():
    for path, kind in [
        ("/etc/ledger", None),
        ("/home/ledger", "nfs4"),
        ("/homeless/ledger", None),
        ("/home/local/a/ledger", None),
        ("/home/locals/ledger", "nfs4"),
        ("/mnt/a b\\c/ledger", "cifs"),
        ("/auto/ledger", "nfs"),
        ("/ssh/ledger", "fuse.sshfs"),
        ("/secret/ledger", None),
        ("/disk/ledger", None),
        ("/user/ledger", "fuse"),
        (r"\\server\share\ledger", "UNC path"),
        (r"\\?\UNC\server\share\ledger", "UNC path"),
        (r"\\?\C:\ledger", None),
        (r"C:\ledger", None),
    ]:
        assert _book.network_type(path, MOUNTS) == kind


def test_where_the_system_tells_of_no_mounts_only_shares_of_windows_are_known():
    assert _book.network_type("/home/ledger", "") is None
    assert _book.network_type(r"\\server\share\ledger", "") == "UNC path"


def test_a_ledger_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    (tmp_path / "self").mkdir()
    mounted = f"9 1 0:9 / {tmp_path} rw - nfs server:/ rw\n"
    (tmp_path / "self" / "mountinfo").write_text(mounted)
    with monkeypatch.context() as patch:
        patch.setattr("skparisk.ledger._book._PROC", tmp_path)
        for use in (
            lambda: reopened(ledger),
            lambda: PrivacyLedger(1.0, path=tmp_path / "other"),
        ):
            with pytest.raises(ValueError, match=r"network file system \(nfs\)"):
                use()
    assert not (tmp_path / "other").exists()
    monkeypatch.setattr("skparisk.ledger._book._PROC", tmp_path / "none")
    ledger.spend(0.1)
    assert levels(reopened(ledger)) == [0.1]
