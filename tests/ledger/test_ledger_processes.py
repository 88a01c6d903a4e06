"""Other processes: releases that no open ledger could record are refused."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import pytest
from ledgers import interrupt, levels

from skparisk.exceptions import IncompatibleError
from skparisk.ledger import PrivacyLedger, _open, spend, suspend_open

WORKERS = """
import os, subprocess, sys, time
from pathlib import Path
from skparisk.ledger import PrivacyLedger, _open
from skparisk.ledger import spend, suspend_open
from skparisk.ledger._open import refuse_without_level

_open._PROC = Path(os.environ["PROC"])

HOWS = ["plainly", "of unknown level", "suspended", "in a ledger of its own"]

def outcome(action, *arguments):
    try:
        action(*arguments)
    except Exception as error:
        return type(error).__name__
    return "released"

def release(how="plainly"):
    if how == "of unknown level":
        return outcome(refuse_without_level, "a release")
    if how == "suspended":
        with suspend_open():
            return outcome(spend, 0.1)
    if how == "in a ledger of its own":
        with PrivacyLedger(1.0) as ledger:
            spend(0.1)
        return f"recorded {len(ledger.releases)}"
    return outcome(spend, 0.1)

def forked(action, *arguments, leave=os._exit):
    # What it returns in a process that was forked.
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, action(*arguments).encode())
        leave(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as pipe:
        return pipe.read()

def orphaned(action):
    # What it returns in a process whose parent is gone.
    reading, writing = os.pipe()
    if os.fork() == 0:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.001)
            os.write(writing, action().encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as pipe:
        return pipe.read()

def exec_orphan(**environment):
    # What it returns in a new program whose parent is gone.
    code = (
        "import os, time, workers\\n"
        "while os.getppid() == int(os.environ['PARENT']): time.sleep(0.001)\\n"
        "print(workers.release())"
    )
    start = (
        "import os, subprocess, sys\\n"
        "env = os.environ | {'PARENT': str(os.getpid())}\\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1]], env=env)"
    )
    command = [sys.executable, "-S", "-c", start, code]
    environment = os.environ | environment
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout.strip()

def in_a_grandchild():
    command = [sys.executable, "-c", "import workers; print(workers.release())"]
    code = f"import subprocess; subprocess.run({command!r}, check=True)"
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()
"""
PROCESSES = """
import json, multiprocessing, os, sys, tempfile
from pathlib import Path
from joblib import Parallel, delayed
from skparisk.ledger import PrivacyLedger, _open
from workers import HOWS, exec_orphan, forked, in_a_grandchild, orphaned
from workers import outcome, release
from skparisk.ledger import suspend_open

if __name__ == "__main__":
    found = {}
    folder = Path(tempfile.gettempdir(), f"skparisk-{os.getuid()}")
    with PrivacyLedger(1.0) as ledger:
        # It ends as scripts do, which must not free the lock of the marker.
        found["fork that exits"] = forked(release, leave=sys.exit)
        found["marker held"] = [_open._is_held(str(p)) for p in folder.iterdir()]
        found["orphan"] = orphaned(release)
        found["grandchild"] = in_a_grandchild()
        found["new program"] = exec_orphan(TMPDIR=os.getcwd())
        with suspend_open():
            found["fork, suspended"] = forked(release)
    loky = Parallel(n_jobs=2, backend="loky")
    threads = Parallel(n_jobs=2, backend="threading")
    tasks = [delayed(release)(how) for how in HOWS]
    found["loky, before"] = loky(tasks)  # its workers are there from now on
    pools = {
        method: multiprocessing.get_context(method).Pool(1)
        for method in ("spawn", "forkserver")
    }
    for method, pool in pools.items():
        found[f"{method}, before"] = pool.map(release, HOWS)
    with PrivacyLedger(1.0) as ledger:
        found["loky, inside"] = loky(tasks)
        found["threads, inside"] = threads([delayed(release)() for _ in range(3)])
        found["fork, inside"] = [forked(release, how) for how in HOWS]
        found["fork, by hand"] = forked(outcome, ledger.spend, 0.1)
        for method, pool in pools.items():
            found[f"{method}, inside"] = pool.map(release, HOWS)
            with multiprocessing.get_context(method).Pool(1) as new:
                found[f"{method}, new inside"] = new.map(release, HOWS)
        found["charged"] = len(ledger.releases)
    found["loky, after"] = loky(tasks)
    for method, pool in pools.items():
        found[f"{method}, after"] = pool.map(release, HOWS)
        pool.close()
        pool.join()
    found["fork, after"] = [forked(release, how) for how in HOWS]
    found["fork, by hand, after"] = forked(outcome, ledger.spend, 0.1)
    found["markers left"] = len(list(folder.iterdir()))
    print(json.dumps(found))
"""


@pytest.fixture
def temporary():
    """Return a folder with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("proc", ["/proc", "/nowhere"])
def test_what_cannot_be_recorded_in_another_process_is_refused(
    tmp_path, temporary, proc
):
    """Also where the system does not tell of processes: their parents are known."""
    (tmp_path / "workers.py").write_text(WORKERS)
    (tmp_path / "main.py").write_text(PROCESSES)
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env=os.environ
        | {"PROC": proc, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": temporary},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    refused = "UnrecordedReleaseError"
    inside = [refused, refused, "released", "recorded 1"]
    outside = ["released", "released", "released", "recorded 1"]
    assert found == {
        "fork that exits": refused,
        "marker held": [True],
        "orphan": refused,
        "grandchild": refused,
        "new program": refused,
        "fork, suspended": refused,
        "loky, before": outside,
        "loky, inside": inside,
        "threads, inside": ["released"] * 3,
        "fork, inside": inside,
        "fork, by hand": refused,
        "spawn, before": outside,
        "spawn, inside": inside,
        "spawn, new inside": inside,
        "spawn, after": outside,
        "forkserver, before": outside,
        "forkserver, inside": inside,
        "forkserver, new inside": inside,
        "forkserver, after": outside,
        "charged": 3,
        "loky, after": outside,
        "fork, after": outside,
        "fork, by hand, after": refused,
        "markers left": 0,
    }


def test_a_marker_of_an_ancestor_counts_while_it_is_locked(marker_folder):
    marker_folder.mkdir()
    parent, other = (marker_folder / f"{pid}-x" for pid in (os.getppid(), 2**30))
    for path in (parent, other):
        path.touch()
    spend(0.1)  # nobody holds them: of processes that were killed
    for path, held in ((other, False), (parent, True)):
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert _open.Marker().in_an_ancestor() == held
            if held:
                with pytest.raises(IncompatibleError, match="n_jobs=1"):
                    spend(0.1)
                with PrivacyLedger(1.0) as ledger:
                    spend(0.1)
                assert levels(ledger) == [0.1]
        assert not _open.Marker().in_an_ancestor()


def test_the_process_that_asked_for_a_worker_counts_as_well(monkeypatch, marker_folder):
    """A server may have started the worker, which is then no child of it."""
    parent = types.SimpleNamespace(pid=2**30)
    monkeypatch.setattr(_open.multiprocessing, "parent_process", lambda: parent)
    marker_folder.mkdir()
    with (marker_folder / f"{2**30}-x").open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert _open.Marker().in_an_ancestor()


def test_ancestors_are_known_as_far_as_the_open_tells(monkeypatch):
    assert str(os.getppid()) in _open._ancestors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getppid", lambda: 2**30)
        assert _open._ancestors() == {str(2**30)}
    monkeypatch.setattr("skparisk.ledger._open._PROC", Path("/nowhere"))
    assert _open._ancestors() == {str(os.getppid())}


def test_without_a_place_for_temporary_files_no_marker_is_there(monkeypatch):
    def fail():
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    spend(0.1)
    with pytest.raises(FileNotFoundError), PrivacyLedger(1.0):
        pass


def test_a_marker_that_is_gone_does_not_count(tmp_path):
    assert not _open._is_held(str(tmp_path / "gone"))


def test_the_marker_is_in_the_environment_while_a_ledger_is_open(
    monkeypatch, marker_folder, tmp_path
):
    """Which new programs inherit, wherever they look for temporary files."""
    with PrivacyLedger(1.0), PrivacyLedger(1.0):
        (path,) = marker_folder.iterdir()
        assert os.environ["SKPARISK_LEDGER"] == str(path)
        assert not _open._here.marker.in_an_ancestor()  # this process itself
        assert _open.Marker().in_an_ancestor()
    assert "SKPARISK_LEDGER" not in os.environ
    other = tmp_path / "other"
    monkeypatch.setenv("SKPARISK_LEDGER", f"{other}")
    spend(0.1)  # it is gone
    with other.open("xb") as file:
        spend(0.1)  # nobody holds it
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(IncompatibleError, match="in the process that started"):
            spend(0.1)
        with PrivacyLedger(1.0) as ledger:
            (path,) = marker_folder.iterdir()
            assert os.environ["SKPARISK_LEDGER"] == f"{path}\n{other}"
            spend(0.1)
        assert os.environ["SKPARISK_LEDGER"] == f"{other}"
    assert levels(ledger) == [0.1]
    assert other.exists()
    monkeypatch.setenv("SKPARISK_LEDGER", f"{tmp_path}")
    with pytest.raises(IncompatibleError):
        spend(0.1)  # who knows


def test_markers_of_processes_that_were_killed_are_removed(marker_folder):
    marker_folder.mkdir()
    stale, held = marker_folder / "1-x", marker_folder / "2-x"
    stale.touch()
    with held.open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with PrivacyLedger(1.0):
            assert len(list(marker_folder.iterdir())) == 2
        assert list(marker_folder.iterdir()) == [held]


def test_a_marker_that_is_removed_before_it_is_locked_is_made_again(
    monkeypatch, marker_folder
):
    def remove():
        for path in marker_folder.iterdir():
            path.unlink()

    interrupt(monkeypatch, _open, "_try_lock", remove)
    with PrivacyLedger(1.0):
        (path,) = marker_folder.iterdir()
        assert _open._is_held(str(path))


def test_the_marker_is_there_while_any_ledger_is_open(marker_folder):
    first, second = PrivacyLedger(1.0), PrivacyLedger(1.0)
    with first:
        (path,) = marker_folder.iterdir()
        with second, first:
            assert list(marker_folder.iterdir()) == [path]
        assert list(marker_folder.iterdir()) == [path]
        assert _open._is_held(str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(marker_folder.iterdir()) == []
    assert stat.S_IMODE(marker_folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["someone else's", "link", "file"])
def test_a_folder_of_someone_else_is_not_used(
    how, monkeypatch, marker_folder, tmp_path
):
    if how == "link":
        marker_folder.symlink_to(tmp_path)
    elif how == "file":
        marker_folder.touch()
    else:
        marker_folder.mkdir()
        user = os.getuid()
        monkeypatch.setattr("skparisk.ledger._open._folder", lambda: marker_folder)
        monkeypatch.setattr("skparisk.ledger._open._user", lambda: user + 1)
    ledger = PrivacyLedger(1.0)
    with pytest.raises(PermissionError, match="set TMPDIR"), ledger:
        pass
    spend(0.1)
    assert ledger.releases == ()


def test_a_fork_leaves_the_ledgers_to_its_parent(monkeypatch, marker_folder):
    """As in a process that was forked; that is tried above as well."""
    with PrivacyLedger(1.0) as ledger, suspend_open():
        monkeypatch.setattr("skparisk.ledger._open._here", _open._here)
        monkeypatch.setattr(os, "getpid", lambda: 2**30)
        _open._start_anew()
        assert not _open._here.open
        with pytest.raises(IncompatibleError, match="in the process that started"):
            spend(0.1)
        with pytest.raises(IncompatibleError, match="forked from"):
            ledger.spend(0.1)
        with pytest.raises(IncompatibleError, match="forked from"), ledger:
            pass
        with PrivacyLedger(1.0) as own:
            spend(0.3)
        assert levels(own) == [0.3]
        monkeypatch.undo()
        spend(0.2)
    assert levels(ledger) == []
    assert list(marker_folder.iterdir()) == []


def test_a_fork_without_open_ledgers_is_free(monkeypatch):
    monkeypatch.setattr("skparisk.ledger._open._here", _open._here)
    _open._start_anew()
    spend(0.1)


def test_without_dask_nobody_is_a_worker(monkeypatch):
    """Nor is it imported."""
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    spend(0.1)
    assert "distributed" not in sys.modules
