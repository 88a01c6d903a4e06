"""Messages of checks of private data tell what is wrong, and no value."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array

from skparisk import PrivateEstimator, PrivateRidge
from skparisk.core.release import hide_values
from skparisk.exceptions import IncompatibleError

SECRET = 91234.25


class OddError(Exception):
    """As those of polars."""


def fail_with(error):
    def check(*data, **parameters):
        raise error

    return check


def test_what_may_be_a_value_is_cut_off():
    for message, told in [
        ("Found array with 0 sample(s)", "Found array with 0 sample(s)"),
        ("no number: 'HIV'", "no number (the rest is not shown because it may rev"),
        ("no number:\n'HIV'", "no number (the rest is not shown"),
        ("no number\n'HIV'", "no number (the rest is not shown"),
        ("no: number: 'HIV'", "no (the rest is not shown"),
        ("unknown ['HIV'] in", "unknown (the rest is not shown"),
        ("'HIV' is no word of the list", " (the rest is not shown"),
        ("time b'HIV' doesn't match", "time (the rest is not shown"),
        (
            "is 1D:\narray=['HIV']\nReshape your data with 'HIV'",
            "). Reshape your data: array.reshape(-1, 1) is a single feature.",
        ),
    ]:
        for kind in [ValueError, TypeError]:
            with pytest.raises(kind) as caught:
                hide_values(fail_with(kind(message)))
            shown = caught.value
            assert told in str(shown)
            assert str(shown).count("reveal something about the data") <= 1
            assert "HIV" not in repr(shown)
            assert shown.__context__ is None
            assert shown.__cause__ is None
            assert type(shown) is kind


def test_kinds_of_errors_that_hold_values_become_plain_ones():
    error = UnicodeEncodeError("ascii", "HIV\xe9", 3, 4, "ordinal not in range")
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        hide_values(fail_with(error))
    assert type(caught.value) is ValueError
    assert "HIV" not in repr(vars(caught.value))


def test_of_other_errors_nothing_but_the_kind_is_told():
    """A message may be nothing but a value."""
    for error in (
        KeyError("HIV"),
        KeyError(SECRET),
        MemoryError("HIV"),
        OddError("HIV"),
    ):
        with pytest.raises(ValueError, match=type(error).__name__) as caught:
            hide_values(fail_with(error))
        assert str(caught.value).startswith(f"{type(error).__name__} (the rest is not")
        assert not {"HIV", str(SECRET)} & {*repr(caught.value).split("'")}
        assert caught.value.__context__ is None
    with pytest.raises(KeyboardInterrupt):
        hide_values(fail_with(KeyboardInterrupt()))


def test_errors_of_this_package_stay_what_they_are():
    """But for what they were raised from."""
    error = IncompatibleError("one: two")
    error.__cause__ = error.__context__ = KeyError("HIV")
    with pytest.raises(IncompatibleError, match="one: two") as caught:
        hide_values(fail_with(error))
    assert caught.value.__cause__ is caught.value.__context__ is None


CODES = {"1": 0.0, "2": 1.0}


def as_hour(text):
    return datetime.strptime(text, "%H").hour


@pytest.mark.parametrize("read", [CODES.__getitem__, [*CODES].index, as_hour])
def test_a_step_that_fails_at_a_private_cell_does_not_show_it(read):
    def numbers(X):
        return np.array([[float(read(word))] for word in X["word"]])

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"word": rng.choice([*CODES], 200)})
    X, y = frame.iloc[:80], np.arange(200.0)
    model = PrivateEstimator(make_pipeline(FunctionTransformer(numbers), Ridge()))
    model.set_params(sensitivity__n_pairs=40, gamma=0.2, random_state=0)
    model.fit(X, y[:80], X_reference=frame.iloc[80:], y_reference=y[80:])
    X = X.replace("1", "HIV")
    for ask in (lambda: model.predict(X), lambda: model.score(X, y[:80])):
        with pytest.raises(ValueError, match="the rest is not shown") as caught:
            ask()
        assert "HIV" not in str(caught.value)


def test_what_passes_is_returned_with_the_parameters():
    X = hide_values(check_array, [[1, 2]], dtype=np.float32)
    assert X.dtype == np.float32
    model = PrivateRidge(sensitivity=1.0).fit([[1.0, 2.0]] * 3, [1, 2, 3])
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="X has 1 features, but PrivateRidge is expec"):
        model.predict([[1.0]])


def test_messages_of_scikit_learn_still_say_what_is_wrong():
    for X, told in (
        (np.full(3, SECRET), "Expected 2D array, got 1D array instead .*Reshape your"),
        (np.full((3, 1), str(SECRET) + "x"), "could not convert string to float"),
        (np.full((3, 1), SECRET * 1j), "Complex data not supported"),
        (np.full((3, 1), np.nan), "Input X contains NaN"),
        (np.zeros((0, 1)), r"Found array with 0 sample\(s\)"),
    ):
        with pytest.raises(ValueError, match=told) as caught:
            PrivateRidge(sensitivity=1.0).fit(X, np.arange(len(X)))
        assert "91234" not in str(caught.value)


def test_numbers_that_no_float_holds_are_refused_as_others_are():
    X = np.array([[0.5], [10**400]], dtype=object)
    with pytest.raises(ValueError, match="int too large to convert to float"):
        hide_values(np.asarray, X, dtype=np.float64)


def test_records_of_another_kind_than_those_fitted_are_told_apart():
    rng = np.random.default_rng(0)
    (public, X), (answer, y) = rng.normal(size=(2, 200, 2)), rng.normal(size=(2, 200))
    model = PrivateEstimator(Ridge(), random_state=0)
    model.fit(X, y, X_reference=public, y_reference=answer)
    with pytest.raises(ValueError, match="X must be a table, as it was in fit, got te"):
        model.predict(["a word", "another"])
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.warns(UserWarning, match="has feature names"):
        np.testing.assert_array_equal(model.predict(frame), model.predict(X))
