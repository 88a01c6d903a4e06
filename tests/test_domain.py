"""Private records are moved to what is declared: silently, and without other change."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from skparisk.reference import Categories, Domain, Interval, Reference

DOMAIN = Domain(
    [
        Interval(5.5, 50),
        Interval(0, 1),
        Categories(["x", "y"]),
        Categories(["y", "x"]),
        None,
        Categories([False]),
        Interval(0, 9),
        Interval(0.15, 0.25),
        Interval(300, 400),
        None,
    ]
)
WHEN = pd.date_range("2020-01-01", periods=3, tz="Europe/Vienna")


def pandas_frame():
    return pd.DataFrame(
        {
            "whole": [1, 100, 7],
            "number": [0.5, np.nan, 9],
            "text": ["x", "q", None],
            "kind": pd.Categorical(["x", "q", None]),
            "when": WHEN,
            "flag": [True, False, True],
            "nullable": pd.array([1, None, 70], dtype="Int64"),
            "single": np.array([0.1, 0.2, 0.3], dtype=np.float32),
            "small": np.array([1, 2, 3], dtype=np.uint8),
            "free": [1, "a", None],
        },
        index=[4, 4, 7],
    )


def polars_frame():
    return pl.DataFrame(
        {
            "whole": [1, 100, 7],
            "number": [0.5, None, 9.0],
            "text": ["x", "q", None],
            "kind": pl.Series(["x", "q", None], dtype=pl.Enum(["q", "x"])),
            "when": pl.Series(WHEN.to_pydatetime().tolist()),
            "flag": [True, None, True],
            "nullable": [1, None, 70],
            "single": pl.Series([0.1, 0.2, 0.3], dtype=pl.Float32),
            "small": pl.Series([1, 2, 3], dtype=pl.UInt8),
            "free": pl.Series(["b", "a", None], dtype=pl.Categorical),
        }
    )


MOVED = {
    "whole": [5.5, 50, 7],
    "number": [0.5, 0.5, 1],
    "text": ["x", "x", "x"],
    "kind": ["x", "y", "y"],
    "flag": [False] * 3,
    "nullable": [1, 4.5, 9],
    "small": [300.0] * 3,
}


@pytest.mark.parametrize("make", [pandas_frame, polars_frame])
def test_columns_of_frames_are_moved(make):
    frame = make()
    moved, y = DOMAIN.clip(frame)
    assert y is None
    assert frame.equals(make())
    assert list(moved.columns) == list(frame.columns)
    for name, values in MOVED.items():
        assert [*moved[name]] == values
    for name in ("free", "when"):
        assert [*moved[name]] == [*frame[name]]
    np.testing.assert_allclose(moved["single"], [0.15, 0.2, 0.25], rtol=1e-7)


def test_the_type_does_not_tell_if_a_value_was_moved():
    for column, inside, outside in [
        (Categories([0.5, 1, 2]), [1, 2], [1, 7]),
        (Categories([1000, 1]), np.array([1, 1], "i1"), np.array([1, 2], "i1")),
        (Categories([1, "x"]), pd.array(["x"] * 2, "str"), pd.array(["x", "y"], "str")),
        (Interval(0.5, 3), [True, True], [True, False]),
        (Interval(0, 1e6), np.array([1, 1], "f2"), np.array([1, -1], "f2")),
    ]:
        inside, outside = pd.DataFrame({"a": inside}), pd.DataFrame({"a": outside})
        one, two = (Domain([column]).clip(frame)[0]["a"] for frame in (inside, outside))
        assert one.dtype == two.dtype
        assert one[0] == two[0] == inside["a"][0]
        assert one.tolist() != two.tolist()


def test_arrays_are_moved_and_stay_what_they_are():
    numbers = np.array([[1.0, 2.0], [np.nan, -1.0]])
    moved, y = Domain([Interval(0, 4), Interval(0, 1, missing=True)], [None]).clip(
        numbers, np.array([7.0, 8.0])
    )
    assert moved.tolist() == [[1.0, 1.0], [2.0, 0.0]]
    assert y.tolist() == [7.0, 8.0]
    mixed = np.array([["a", 1], [None, None], ["z", 9]], dtype=object)
    moved, _ = Domain([Categories(["b", "a"]), Interval(2, 4)]).clip(mixed)
    assert moved.tolist() == [["a", 2.0], ["b", 3.0], ["b", 4.0]]
    texts = np.array(["free", "text"], dtype=object)
    assert Domain([None]).clip(texts)[0] is texts


def test_targets_are_moved():
    domain = Domain([None], [Interval(0, 1), Interval(5, 6)])
    _, y = domain.clip(np.zeros((2, 1)), np.array([[2.0, 0.0], [0.5, 5.5]]))
    assert y.tolist() == [[1.0, 5.0], [0.5, 5.5]]
    labels = np.array(["no", "maybe"], dtype=object)
    _, y = Domain([None], [Categories(["yes", "no"])]).clip(np.zeros((2, 1)), labels)
    assert y.tolist() == ["no", "yes"]
    assert Domain([None]).clip(np.zeros((2, 1)), labels)[1] is labels
    both = Domain([None], [Interval(0, 1)] * 2)
    with pytest.raises(ValueError, match="has 2 targets, but y has 1"):
        both.clip(np.zeros((2, 1)), np.zeros(2))


def test_sparse_matrices_have_no_domain():
    matrix = sparse.csr_array(np.eye(3))
    with pytest.raises(ValueError, match="sparse matrix cannot be clipped"):
        Domain([None] * 3).clip(matrix)


@given(
    values=st.lists(st.floats(allow_infinity=False), min_size=1),
    ends=st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2),
    kind=st.sampled_from(["f8", "f4", "i2", "u1"]),
)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_moved_numbers_are_inside_and_stay_there(values, ends, kind):
    """Also where the type of a column has no number at an end."""
    interval = Interval(*sorted(ends))
    column = np.nan_to_num(np.array(values), nan=0.0).clip(-30, 30).astype(kind)
    for frame in (pd.DataFrame({"a": column}), pl.DataFrame({"a": column})):
        moved, _ = Domain([interval]).clip(frame)
        numbers = moved["a"].to_numpy().astype(np.float64)
        assert ((numbers >= interval.low) & (numbers <= interval.high)).all()
        again, _ = Domain([interval]).clip(moved)
        assert again.equals(moved)
    before = column.astype(np.float64)
    inside = (before >= interval.low) & (before <= interval.high)
    assert (numbers[inside] == before[inside]).all()


def test_boxes_are_known_where_all_is_numbers():
    domain = Domain([Interval(-1, 2), Categories([True, 5])], [Interval(3, 4)])
    assert domain.box.tolist() == [[-1, 1], [2, 5]]
    assert domain.target_box.tolist() == [[3], [4]]
    for column in (None, Interval(0, 1, missing=True), Categories(["a", 1])):
        assert Domain([Interval(0, 1), column]).box is None
    assert Domain([None]).target_box is None


def test_bad_domains_are_refused():
    for make, message in [
        (lambda: Interval(2, 1), r"low <= high, got \(2, 1\)"),
        (lambda: Interval(0, np.inf), "two finite ends"),
        (lambda: Interval("a", "b"), "two finite ends"),
        (lambda: Interval(*np.array([0, 1], "m8[s]")), "two finite ends"),
        (lambda: Interval(*np.array([0, 1], "M8[s]")), "two finite ends"),
        (lambda: Categories([]), "at least one text, number or boolean"),
        (lambda: Categories([None]), "at least one text, number or boolean"),
        (lambda: Categories([1, True]), "each only once"),
        (lambda: Categories([[1], [2]]), "at least one text"),
        (lambda: Domain([(0, 1)]), "columns of a Domain must be Interval, Categories"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def test_a_reference_has_no_domain_unless_it_says_so():
    class Anything(Reference):
        description = "anything"

    reference = Anything()
    assert reference.domain is reference.targets is reference.whole is None
    assert reference.numbers is reference.encoded(len) is reference
