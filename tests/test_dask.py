"""Workers of Dask: the same numbers, whatever happens to them, and no free releases."""

import os
import signal
import tempfile
import threading
import time

import cloudpickle
import joblib
import numpy as np
import pytest
from distributed import Client, LocalCluster

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.exceptions import UnrecordedReleaseError
from skparisk.ledger import PrivacyLedger, spend
from skparisk.queries import RidgeQuery
from skparisk.sensitivity import _parallel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("at_once"),
    # Of those that end while something is still under way.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(2000, 3))
TARGETS = PUBLIC @ [1.0, 2.0, 3.0] + RNG.normal(size=2000)


def cluster(n_workers, **parameters):
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=":0",
        memory_limit=0,
        **parameters,
    )


@pytest.fixture(scope="module", autouse=True)
def own_temporary_folder(tmp_path_factory):
    """Markers of ledgers of these tests are seen by no one else, but by workers."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture(scope="module")
def client():
    """Return a client of two workers, which are processes of their own."""
    with cluster(2) as local, Client(local) as client:
        yield client


@pytest.fixture(scope="module")
def far_client():
    """Return a client of a worker that sees no marker of a ledger, as if far away."""
    with tempfile.TemporaryDirectory() as folder:
        far = {"TMPDIR": folder}
        with cluster(1, env=far) as local, Client(local) as client:
            yield client


def differences(query, client=None, backend="sequential", n_jobs=None, **parameters):
    """Return those that the workers of a client find, or another backend of joblib."""
    how = {"backend": backend}
    if client is not None:
        how = {"backend": "dask", "client": client}
    sampler = SensitivitySampler(
        query, n_pairs=500, n_records=100, random_state=0, n_jobs=n_jobs, **parameters
    )
    with joblib.parallel_config(**how):
        return sampler.fit(PUBLIC, TARGETS).differences_


class Noted:
    """A mean that notes where it is asked for, and ends some of the first workers.

    It waits for others, as on a busy machine one worker may be done before they begin.
    """

    def __init__(self, folder, n_killed, n_together=1):
        self.folder = str(folder)
        self.n_killed = n_killed
        self.n_together = n_together
        self.parent = os.getpid()

    def __call__(self, X):
        if os.getpid() != self.parent:
            for number in range(self.n_killed):
                if self.note(f"killed {number}"):
                    os.kill(os.getpid(), signal.SIGKILL)
            self.note(f"process {os.getpid()}")
            end = time.monotonic() + 60
            while len(self.processes()) < self.n_together and time.monotonic() < end:
                time.sleep(0.01)
        return X.mean(axis=0)

    def processes(self):
        """Return the names of the files of those that were asked."""
        return [name for name in os.listdir(self.folder) if name.startswith("process")]

    def note(self, name):
        """Make a file, and tell if it was not there."""
        try:
            flags = os.O_CREAT | os.O_EXCL
            os.close(os.open(os.path.join(self.folder, name), flags))
        except FileExistsError:
            return False
        return True


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("query", [RidgeQuery(), np.median], ids=["ridge", "median"])
def test_dask_finds_what_loky_finds(query, relation, client):
    found = differences(query, client, relation=relation)
    expected = differences(query, None, "loky", 2, relation=relation)
    np.testing.assert_array_equal(found, expected)
    alone = differences(query, relation=relation)
    np.testing.assert_array_equal(found, alone)


def test_both_workers_work(client, tmp_path):
    noted = Noted(tmp_path, 0, n_together=2)
    differences(noted, client)
    assert len(noted.processes()) == 2


def test_a_worker_that_is_killed_changes_nothing(tmp_path):
    with cluster(2) as local, Client(local) as client:
        found = differences(Noted(tmp_path, 1), client)
    assert len(list(tmp_path.glob("killed *"))) == 1
    expected = differences(lambda X: X.mean(axis=0))
    np.testing.assert_array_equal(found, expected)


def test_one_worker_leaves_all_to_the_process_itself(far_client, monkeypatch):
    """Also if it was one of more, when the work was sent."""
    found = differences(np.median, far_client)
    monkeypatch.setattr(
        "skparisk.sensitivity._parallel.effective_n_jobs", lambda n_jobs: 2
    )
    np.testing.assert_array_equal(differences(np.median, far_client), found)


def test_the_reference_is_sent_once_and_not_with_each_task(client, monkeypatch):
    sent, n_tasks = [], []
    scatter = client.scatter

    def count(work, **how):
        sent.append(how)
        return scatter(work, **how)

    class Counted(_parallel.Parallel):
        def __call__(self, tasks):
            tasks = list(tasks)
            n_tasks.append(len(tasks))
            for task in tasks:
                assert len(cloudpickle.dumps(task)) < 10_000
            return super().__call__(tasks)

    monkeypatch.setattr(client, "scatter", count)
    monkeypatch.setattr("skparisk.sensitivity._parallel.Parallel", Counted)
    differences(np.median, client)
    assert sent == [{"broadcast": True, "hash": False}]
    assert n_tasks[0] > 5


def outcome(action):
    try:
        action()
    except UnrecordedReleaseError as error:
        return str(error)
    return "released"


def release():
    return outcome(lambda: spend(0.1))


def fit():
    model = PrivateRidge(noise_random_state=0, random_state=0)
    half = len(PUBLIC) // 2
    public = {"X_reference": PUBLIC[:half], "y_reference": TARGETS[:half]}
    with pytest.warns(UserWarning, match="noise"):
        return outcome(lambda: model.fit(PUBLIC[half:], TARGETS[half:], **public))


def in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(release()))
    thread.start()
    thread.join()
    return found[0]


def in_a_ledger_of_its_own():
    with PrivacyLedger(1.0) as ledger:
        spend(0.1)
    return f"recorded {len(ledger.releases)}"


@pytest.mark.parametrize("where", ["client", "far_client"])
def test_releases_of_workers_are_refused_without_a_ledger_of_their_own(where, request):
    """Those of processes that this one started, and of others, on any machine."""
    client = request.getfixturevalue(where)

    def done(action):
        return client.submit(action, pure=False).result()

    for action in [release, fit, in_a_thread]:
        assert "is refused: this is a worker of Dask" in done(action)
    assert done(in_a_ledger_of_its_own) == "recorded 1"
    with PrivacyLedger(100.0) as ledger:
        for action in [release, fit, in_a_thread]:
            assert "is refused: " in done(action)
        assert done(in_a_ledger_of_its_own) == "recorded 1"
        assert release() == "released"  # here it is charged
    assert len(ledger.releases) == 1


def test_a_worker_that_is_closed_is_none_any_more():
    """In this process, as if it were another one."""
    with cluster(1, processes=False, protocol="tcp://") as local, Client(local):
        workers = list(local.workers.values())
        assert "this is a worker of Dask" in release()
        with PrivacyLedger(1.0) as ledger:
            assert release() == "released"
        assert len(ledger.releases) == 1
    assert all(worker.status.name == "closed" for worker in workers)
    assert release() == "released"


def test_threads_of_a_cluster_in_this_process_are_charged():
    with (
        cluster(1, processes=False) as local,
        Client(local) as client,
        PrivacyLedger(1.0) as ledger,
    ):
        assert client.submit(release, pure=False).result() == "released"
        assert len(ledger.releases) == 1
