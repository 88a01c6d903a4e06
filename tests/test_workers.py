"""Workers, and how progress shows their work: they never change what is found."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
from joblib.parallel import ThreadingBackend
from threadpoolctl import ThreadpoolController

from skparisk import SecretSample, SensitivitySampler, _threads
from skparisk._progress import Progress
from skparisk._threads import one_thread
from skparisk.queries import FunctionQuery, MeanQuery, Query, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(60, 2))
TARGETS = PUBLIC @ [1.0, 2.0] + RNG.normal(size=60)


@pytest.fixture
def slow_clock(monkeypatch):
    """Let each look at the clock take a second, so that all seems to take long."""
    monkeypatch.setattr(
        "skparisk.sensitivity._parallel.perf_counter", itertools.count().__next__
    )


def sample(query, n_pairs=200, **parameters):
    return sample_differences(
        query,
        TableReference(PUBLIC, TARGETS),
        n_pairs=n_pairs,
        n_features=2,
        random_state=0,
        **{"n_records": 20, **parameters},
    )


def medians(X):
    return np.median(X, axis=0)


def configured(X):
    """Answer otherwise where steps hand on data frames."""
    far = sklearn.get_config()["transform_output"] == "pandas"
    return X.mean(axis=0) * (100.0 if far else 1.0)


def test_workers_have_the_configuration_of_scikit_learn(at_once):
    query = FunctionQuery(configured)
    with sklearn.config_context(transform_output="pandas"):
        found = [sample(query, n_jobs=n_jobs) for n_jobs in (None, 2)]
    np.testing.assert_array_equal(*found)
    assert np.abs(found[0]).max() > 10 * np.abs(sample(query)).max()


def test_answers_are_released_in_the_configuration_that_pairs_had():
    sampler = SensitivitySampler(FunctionQuery(configured), n_pairs=99, epsilon=np.inf)
    plain = sampler.fit(PUBLIC).release(PUBLIC + 1)
    with sklearn.config_context(transform_output="pandas"):
        np.testing.assert_array_equal(sampler.release(PUBLIC + 1), plain)


def fails_or_not(X):
    """Answer some databases, and return NaN or raise for others."""
    if X[0, 0] > 0.8:
        raise ArithmeticError("the first record is large")
    return X.mean(axis=0) * (np.nan if X[0, 0] < -0.8 else 1.0)


class WithoutGenerator(ThreadingBackend):
    """A backend that returns all results at the end, as older ones of others do."""

    supports_return_generator = False


joblib.register_parallel_backend("without generator", WithoutGenerator)


@pytest.mark.parametrize("backend", ["threading", "sequential", "without generator"])
@pytest.mark.parametrize(
    ("query", "relation", "n_neighbors"),
    [
        (RidgeQuery(), "replace-one", 1),
        (MeanQuery(), "add-remove", 2),
        (medians, "replace-one", 1),
        (fails_or_not, "add-remove", 2),
    ],
)
def test_workers_find_what_one_process_finds(
    query, n_neighbors, relation, backend, at_once
):
    query = query if isinstance(query, Query) else FunctionQuery(query)
    how = {"neighbors_per_database": n_neighbors, "relation": relation}
    expected = sample(query, 300, n_jobs=1, **how)
    with joblib.parallel_config(backend=backend):
        found = sample(query, 300, n_jobs=2, **how)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
@pytest.mark.parametrize("query", [RidgeQuery(), medians, fails_or_not])
def test_other_processes_find_what_one_finds(query, backend, at_once):
    query = query if isinstance(query, Query) else FunctionQuery(query)
    expected = sample(query, n_pairs=500, n_jobs=1)
    with joblib.parallel_config(backend=backend):
        found = sample(query, n_pairs=500, n_jobs=2)
    np.testing.assert_array_equal(found, expected)


class Killed:
    """A mean that ends the processes of workers."""

    def __init__(self):
        self.parent = os.getpid()

    def __call__(self, X):
        if os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return X.mean(axis=0)


@pytest.mark.slow
def test_work_that_ends_its_worker_is_an_error_of_joblib(at_once):
    with pytest.raises(BrokenExecutor, match="terminated"):
        sample(FunctionQuery(Killed()), n_jobs=2)


class Threads(Query):
    """Notes which threads answer, one by one or a block together."""

    def __init__(self, query):
        self.query, self.names = query, []

    def __call__(self, X, y=None):
        self.names.append(threading.current_thread().name)
        return self.query(X, y)

    @property
    def is_plain(self):
        return self.query.is_plain

    def on_pool(self, pool, n_records):
        if self.is_plain:
            return super().on_pool(pool, n_records)
        evaluate = self.query.on_pool(pool, n_records)

        def differences(pairs):
            self.names.extend([threading.current_thread().name] * len(pairs))
            return evaluate(pairs)

        return differences


@pytest.mark.parametrize(
    ("query", "n_here"), [(MeanQuery(), 256), (FunctionQuery(medians), 32)], ids=str
)
def test_long_work_is_given_to_workers_after_two_parts(query, n_here, slow_clock):
    asked = Threads(query)
    with joblib.parallel_config(backend="threading"):
        sample(asked, n_pairs=2000, n_jobs=2)
    assert asked.names.count("MainThread") == n_here
    assert len({*asked.names}) > 1


@pytest.mark.filterwarnings("ignore:.*cancelled")
def test_who_stops_looking_stops_the_workers(at_once, monkeypatch):
    """As one who presses Ctrl-C between two answers does."""
    asked, shown = [], []

    def wait(X):
        asked.append(X)
        time.sleep(1e-3)
        return X.mean(axis=0)

    def stop(self, n_more):
        shown.append(n_more)
        if len(shown) == 3:  # two parts here, and one from a worker
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "add", stop)
    with joblib.parallel_config(backend="threading"), pytest.raises(KeyboardInterrupt):
        sample(FunctionQuery(wait), n_pairs=20_000, n_jobs=2)
    deadline = time.monotonic() + 300
    while _threads._blas_limit._n_inside:  # they end what they are at
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(asked) < 10_000


INTERRUPTED = """
import os, sys, time
from pathlib import Path
import numpy as np
from skparisk import SensitivitySampler
from skparisk.sensitivity import _parallel

_parallel._START_UP = -1.0
parent = os.getpid()

def wait(X):
    if os.getpid() != parent:
        Path(sys.argv[1], str(os.getpid())).touch()
        time.sleep(1.0)
    return X.mean(axis=0)

X = np.random.default_rng(0).normal(size=(300, 2))
SensitivitySampler(wait, n_pairs=10_000, n_jobs=2).fit(X)
"""


def is_running(pid):
    try:
        status = Path("/proc", str(pid), "stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("to_all", [False, True])
def test_who_interrupts_leaves_no_process_behind(to_all, tmp_path):
    """Ctrl-C reaches all processes of a terminal; `kill` only the first."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while len(workers := list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
        # What is left would take over an hour.
        _, told = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert told.rstrip().endswith("KeyboardInterrupt")
    deadline = time.monotonic() + 300
    while any(is_running(worker.name) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def most_threads():
    return max(pool["num_threads"] for pool in ThreadpoolController().info())


class Looked(Query):
    """Notes which file the records are mapped from, and how many threads there are."""

    def __init__(self, folder):
        self.folder = folder
        self.parent = os.getpid()

    def on_pool(self, pool, n_records):
        if os.getpid() != self.parent:
            records = pool.X
            while not isinstance(records, np.memmap):
                records = records.base
            name = f"{os.getpid()} {Path(records.filename).name} {most_threads()}"
            Path(self.folder, name).touch()
        return super().on_pool(pool, n_records)

    def __call__(self, X, y=None):
        return X.mean(axis=0)


@pytest.mark.slow
def test_workers_share_one_map_of_the_reference_and_use_one_thread(at_once, tmp_path):
    X = RNG.normal(size=(100_000, 2))
    sample_differences(
        Looked(tmp_path),
        TableReference(X),
        n_pairs=1000,
        n_records=100,
        n_features=2,
        n_jobs=2,
        random_state=0,
    )
    processes, files, threads = zip(
        *(path.name.split() for path in tmp_path.iterdir()), strict=True
    )
    assert len({*processes}) == 2
    assert len({*files}) == 1
    assert {*threads} == {"1"}


def blas_threads():
    found = ThreadpoolController().info()
    return [pool["num_threads"] for pool in found if pool["user_api"] == "blas"]


@pytest.mark.parametrize("first_leaves", ["first", "last"])
def test_one_thread_lasts_until_the_last_one_leaves(first_leaves):
    """Those who overlap do not give back threads that another one must not have."""
    entered, leave = threading.Event(), threading.Event()

    def other():
        with one_thread():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        with one_thread():
            thread.start()
            entered.wait(60)
            if first_leaves == "last":
                leave.set()
                thread.join()
            assert {*blas_threads()} == {1}
        if first_leaves == "last":
            assert blas_threads() == before
        else:
            assert {*blas_threads()} == {1}
            leave.set()
            thread.join()


class Counted:
    """A function that notes how many threads there are, and in which one it is."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, X):
        name = f"{os.getpid()} {threading.get_ident()} {most_threads()}"
        Path(self.folder, name).touch()
        return X.mean(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_each_fit_has_one_thread_in_every_kind_of_worker(at_once, tmp_path, backend):
    """Each thread has a number of its own for OpenMP, which a new one has anew."""
    with (
        ThreadpoolController().limit(limits=2),
        joblib.parallel_config(backend, n_jobs=2),
    ):
        sample(FunctionQuery(Counted(tmp_path)), n_jobs=None)
        assert most_threads() == 2
    noted = [path.name.split() for path in tmp_path.iterdir()]
    assert {threads for *_, threads in noted} == {"1"}
    places = 1 if backend == "sequential" else 2
    assert len({(process, thread) for process, thread, _ in noted}) >= places


def fitted(**parameters):
    return SensitivitySampler(medians, **parameters).fit(PUBLIC)


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


@pytest.fixture
def each_time(monkeypatch):
    """Show each step, however soon it follows."""
    monkeypatch.setattr("skparisk._progress._PAUSE", 0.0)


def test_a_bar_counts_pairs(capsys, each_time):
    fitted(verbose=1, random_state=0, n_pairs=400, gamma=0.2)
    shown = capsys.readouterr().err
    assert "sampling pairs" in shown
    assert "400/400" in shown
    assert "pair/s" in shown


def test_lines_say_how_far_it_is_where_tqdm_is_missing(capsys, no_tqdm, each_time):
    fitted(verbose=1, random_state=0, n_pairs=400, gamma=0.2)
    lines = capsys.readouterr().err.splitlines()
    done = [int(line.split()[2]) for line in lines]
    assert done == sorted({*done})
    assert len(done) > 3
    assert all(" of 400, " in line and " a second, " in line for line in lines)
    assert all("s left" in line for line in lines[:-1])
    assert lines[-1].endswith(" s")


@pytest.mark.parametrize("missing", [False, True])
def test_nothing_is_shown_of_private_records(missing, capsys, monkeypatch, each_time):
    """Such as a secret half."""
    if missing:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    sampler = SensitivitySampler(medians, verbose=1, n_pairs=100, gamma=0.2)
    sampler.set_params(reference=SecretSample(0.5).draw(PUBLIC)).fit(PUBLIC)
    shown = capsys.readouterr().err
    assert "100" in shown
    assert "quantile" not in shown


def test_lines_are_not_shown_too_often(capsys, no_tqdm):
    with Progress(1000, shown=True) as progress:
        for _ in range(1000):
            progress.add(1)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sampling pairs: 1000 of 1000, ")
