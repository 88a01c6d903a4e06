"""PrivateTable releases counts and sums over cells, and answers from them alone."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws import assert_binomial_at_most, assert_law, exceeds
from numpy.testing import assert_allclose, assert_array_equal
from query_pairs import RELATIONS
from scipy import stats

from skparisk import (
    BudgetExceededError,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateTable,
    SchemaReference,
)
from skparisk.queries._cells import MISSING, OTHER
from skparisk.tables import means, quantile

N = 400
SCHEMA = {"sex": ["f", "m"], "region": [0, 1, 2], "age": (18, 90), "wage": (0.0, 1e4)}
QUESTIONS = {
    "counts": ["sex", ("sex", "region"), "age"],
    "means": {"wage": ["sex", ()], "age": [("region", "sex")]},
}


def people(n=N, seed=0):
    """Return a frame with values of all kinds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(np.array(["f", "m", "x", None], dtype=object), n),
            "region": rng.integers(4, size=n),
            "age": rng.uniform(10, 100, n),
            "wage": rng.exponential(3e3, n),
            "name": "private",
        }
    )
    frame.loc[::7, "wage"] = np.nan
    return frame


def as_lists(frame):
    """Return columns with None for what is missing."""
    return {name: [None if v != v else v for v in frame[name]] for name in frame}


def ask(frame=None, schema=None, **parameters):
    table = PrivateTable(schema or SCHEMA, **(QUESTIONS | parameters))
    return table.fit(people() if frame is None else frame)


def plain(frame=None, **parameters):
    """Return a table without noise."""
    return ask(frame, epsilon=math.inf, **parameters)


def cleaned(frame):
    """Return a frame whose values are labels of cells, and clipped, by pandas alone."""
    sex = frame.sex.where(frame.sex.isin(["f", "m"]) | frame.sex.isna(), OTHER)
    region = frame.region.astype(object).where(frame.region < 3, OTHER)
    return pd.DataFrame(
        {
            "sex": sex.fillna(MISSING),
            "region": region,
            "age": frame.age.clip(18, 90),
            "wage": frame.wage.clip(0, 1e4),
        }
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_without_noise_answers_are_those_of_pandas(relation):
    table, known = plain(relation=relation), cleaned(people())
    for by in ("sex", ["sex", "region"], ["region", "sex"], "region"):
        group = tuple(by) if isinstance(by, list) else by
        expected = known.groupby(by).size()
        found = table.count(group)["count"]
        assert_array_equal(found.loc[expected.index], expected)
        assert found.sum() == N
        mean = table.mean("age", group)["mean"]
        expected = known.groupby(by).age.mean()
        assert_allclose(mean.loc[expected.index], expected, rtol=1e-5)
    wages = table.mean("wage", "sex")["mean"].loc[["f", "m", OTHER, MISSING]]
    assert_allclose(wages, known.groupby("sex").wage.mean().loc[wages.index], rtol=1e-5)
    assert_allclose(table.mean("wage")["mean"], [known.wage.mean()], rtol=1e-5)
    assert_array_equal(table.count()[["count", "low", "high"]], [[N] * 3])
    edges = np.linspace(18, 90, 11)
    histogram = table.count("age")
    assert_array_equal(histogram["count"], [*np.histogram(known.age, edges)[0], 0])
    assert [label.left for label in histogram.index[:-1]] == edges[:-1].tolist()
    found = table.quantile("age", [0.0, 0.3, 1.0])
    exact = known.age.quantile([0.0, 0.3, 1.0])
    assert_allclose(found["quantile"], exact, atol=72 / 10)
    assert ((found.low <= exact) & (exact <= found.high)).all()


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_neighbors_are_farther_apart_than_the_bound_and_some_are_as_far(relation):
    query = plain(relation=relation).query_
    frame = people()
    answer = query(frame)
    ends = pd.DataFrame(
        {"sex": ["f", "m"], "region": 0, "age": [0.0, 99.0], "wage": [-math.inf, 1e9]}
    )
    ends = pd.concat([ends, people(60, seed=1), ends.assign(wage=np.nan)])
    largest = 0.0
    for place in range(len(ends)):
        other = pd.concat([frame, ends.iloc[[place]]])
        with_one = query(other)
        distance = np.abs(with_one - answer).sum()
        if relation == "replace-one":
            # Against the first of the ends, in the place of it.
            first = query(pd.concat([frame, ends.iloc[[0]]]))
            distance = np.abs(with_one - first).sum()
        largest = max(largest, distance)
    assert largest == query.bound(relation)
    by_hand = {"replace-one": 2 * (2 + 2 + 1 + 1), "add-remove": 2 + 2 + 1 + 2}
    assert query.bound(relation) == by_hand[relation]


WEIGHTED = {"schema": SCHEMA | {"w": (0.0, 50.0)}, "weight": "w"}


def weighted_people(n=N, seed=0):
    """Return people with weights, some of them beyond 50, below 0 or missing."""
    weights = np.random.default_rng(seed).uniform(-5, 60, n)
    return people(n, seed).assign(w=np.where(np.arange(n) % 11, weights, np.nan))


@pytest.mark.parametrize("relation", RELATIONS)
def test_weighted_answers_are_those_of_numpy(relation):
    frame = weighted_people()
    table, known = plain(frame, relation=relation, **WEIGHTED), cleaned(frame)
    w = frame.w.fillna(0).clip(0, 50)
    totals = w.groupby(known.sex).sum()
    counts = table.count("sex")["count"].loc[totals.index]
    assert_allclose(counts, totals, atol=N * 50 / 2**20)
    assert_allclose(table.count()["count"], [w.sum()], atol=N * 50 / 2**20)
    present = known.wage.notna()
    mean = np.average(known.wage[present], weights=w[present])
    assert_allclose(table.mean("wage")["mean"], [mean], rtol=1e-4)
    table = ask(frame, relation=relation, epsilon=8.0, **WEIGHTED)
    assert_allclose(
        table.count("sex")["std_error"], math.sqrt(2) * 50 * table.noise_scale_
    )
    assert table.n_records_ is None
    assert "weighted by 'w'" in str(table.query_)


@pytest.mark.parametrize("relation", RELATIONS)
def test_weighted_neighbors_are_within_the_bound_and_some_attain_it(relation):
    frame = weighted_people(80)
    query = ask(frame, relation=relation, **WEIGHTED).query_
    ends = pd.DataFrame(
        {"sex": ["f", "m"], "region": 0, "age": [0.0, 99.0], "wage": [-math.inf, 1e9]}
    ).assign(w=[1e9, 70.0])
    ends = pd.concat([ends, weighted_people(60, seed=1), ends.assign(wage=np.nan)])
    answer, largest = query(frame), 0.0
    for place in range(len(ends)):
        with_one = query(pd.concat([frame, ends.iloc[[place]]]))
        alone = query(ends.iloc[[place]])
        assert_array_equal(with_one - answer, alone)  # sums are exact
        if relation == "replace-one":
            alone = alone - query(ends.iloc[[0]])
        largest = max(largest, np.abs(alone).sum())
    assert largest == query.bound(relation)
    for asked, bound in (({}, 1.0), ({"wage": (), "age": ()}, 4.0)):
        given = {"counts": (), "means": asked, "relation": relation}
        one_cell = ask(frame, **WEIGHTED, **given).query_
        alone = [one_cell(ends.iloc[[place]]) for place in range(len(ends))]
        alone.append(0 * alone[0])  # of weight 0
        if relation == "replace-one":
            assert one_cell.bound(relation) == bound
            alone = [one - other for one in alone for other in alone]
        assert max(np.abs(each).sum() for each in alone) == one_cell.bound(relation)


def test_a_single_cell_is_not_counted_where_the_number_is_public():
    table = ask(counts=(), means={"wage": ()})
    assert (table.query_.bound(), table.query_.n_outputs) == (2.0, 2)
    both = ask(counts=(), means={"wage": ()}, relation="add-remove")
    assert (both.query_.bound("add-remove"), both.query_.n_outputs) == (2.0, 3)


def test_sums_are_exact_in_any_order():
    query = ask().query_
    frame = people(3000)
    assert_array_equal(query(frame), query(frame.sample(frac=1.0, random_state=0)))
    more = people(1, seed=5)
    moves = query(pd.concat([frame, more])) - query(frame)
    assert_array_equal(moves, query(more))


def test_the_noise_is_for_all_questions_together():
    table = ask(epsilon=0.7)
    assert_allclose(table.noise_scale_, table.query_.bound() / 0.7, rtol=1e-6)


@pytest.mark.slow
def test_noise_has_the_law_and_no_other():
    frame = people(1)
    schema = SCHEMA | {"region": list(range(12_000)), "sex": list(range(12_000))}
    table = ask(frame, schema, counts=["sex", "region"], means=None)
    exact = table.query_.split(table.query_(frame))
    for sums, own in zip(table.query_.split(table.released_), exact, strict=True):
        noise = ((sums - own) / table.noise_scale_).ravel()
        assert_law(noise, stats.laplace.cdf)
        for wrong in (0.9, 1.1):
            with pytest.raises(AssertionError):
                assert_law(np.concatenate([noise] * 4) * wrong, stats.laplace.cdf)


@pytest.mark.slow
def test_intervals_have_what_is_true_as_often_as_they_say():
    """And a quarter of them does not."""
    known = cleaned(people())
    counts = known.groupby("sex").size()
    mean = known.groupby("sex").age.mean()
    median = known.age.quantile(0.5)
    n_runs, missed = 100, dict.fromkeys(("count", "part", "mean", "median"), 0)
    tight = 0
    for _ in range(n_runs):
        table = ask(
            counts=["age", ("sex", "region")], means={"age": "sex"}, epsilon=2.0
        )
        for name, found, exact in (
            ("count", table.count("sex"), counts["f"]),
            ("mean", table.mean("age", "sex"), mean["f"]),
        ):
            row = found.loc["f"]
            missed[name] += not row.low <= exact <= row.high
            if name == "count":
                tight += abs(row["count"] - exact) > (row.high - row.low) / 8
        row = table.count(("region",)).loc[0]
        missed["part"] += not row.low <= (known.region == 0).sum() <= row.high
        row = table.quantile("age", 0.5).iloc[0]
        missed["median"] += not row.low <= median <= row.high
    for n_missed in missed.values():
        assert_binomial_at_most(n_missed, n_runs, 0.05)
    assert exceeds(tight, n_runs, 0.05)


WORST = [
    "f",
    "(other)",
    "",
    None,
    np.nan,
    pd.NA,
    pd.NaT,
    math.inf,
    -math.inf,
    10**400,
    -(10**400),
    Decimal("sNaN"),
    Decimal("1.5"),
    [1, 2],
    {"a": 1},
    np.array([1.0, 2.0]),
    True,
    1 + 2j,
    b"f",
    pd.Timestamp("2020-01-01"),
    np.timedelta64(3, "D"),
    float("1e308"),
    object(),
]


def test_no_value_is_refused_or_tells_of_others():
    """One record has it in each column; those of the others are as they were."""
    frame = people(5).drop(columns="name").astype(object)
    rows = [*frame.itertuples(index=False, name=None)]
    names, alone = list(SCHEMA), plain(frame)
    for value in WORST:
        for kind in ["pandas", "polars"]:
            cells = [value] * 4
            if kind == "pandas":
                column = {
                    name: pd.Series([row[k] for row in rows] + [cells[k]], dtype=object)
                    for k, name in enumerate(names)
                }
                mixed = pd.DataFrame(column)
            else:
                mixed = pl.DataFrame(
                    {
                        name: pl.Series(
                            name, [row[k] for row in rows] + [cells[k]], dtype=pl.Object
                        )
                        for k, name in enumerate(names)
                    }
                )
            table = plain(mixed)
            moved = table.released_ - alone.released_
            assert np.isfinite(moved).all()
            assert (moved >= -1).all()
            assert np.abs(moved).sum() <= alone.query_.bound("add-remove")
            assert table.count("sex")["count"].sum() == 6


@pytest.mark.parametrize("value", [1 + 0j, 3j, complex(math.nan, 1.0)])
def test_a_complex_number_does_not_change_what_others_are(value):
    """Though pandas makes a column of complex numbers of all of them."""
    others = pd.DataFrame({"age": [20.0, 40.0, 60.0] * 5, "wage": range(15)})
    asked = {"counts": "age", "means": {"wage": ()}, "relation": "add-remove"}
    alone = plain(others, **asked)
    mixed = pd.DataFrame({name: [*others[name], value] for name in others})
    assert mixed.age.dtype.kind == "c"
    for frame in (mixed, mixed.astype(object)):
        moved = plain(frame, **asked).released_ - alone.released_
        assert np.abs(moved).sum() <= alone.query_.bound("add-remove")


def test_types_of_columns_do_not_matter():
    for make in [
        lambda f: f.astype({"sex": "category", "region": "category"}),
        lambda f: f.astype({"sex": "string", "region": "Int8", "age": "Float32"}),
        lambda f: f.astype({"region": "float32", "age": "object"}),
        lambda f: f.set_axis(range(len(f)), axis=0).iloc[::-1],
        lambda f: pl.DataFrame(as_lists(f)),
        lambda f: pl.DataFrame(as_lists(f)).with_columns(
            pl.col("sex").cast(pl.Categorical), pl.col("region").cast(pl.UInt8)
        ),
    ]:
        given = make(people())
        before = given.copy() if hasattr(given, "iloc") else given.clone()
        found = plain(given)
        assert_allclose(found.released_, plain().released_, atol=1e-3)
        assert given.equals(before)


def test_no_rows_are_answered_where_their_number_is_private():
    table = ask(people().iloc[:0], relation="add-remove", counts=[(), "sex"])
    assert table.count().shape == (1, 4)
    assert table.n_records_ is None
    with pytest.raises(ValueError, match="at least one row with relation='replace-one"):
        ask(people().iloc[:0])


def test_a_certificate_does_not_tell_a_private_number():
    table = ask(relation="add-remove")
    assert table.certificate_.evidence is None
    assert table.certificate_.relation == "add-remove"
    assert table.certificate_.private
    assert str(N) not in str(table.certificate_) + str(vars(table).keys())
    assert "(400 records)" in ask().certificate_.guarantee
    assert not plain(relation="add-remove").certificate_.private


def test_one_charge_for_all(tmp_path):
    ledger = PrivacyLedger(epsilon=1.5)
    with ledger:
        table = ask(epsilon=1.0)
        assert_allclose(ledger.spent.epsilon, 1.0)
        with pytest.raises(BudgetExceededError):
            ask(epsilon=1.0)
        table.count("sex"), table.mean("wage", "sex")
    assert table.certificate_.epsilon == table.epsilon_ == 1.0
    assert table.certificate_.risk == table.certificate_.delta == 0.0


def test_a_seed_repeats_the_noise_and_voids_the_guarantee():
    with pytest.warns(PrivacyLeakWarning, match="repeatable"):
        tables = [ask(noise_random_state=3) for _ in range(2)]
    assert_array_equal(tables[0].released_, tables[1].released_)
    assert tables[0].certificate_.seeded
    assert not tables[0].certificate_.private
    assert (ask().released_ != ask().released_).all()


def test_parts_of_groups_take_the_least_noise():
    table = ask(counts=[("sex", "age"), ("sex", "region")], means=None)
    of_regions = math.sqrt(2 * 5) * table.noise_scale_
    assert_allclose(table.count("sex")["std_error"], of_regions)


def test_means_and_quantiles_of_nothing_but_noise():
    mean, error, low, high = means(
        np.array([5.0, 5.0, 50.0]), np.array([2.0, -9.0, 100.0]), 4.0, 2, 2.0
    )
    assert_array_equal(np.isnan(mean), [True, True, False])
    assert_array_equal(np.isnan(error), [True, True, False])
    assert_array_equal([low[:2], high[:2]], [[-1, -1], [1, 1]])
    assert low[2] < 0.5 < high[2]
    edges = np.array([0.0, 1.0, 2.0])
    found = quantile(np.array([-3.0, -2.0]), edges, 0.5, 9.0, 2.0)
    assert math.isnan(found[0])
    assert found[1:] == (0.0, 2.0)
    assert quantile(np.array([1.0, 3.0]), edges, 0.25, 0.0, 2.0) == (1.0, 0.0, 2.0)


def test_wrong_parameters_are_refused_before_anything_is_drawn():
    for wrong, message in [
        ({"counts": "hight"}, "declared ranges or categories"),
        ({"counts": 3}, "counts must be a column, a tuple"),
        ({"counts": ("sex", "sex")}, "counts must be a column, a tuple"),
        ({"counts": ["sex", ["age"]]}, "counts must be a column, a tuple"),
        ({"counts": None, "means": None}, "ask for something that is not public"),
        ({"counts": (), "means": None}, "ask for something that is not public"),
        ({"means": ["wage"]}, "means must map columns"),
        ({"means": {"sex": ()}}, "of columns of numbers"),
        ({"means": {"wage": ["sex", "sex"]}}, "twice"),
        ({"means": {"other": ()}}, "means must name columns"),
        ({"bins": 0}, "bins"),
        ({"bins": "ten"}, "bins"),
        ({"bins": {"age": [1, 1]}}, r"bins\['age'\] must be"),
        ({"bins": [[1, 2], [3, 4]]}, "bins must be"),
        ({"bins": [1, math.inf]}, "bins must be"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"relation": "other"}, "relation"),
        ({"noise_random_state": "x"}, "noise_random_state"),
        ({"schema": [(0, 1)]}, "schema must be a SchemaReference"),
        ({"schema": SchemaReference([(0, 1)])}, "names of columns"),
        ({"bins": 2**20}, "at most 2\\*\\*20 numbers"),
        ({"weight": "sex"}, "weight must be a column of numbers"),
        ({"weight": "w"}, "weight must name columns with declared ranges"),
        ({"weight": "w", "schema": SCHEMA | {"w": (-1, 1)}}, "from 0 on"),
        ({"weight": "w", "schema": SCHEMA | {"w": (0, 0)}}, "of more than 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            ask(**wrong)


def test_frames_that_lack_columns_are_refused(monkeypatch):
    with pytest.raises(IncompatibleError, match="data frame of pandas or polars"):
        ask(people().to_numpy())
    with pytest.raises(IncompatibleError, match="column 'sex' once, but has it 0"):
        ask(people().drop(columns="sex"))
    twice = pd.concat([people(), people()[["age"]]], axis=1)
    with pytest.raises(IncompatibleError, match="column 'age' once, but has it 2"):
        ask(twice)
    monkeypatch.setattr("skparisk.queries._cells._MOST_RECORDS", N - 1)
    with pytest.raises(ValueError, match="no answer"):
        ask()


def test_what_was_not_asked_for_is_not_answered():
    table = ask()
    with pytest.raises(ValueError, match="groups whose counts were asked for"):
        table.count("wage")
    with pytest.raises(ValueError, match="groups whose means of 'wage' were asked"):
        table.mean("wage", "region")
    with pytest.raises(ValueError, match="value must be a column of numbers"):
        table.quantile("sex")
    with pytest.raises(ValueError, match=r"q must be numbers in \[0, 1\]"):
        table.quantile("age", 1.5)
    with pytest.raises(ValueError, match="confidence"):
        table.count("sex", confidence=1.0)


class Incomparable:
    """Raises, or says nothing, where it is compared."""

    def __init__(self, compared):
        self._compared = compared

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self._compared()

    __ne__ = __eq__


def fails():
    raise RuntimeError("a secret")


def test_an_object_that_cannot_be_compared_is_counted_as_another():
    for value in [
        Incomparable(fails),
        Incomparable(lambda: np.arange(2)),
        np.arange(2),
        [1],
    ]:
        column = pd.Series([None] * 3, dtype=object)
        column[:] = ["f", "f", "m"]
        column[1] = value
        table = PrivateTable({"sex": ["f", "m"]}, counts="sex", epsilon=math.inf)
        counts = table.fit(pd.DataFrame({"sex": column})).count("sex")["count"]
        assert counts.tolist() == [1.0, 1.0, 1.0, 0.0]
