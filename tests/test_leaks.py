"""What fails tells nothing of private records: no frame, no message, no charge.

An exact answer exists for a moment between a query and its noise. Whatever fails after
it, no frame of the traceback holds it; and no message has a value of any table.
"""

import contextlib
import io
import os
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    BudgetExceededError,
    PrivacyLedger,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    PrivateTable,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    TableReference,
    audit_reference,
    learn_reference,
    private_score,
)
from skparisk._simulated import in_own_context, is_simulated, simulated
from skparisk.ledger import spend, suspend_open
from skparisk.mechanisms import ExponentialMechanism, LaplaceMechanism

RNG = np.random.default_rng(0)
X, X_PUBLIC = RNG.normal(size=(80, 2)), RNG.normal(size=(200, 2))
Y, Y_PUBLIC = (rows @ [1.0, 2.0] + RNG.normal(size=len(rows)) for rows in (X, X_PUBLIC))
LABELS, LABELS_PUBLIC = (Y > 0).astype(int), (Y_PUBLIC > 0).astype(int)
GIVEN = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
CLASSES = {"X_reference": X_PUBLIC, "y_reference": LABELS_PUBLIC}
FEW = SensitivitySampler(n_pairs=40, random_state=0)
PLAIN = {"gamma": 0.2, "sensitivity": FEW}
FRAME = pd.DataFrame({"a": X[:, 0], "sex": ["f", "m"] * 40})
SCHEMA = {"a": (-3.0, 3.0), "sex": ["f", "m"]}
MODEL = LinearRegression().fit(X_PUBLIC, Y_PUBLIC)


def mean(array):
    return array.mean(axis=0)


def release(**given):
    return SensitivitySampler(mean, n_pairs=40, gamma=0.2, **given).fit(X_PUBLIC[:80])


# What is released, at a level; and what it would be without noise.
RELEASES = {
    "ridge": lambda epsilon: _numbers(
        PrivateRidge(1.0, epsilon=epsilon, **PLAIN).fit(X, Y, **GIVEN)
    ),
    "bound": lambda epsilon: _numbers(
        PrivateRidge(
            1.0, epsilon=epsilon, sensitivity="bound", x_norm=9.0, y_bounds=(-9, 9)
        ).fit(X, Y)
    ),
    "declared": lambda epsilon: _numbers(
        PrivateRidge(1.0, epsilon=epsilon, sensitivity=0.1).fit(X, Y)
    ),
    "logistic": lambda epsilon: _numbers(
        PrivateLogisticRegression(C=1.0, epsilon=epsilon, **PLAIN).fit(
            X, LABELS, **CLASSES
        )
    ),
    "SVM": lambda epsilon: _numbers(
        PrivateLinearSVC(C=1.0, epsilon=epsilon, **PLAIN).fit(X, LABELS, **CLASSES)
    ),
    "wrapped": lambda epsilon: (
        PrivateEstimator(LinearRegression(), epsilon=epsilon, **PLAIN)
        .fit(X, Y, **GIVEN)
        .estimator_.coef_
    ),
    "moments": lambda epsilon: (
        PrivateMoments(epsilon=epsilon, **PLAIN).fit(X, Y, **GIVEN).sums_
    ),
    "moments in bounds": lambda epsilon: (
        PrivateMoments(epsilon=epsilon, sensitivity="bound", bounds=(-9, 9))
        .fit(X)
        .sums_
    ),
    "density": lambda epsilon: (
        PrivateKernelDensity(
            2.0, bounds=(-5, 5), lattice_size=2, epsilon=epsilon, **PLAIN
        )
        .fit(X[:, :1], X_reference=X_PUBLIC[:, :1])
        .polynomial_.values
    ),
    "function": lambda epsilon: release(epsilon=epsilon).release(X),
    "table": lambda epsilon: (
        PrivateTable(SCHEMA, counts="sex", epsilon=epsilon).fit(FRAME).released_
    ),
    "score": lambda epsilon: np.array(
        [
            private_score(
                MODEL,
                X,
                Y + X[:, 0],
                scoring="mean_absolute_error",
                y_bounds=(-9, 9),
                epsilon=epsilon,
            ).value
        ]
    ),
}


def _numbers(model):
    return np.append(model.coef_, model.intercept_)


def held_in_frames(error):
    """Yield all arrays and numbers that frames of a traceback hold."""
    traceback = error.__traceback__
    while traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    while traceback is not None:
        for value in traceback.tb_frame.f_locals.values():
            if isinstance(value, np.ndarray | float) and np.size(value):
                yield np.ravel(value)
        traceback = traceback.tb_next


class Interrupted(Lasso):
    """Is interrupted while it is fitted to the private records."""

    def fit(self, X, y):
        if len(y) == len(Y):
            raise KeyboardInterrupt
        return super().fit(X, y)


def test_no_frame_of_an_interruption_knows_a_fit_or_an_answer():
    """Neither of frozen parts, nor of pairs of the private records."""
    scaler = FrozenEstimator(StandardScaler().fit(X_PUBLIC))
    model = PrivateEstimator(make_pipeline(scaler, Interrupted(0.1)), **PLAIN)
    asked = []

    def interrupted(array):
        asked.append(len(array))
        if len(asked) > 15:
            raise KeyboardInterrupt
        return array.mean(axis=0)

    half = SecretSample(0.5).draw(X)
    secret = SensitivitySampler(interrupted, reference=half, n_pairs=40, gamma=0.2)
    for fit in (lambda: model.fit(X, Y, **GIVEN), lambda: secret.fit(X)):
        with pytest.raises(KeyboardInterrupt) as caught:
            fit()
        frames = {(each.path.name, each.name) for each in caught.traceback}
        assert ("_fitted_parts.py", "_that_learned") not in frames
        assert "_drawing.py" not in {file for file, _ in frames}


@pytest.mark.parametrize("name", RELEASES)
def test_no_frame_holds_the_answer_where_the_noise_fails(name, monkeypatch):
    """After the charge: there is no more of the system's randomness."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = np.ravel(RELEASES[name](np.inf))

    random = os.urandom

    def fail(size):
        if ledger.spent.epsilon:
            raise KeyboardInterrupt
        return random(size)

    with PrivacyLedger(9.0) as ledger:
        monkeypatch.setattr(os, "urandom", fail)
        with pytest.raises(KeyboardInterrupt) as caught:
            RELEASES[name](1.0)
    assert ledger.spent.epsilon == 1.0
    for held in held_in_frames(caught.value):
        n = min(len(held), len(exact))
        assert not np.allclose(held[:n], exact[:n])
    assert caught.value.__context__ is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", RELEASES)
def test_a_ledger_without_room_refuses_before_there_is_an_answer(name):
    with PrivacyLedger(0.5) as ledger, pytest.raises(BudgetExceededError) as caught:
        RELEASES[name](1.0)
    assert ledger.spent.epsilon == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = np.ravel(RELEASES[name](np.inf))
    for held in held_in_frames(caught.value):
        n = min(len(held), len(exact))
        assert not np.allclose(held[:n], exact[:n])


def test_a_query_is_not_asked_where_there_is_no_room():
    asked = []

    def spy(array):
        asked.append(array.tobytes())
        return array.mean(axis=0)

    sampler = SensitivitySampler(spy, n_pairs=40, gamma=0.2).fit(X_PUBLIC[:80])
    asked.clear()
    with PrivacyLedger(0.5), pytest.raises(BudgetExceededError):
        sampler.release(X)
    assert asked == []


def test_a_count_of_an_audit_is_in_no_frame(monkeypatch):
    sampler = SensitivitySampler(mean, gamma=0.2, reference=TableReference(X_PUBLIC))
    more = RNG.normal(size=(6000, 2))
    monkeypatch.setattr(os, "urandom", lambda size: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        audit_reference(sampler, more, epsilon=2.0, random_state=0)
    frames = []
    traceback = caught.value.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert "count_exceeding" not in frames
    assert "exact" not in str(caught.traceback[-1].locals)


@pytest.mark.parametrize(
    "release",
    [LaplaceMechanism(1.0, 1.0).release, ExponentialMechanism(1.0, 1.0).choose],
)
def test_values_that_are_no_numbers_are_not_shown(release):
    with pytest.raises(ValueError, match="could not convert") as caught:
        release(["secret"])
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_interruptions_leave_nothing_simulated():
    moments = np.random.default_rng(0).uniform(1e-5, 1e-4, size=300)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for moment in moments:
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, moment)
                while True:
                    with simulated():
                        pass
            assert not is_simulated()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_is_set_for_a_simulation_ends_with_it():
    """Also where the end of a `with` is never reached, as by an interruption there."""
    held = [simulated(), suspend_open()]

    @in_own_context
    def interrupted():
        for one in held:
            one.__enter__()
        assert is_simulated()
        raise KeyboardInterrupt

    with PrivacyLedger(1.0) as ledger:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert not is_simulated()
        spend(0.5)
        assert ledger.spent.epsilon == 0.5


SECRET = 91234.25
# Wrong private records, each with a secret.
WRONG = {
    "one dimension": np.full(80, SECRET),
    "three dimensions": np.full((80, 2, 1), SECRET),
    "complex": X + SECRET * 1j,
    "objects": np.full((80, 2), f"{SECRET}x", dtype=object),
    "a row too short": [[SECRET, 1.0]] * 79 + [[SECRET]],
    "sparse": sparse.csr_array(np.full((80, 2), SECRET)),
    "no number": SECRET,
    "texts": [str(SECRET)] * 80,
    "a frame": pd.DataFrame(np.full((80, 2), SECRET), columns=["a", f"{SECRET}"]),
    "columns": np.full((80, 5), SECRET),
}
GIVEN_TO = {
    "ridge": lambda bad: PrivateRidge(1.0, **PLAIN).fit(bad, Y, **GIVEN),
    "targets": lambda bad: PrivateRidge(1.0, **PLAIN).fit(X, bad, **GIVEN),
    "public records": lambda bad: PrivateRidge(1.0, **PLAIN).fit(
        X, Y, X_reference=bad, y_reference=Y
    ),
    "public targets": lambda bad: PrivateRidge(1.0, **PLAIN).fit(
        X, Y, X_reference=X_PUBLIC, y_reference=bad
    ),
    "labels": lambda bad: PrivateLogisticRegression(**PLAIN).fit(X, bad, **CLASSES),
    "wrapped": lambda bad: PrivateEstimator(LinearRegression(), **PLAIN).fit(
        bad, Y, **GIVEN
    ),
    "release": lambda bad: release().release(bad),
    "fit": lambda bad: SensitivitySampler(mean, n_pairs=40).fit(bad),
    "predictions": lambda bad: (
        PrivateRidge(1.0, sensitivity=0.1).fit(X, Y).predict(bad)
    ),
    "decisions": lambda bad: (
        PrivateLogisticRegression(sensitivity=0.1, classes=[0, 1])
        .fit(X, LABELS)
        .decision_function(bad)
    ),
    "score": lambda bad: private_score(
        MODEL, bad, Y, scoring="mean_squared_error", y_bounds=(0, 1), epsilon=1.0
    ),
    "targets of a score": lambda bad: private_score(
        MODEL, X, bad, scoring="accuracy", epsilon=1.0
    ),
    "moments": lambda bad: PrivateMoments(sensitivity="bound", bounds=(-9, 9)).fit(bad),
    "table": lambda bad: PrivateTable(SCHEMA, counts="sex").fit(bad),
}


def test_no_message_shows_a_value_of_any_table():
    for wrong in WRONG:
        for what in GIVEN_TO:
            told = []
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    GIVEN_TO[what](WRONG[wrong])
                except Exception as error:
                    while error is not None:
                        told.append(repr(error))
                        error = error.__context__
            told += [str(each.message) for each in caught]
            assert "91234" not in " ".join(told)


@pytest.mark.slow
def test_moments_of_many_columns_fail_before_they_are_charged():
    """Their noise is 24 530 variances, and no matrix of 4.8 gigabytes."""
    rows = RNG.uniform(-1, 1, (300, 220))
    with PrivacyLedger(1.0) as ledger:
        moments = PrivateMoments(sensitivity="bound", bounds=(-1, 1)).fit(rows)
    assert ledger.spent.epsilon == 1.0
    assert moments.noise_covariance_.shape == moments.sums_.shape == (24530,)


# One value of a file


def table_of(text, dtype=None):
    frame = pd.read_csv(io.StringIO(text), dtype=dtype)
    schema = {
        "age": (0.0, 100.0),
        "code": [1, 2, 3],
        "zip": ["8010", "8020"],
        "own": [True, False],
    }
    asked = ["code", "zip", "own", "age"]
    table = PrivateTable(schema, counts=asked, bins=4, epsilon=np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return table.fit(frame)


def test_one_cell_that_changes_the_type_of_a_column_moves_one_record():
    """A word among numbers makes texts of all of them when a file is read."""
    lines = [f"{20 + i},{1 + i % 3},80{1 + i % 2}0,{i % 2 == 0}" for i in range(60)]
    head = "age,code,zip,own\n"
    whole = table_of(head + "\n".join(lines))
    odd = table_of(head + "\n".join(["unknown,unknown,unknown,unknown", *lines[1:]]))
    for other in (odd, table_of(head + "\n".join(lines), str)):
        moved = np.abs(whole.released_ - other.released_)
        assert moved.sum() <= 2 * 4
    assert odd.count("zip")["count"].loc["8010"] == 29
    assert odd.count("zip")["count"].loc["(other)"] == 1


# Hashes of private records


def held_hashes(private, made):
    """Tell how many hashes of rows an object, or its pickle, has in common with others.

    Those that a table of the same rows keeps, which is public.
    """
    public = TableReference(private).sketch.features
    kept = pickle.dumps(made)
    return sum(row.tobytes() in kept for row in public.ravel())


def test_no_hash_of_private_records_is_kept():
    codes = RNG.integers(40, size=(300, 3)).astype(float)
    assert held_hashes(codes, TableReference(codes).sketch) > 250  # it would be found
    rows = RNG.uniform(size=(300, 2))
    half = SecretSample(0.5).draw(rows)
    split = learn_reference(SchemaReference([(0, 1), (0, 1)]), rows, epsilon=9.0)
    known = TableReference(rows).sketch.features
    for held in (half._sketch, split):
        hashes = getattr(held, "features", np.empty((2, 0)))
        assert not np.isin(hashes, known).any()
    # They are known again all the same, in this process.
    half.check(rows)
    with pytest.raises(ValueError, match="something else"):
        half.check(rows[::-1])
    mean_ = SensitivitySampler(mean, reference=split.reference, n_pairs=40).fit(rows)
    with pytest.raises(ValueError, match="must not be those that the LearnedRef"):
        mean_.set_params(n_records=300).release(rows)


def test_bytes_of_one_width_are_texts():
    """pandas keeps the array that it was given."""
    frame = pd.DataFrame({"a": X[:, 0]})
    frame["b"] = np.full(len(X), b"secret")
    assert frame["b"].dtype.kind == "S"
    half = SecretSample(0.5).draw(frame)
    assert 0 < half.n_members < half.n_candidates == len(X)
