"""Private records are known again wherever they come back, and nothing else is."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from guises import sketch_of
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, PoissonRegressor
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from skparisk import (
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._hints import distance
from skparisk.core import Leak
from skparisk.exceptions import IncompatibleError
from skparisk.queries import MeanQuery, RidgeQuery
from skparisk.reference import CallableReference, TableReference

RNG = np.random.default_rng(5)


def make_data(n_records):
    X = RNG.normal(size=(n_records, 3))
    return X, X @ [1.0, -2.0, 0.5] + RNG.normal(size=n_records)


X, Y = make_data(120)
X_PUBLIC, Y_PUBLIC = make_data(200)
LABELS, LABELS_PUBLIC = (Y > 0) * 1, (Y_PUBLIC > 0) * 1
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
FEW = SensitivitySampler(n_pairs=40)

# What comes back of the private records, each a (X, y).
SHUFFLED = RNG.permutation(120)
OFTEN = np.append(RNG.integers(120, size=600), range(120))
GUISES = {
    "the same": (X, Y),
    "another order": (X[SHUFFLED], Y[SHUFFLED]),
    "a part": (X[40:70], Y[40:70]),
    "among others": (np.vstack([X_PUBLIC, X]), np.append(Y_PUBLIC, Y)),
    "a bootstrap": (X[RNG.integers(120, size=90)], Y[RNG.integers(120, size=90)]),
    "a large bootstrap": (X[OFTEN], Y[OFTEN]),
    "all of it twice": (np.tile(X, (2, 1)), np.tile(Y, 2)),
    "a fifth of it": (np.vstack([X_PUBLIC[:80], X[:20]]), np.append(Y_PUBLIC, Y)[:100]),
    "shorter floats": (X.astype(np.float32)[::-1], Y.astype(np.float32)[::-1]),
}


# Sketches


def test_a_table_that_is_changed_is_looked_at_again():
    """It shares its memory with whoever made it."""
    rows, targets = X_PUBLIC[:120].copy(), Y_PUBLIC[:120].copy()
    table = TableReference(rows, targets)
    model = PrivateRidge(sensitivity=FEW)
    assert not model.fit(X, Y, X_reference=table).certificate_.leaks
    rows[:], targets[:] = X, Y
    with pytest.warns(PrivacyLeakWarning):
        assert model.fit(X, Y, X_reference=table).certificate_.leaks


def test_records_are_known_in_any_order_and_in_part():
    for guise in GUISES:
        there, own = sketch_of(GUISES[guise][0]), sketch_of(X)
        assert own.overlaps(there)
        if guise not in (
            "a large bootstrap",
            "all of it twice",
        ):  # nobody is single there
            assert there.overlaps(own)


def test_other_records_of_the_population_are_not():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        one, two = rng.normal(size=(2, 150, 3))
        assert not sketch_of(one).overlaps(sketch_of(two))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n_values", [2, 10, 100, 1000, 10**4, 10**6])
@pytest.mark.parametrize("sizes", [(300, 300), (50, 2000), (2000, 50), (1000, 30)])
def test_values_that_repeat_by_chance_are_no_sign(n_values, sizes):
    """Independent tables of one population, whose rows take so many values."""
    flagged = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, n_values])
        shares = rng.exponential(size=n_values) ** 2
        values = rng.normal(size=n_values)
        one, two = (
            rng.choice(values, size=(size, 1), p=shares / shares.sum())
            for size in sizes
        )
        flagged += sketch_of(one).overlaps(sketch_of(two))
        again = rng.choice(two, size=2 * len(two))  # a table that is used with repeats
        flagged += sketch_of(one).overlaps(sketch_of(again))
        fewer = two[np.isin(two, values[shares > np.median(shares)])]  # of another law
        flagged += sketch_of(one).overlaps(sketch_of(fewer[:, None]))
    assert flagged == 0


def test_all_combinations_of_few_categories_are_no_private_records():
    design = np.array(np.meshgrid(*[range(4)] * 3)).reshape(3, -1).T * 1.0
    people = design[RNG.integers(len(design), size=400)]
    assert not sketch_of(people).overlaps(sketch_of(design))
    # A table of people that has each once, and a reference of nobody else, is told: it
    # may as well have been drawn from these rows.
    assert sketch_of(design).overlaps(sketch_of(people))


def test_one_record_among_others_is_never_found_out():
    """Or a reference could ask who is in the data."""
    for n_known in range(5):
        asking = np.vstack([X_PUBLIC[:3], X[:n_known]])
        assert not sketch_of(X).overlaps(sketch_of(asking))
    repeated = np.vstack([X[:1], *[X_PUBLIC[:1]] * 50])
    assert not sketch_of(X).overlaps(sketch_of(repeated))
    assert not sketch_of(repeated).overlaps(sketch_of(X))


@pytest.mark.parametrize("digits", [7, 12])
def test_records_that_were_rounded_are_known(digits):
    """As where they were written to a file; of fewer digits too little is left."""
    rounded = np.vectorize(lambda number: float(f"{number:.{digits}g}"))(X)
    assert sketch_of(X).overlaps(sketch_of(rounded[::-1]))
    shorter = pd.DataFrame(X.astype(np.float32)).astype(object).iloc[::-1]
    assert sketch_of(X).overlaps(sketch_of(shorter))
    assert not sketch_of(X).overlaps(sketch_of(X.round(1)))


def test_rounded_records_of_many_columns_are_known():
    """Each of which may be rounded to another number than its copy."""
    for n_columns in [1, 2, 3, 10, 100, 300]:
        table, others = np.random.default_rng(0).normal(size=(2, 500, n_columns))
        own = sketch_of(table)
        digits = 7 if n_columns == 1 else 6
        shorter = np.vectorize(lambda number: float(f"{number:.{digits}g}"))(table)
        for rounded in (table.astype(np.float32), shorter):
            assert own.overlaps(sketch_of(rounded[::-1]))
        for rounded in (others, others.astype(np.float32), shorter + 0.01):
            assert not own.overlaps(sketch_of(rounded))


PLACES = np.random.default_rng(0).permutation(np.arange(2000.0))[:, None]


def test_records_far_from_zero_are_known():
    """They may differ by less than rounded ones are known by."""
    for far in [
        1e6 + PLACES / 1e3,
        101_325 + PLACES / 1e5,
        4e9 + PLACES,
        np.column_stack([1e8 + PLACES, PLACES % 2]),
        np.column_stack([4_649_000 + PLACES / 500, 431_000 - PLACES / 5000, PLACES]),
        np.array([[10**12 + int(place)] for place in PLACES.ravel()], dtype=object),
    ]:
        own = sketch_of(far)
        assert own.overlaps(sketch_of(far[::-1]))
        assert own.overlaps(sketch_of(far[:300]))
        moved = far + PLACES.max() + 1
        assert not own.overlaps(sketch_of(moved[::-1]))


def test_a_mean_of_private_records_far_from_zero_is_told():
    far = 101_325 + RNG.normal(scale=0.05, size=(200, 3))
    sampler = SensitivitySampler(MeanQuery(), n_pairs=40, random_state=0)
    sampler.fit(far[RNG.permutation(200)])
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        sampler.release(far)


@pytest.mark.parametrize("times", [2, 3])
def test_records_that_are_there_several_times_are_known(times):
    """Nobody is single then; some of them may be, where others were left out."""
    own = np.repeat(X, times, axis=0)
    for rows in (own, own[7:]):
        assert sketch_of(rows).overlaps(sketch_of(X[SHUFFLED]))
        assert not sketch_of(rows).overlaps(sketch_of(X_PUBLIC))
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, two = rng.integers(30, size=(2, 300, 2)) * 1.0
        own = sketch_of(np.repeat(one, times, axis=0))
        assert not own.overlaps(sketch_of(two))


def test_targets_tell_records_apart_whose_features_do_not():
    ages = RNG.integers(18, 90, size=(400, 1)) * 1.0
    wages, others = RNG.normal(size=(2, 400))
    own = sketch_of(ages, wages)
    assert own.overlaps(sketch_of(ages[:100], wages[:100]))
    assert not own.overlaps(sketch_of(ages[:100], others[:100]))


def test_zeros_have_no_sign_and_rows_no_neighbors():
    table = np.array([[0.0, 1.0], [1.0, 0.0]] * 4)
    table[:, 1] += np.repeat(np.arange(4.0), 2)
    hashed = sketch_of(table).features
    np.testing.assert_array_equal(
        sketch_of(np.where(table == 0, -0.0, table)).features, hashed
    )
    swapped = sketch_of(table[:, ::-1]).features
    assert len(np.intersect1d(swapped, hashed)) < 8


def test_a_few_records_of_which_no_hash_is_among_those_kept_are_no_others(monkeypatch):
    """A large table has kept none that is as large as theirs."""
    monkeypatch.setattr("skparisk.reference._sketch._MOST_KEPT", 50)
    rng = np.random.default_rng(0)
    large = sketch_of(rng.normal(size=(5_000, 2)))
    few = sketch_of(rng.normal(size=(3, 2)))
    assert (few.features[:, 0] > large.features[:, -1]).all()
    assert not few.overlaps(large)
    assert not large.overlaps(few)


def test_large_tables_are_known_by_a_part_of_their_hashes(monkeypatch):
    monkeypatch.setattr("skparisk.reference._sketch._MOST_KEPT", 64)
    table = np.random.default_rng(0).normal(size=(5000, 2))
    others = np.random.default_rng(1).normal(size=(5000, 2))
    own = sketch_of(table)
    assert own.features.shape == (2, 64)
    for part, known in [(table[::-1], True), (table[:2500], True), (others, False)]:
        assert own.overlaps(sketch_of(part)) is known
        assert sketch_of(part).overlaps(own) is known
    mixed = np.vstack([others[:2500], table[:2500]])
    assert own.overlaps(sketch_of(mixed))


# Every path asks


ESTIMATORS = {
    "ridge": (PrivateRidge(sensitivity=FEW), Y, Y_PUBLIC),
    "logistic": (PrivateLogisticRegression(sensitivity=FEW), LABELS, LABELS_PUBLIC),
    "svm": (PrivateLinearSVC(sensitivity=FEW), LABELS, LABELS_PUBLIC),
    "density": (PrivateKernelDensity(bounds=(-9, 9), sensitivity=FEW), None, None),
    "wrapped": (PrivateEstimator(Lasso(0.1), sensitivity=FEW), Y, Y_PUBLIC),
}


def label(y):
    return None if y is None else {"y_reference": y}


def test_a_reference_of_private_records_is_told_and_keeps_nothing():
    guises = ["another order", "a part", "a large bootstrap", "the same", "a part"]
    for name, guise in zip(ESTIMATORS, guises, strict=True):
        model, y, _ = ESTIMATORS[name]
        rows, targets = GUISES[guise]
        public = {"X_reference": rows}
        if y is not None:
            public["y_reference"] = targets if y is Y else (targets > 0) * 1
        with pytest.warns(PrivacyLeakWarning, match="shares records with them"):
            model.fit(X, y, **public)
        assert model.certificate_.reference_is_private
        assert not model.certificate_.private
        assert model.certificate_.evidence.curve is None
        assert not hasattr(model.sampler_, "differences_")
        assert model.sampler_.pairs_.sketch is None
        document = pickle.dumps(model)
        assert not any(row.tobytes() in document for row in X)


@pytest.mark.parametrize("sensitivity", ["bound", 1.0])
def test_private_classes_are_not_published_as_those_of_a_reference(sensitivity):
    """A class that one person has was published, and the certificate private."""
    labels = LABELS.copy()
    labels[7] = 2
    model = PrivateLogisticRegression(sensitivity=sensitivity)
    if sensitivity == "bound":
        model.set_params(x_norm=5.0)
    with pytest.raises(ValueError, match="X_reference must be public"):
        model.fit(X, labels, X_reference=X[::-1], y_reference=labels[::-1])
    model.set_params(classes=[0, 1, 2]).fit(X, labels)
    assert model.certificate_.private


def test_searches_ask_before_they_split():
    for selection in ["reference", "exponential"]:
        for guise in ["another order", "among others"]:
            rows, targets = GUISES[guise]
            ridge = PrivateRidge(sensitivity=FEW, epsilon=0.1)
            search = PrivateGridSearchCV(
                ridge, {"alpha": [0.1, 1.0]}, selection=selection
            )
            with pytest.raises(ValueError, match="X_reference must be public"):
                search.fit(X, Y, X_reference=rows, y_reference=targets)
            table = TableReference(rows, targets)
            fitted = SensitivitySampler(RidgeQuery(), n_pairs=40, n_records=96).fit(
                *make_data(9)
            )
            fitted = fitted.set_params(reference=table).fit(*make_data(96))
            for sampler in (
                SensitivitySampler(reference=table),
                FrozenEstimator(fitted),
            ):
                search.set_params(estimator__sensitivity=sampler)
                with pytest.raises(
                    ValueError, match="was fitted on private records, or has"
                ):
                    search.fit(X, Y)
            assert not hasattr(search, "certificate_")


def test_transform_after_fit_keeps_no_difference_anywhere():
    """They stayed on the sampler, and on those that were calibrated before."""
    sampler = SensitivitySampler(random_state=0).fit(X)
    other = sampler.calibrate(epsilon=2.0)
    before = pickle.dumps(sampler.differences_.tobytes())[-500:-400]
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        sampler.transform(X[::-1])
    for one in (sampler, other):
        assert not hasattr(one, "differences_")
        assert not hasattr(one, "sensitivities_")
        assert one.certificate_.reference_is_private
        assert one.certificate_.evidence.curve is None
        assert before not in pickle.dumps(one)
        with pytest.raises(IncompatibleError, match="came from private data"):
            one.calibrate()
    sampler = SensitivitySampler(MeanQuery(), random_state=0).fit(X)
    other = sampler.calibrate(epsilon=2.0)
    with pytest.warns(PrivacyLeakWarning):
        other.release(X)
    assert not sampler.certificate_.private


# Parts that were fitted before


def scaler(rows):
    return StandardScaler().fit(rows)


def predicting(estimator, **parameters):
    """Release predictions of an estimator on public records."""
    return PrivateEstimator(
        estimator,
        "predict",
        X_public=X_PUBLIC[:20],
        sensitivity=FEW,
        combine=None,
        **parameters,
    )


def test_a_fitted_step_or_surrogate_is_a_leak_that_is_told():
    """It is fitted again, and what it has learned stays in the parameters."""
    surrogate = KNeighborsRegressor(2).fit(X, Y)
    for model, name in (
        (predicting(make_pipeline(scaler(X), Lasso(0.1))), "StandardScaler"),
        (predicting(Lasso(0.1), surrogate=surrogate), "KNeighborsRegressor"),
    ):
        told = f"The {name} has already been fitted"
        with pytest.warns(PrivacyLeakWarning, match=told):
            model.fit(X, Y, **PUBLIC)
        assert not model.certificate_.private
        assert "had already been fitted" in model.certificate_.caveats[0]
        assert model.certificate_.leaks == {Leak.FITTED_PARTS}


@pytest.mark.parametrize(
    "make",
    [
        lambda frozen: make_pipeline(frozen, Lasso(0.1)),
        lambda frozen: make_pipeline("passthrough", frozen, Lasso(0.1)),
        lambda frozen: make_pipeline(
            ColumnTransformer([("all", frozen, [0, 1, 2])]), Lasso(0.1)
        ),
    ],
)
def test_frozen_steps_that_learned_from_the_private_records_are_refused(make):
    def model(rows):
        return predicting(make(FrozenEstimator(scaler(rows))))

    for rows, own, targets in (
        (X, X, Y),
        (X[::-1].astype(np.float32), X, Y),
        *(
            (rows, rows, np.append(Y, Y))
            for rows in (np.repeat(X, 2, 0), np.tile(X, (2, 1)))
        ),
    ):
        with pytest.raises(ValueError, match="frozen part of the estimator holds what"):
            model(rows).fit(own, targets, **PUBLIC)
    public = model(X_PUBLIC).fit(X, Y, **PUBLIC)
    assert public.certificate_.private
    assert "Frozen parts" in public.certificate_.caveats[-1]


@pytest.mark.parametrize("step", [MinMaxScaler(), SimpleImputer(strategy="median")])
def test_frozen_steps_that_learn_the_same_of_anybody_are_not_refused(step):
    """Such as the range of answers from 1 to 5; but one that one person has is."""
    rng = np.random.default_rng(0)
    own, public = rng.integers(1, 6, size=(2, 400, 3)) * 1.0

    def fit(rows):
        frozen = FrozenEstimator(clone(step).fit(public))
        model = predicting(make_pipeline(frozen, Lasso(0.1)))
        targets = rows[:, 0] + rng.normal(size=400)
        return model.fit(rows, targets, X_reference=public, y_reference=targets)

    assert fit(own).certificate_.private
    if isinstance(step, MinMaxScaler):
        public[0] = own[0] = 77.0
        with pytest.raises(ValueError, match="frozen part of the estimator holds what"):
            fit(own)


def test_a_frozen_step_that_learned_from_private_records_is_refused_beside_another():
    """That learned the same of anybody, which excuses only itself."""
    rng = np.random.default_rng(0)
    own, public = rng.integers(1, 6, size=(2, 400, 3)) * 1.0
    frozen = [FrozenEstimator(MinMaxScaler().fit(public)), FrozenEstimator(scaler(own))]
    for steps in (frozen, frozen[::-1]):
        both = ColumnTransformer(
            [(str(i), step, [0, 1, 2]) for i, step in enumerate(steps)]
        )
        model = predicting(make_pipeline(both, Lasso(0.1)))
        targets = own[:, 0] + rng.normal(size=400)
        with pytest.raises(ValueError, match="frozen part of the estimator holds what"):
            model.fit(own, targets, X_reference=public, y_reference=targets)


def test_searches_refuse_frozen_steps_that_learned_from_private_records():
    def search(rows):
        pipeline = make_pipeline(
            FrozenEstimator(scaler(rows)), PrivateRidge(sensitivity=FEW)
        )
        return PrivateGridSearchCV(pipeline, {"privateridge__alpha": [0.1, 1.0]})

    with pytest.raises(ValueError, match="frozen part of the estimator holds what"):
        search(X).fit(X, Y, **PUBLIC)
    assert search(X_PUBLIC).fit(X, Y, **PUBLIC).certificate_.private


def test_an_estimator_that_cannot_be_fitted_to_these_records_learned_nothing_of_them():
    """Thawed, it fails on the private records: no reason to refuse it."""
    frozen = FrozenEstimator(PoissonRegressor().fit(X_PUBLIC, abs(Y_PUBLIC)))
    model = predicting(Lasso(0.1), surrogate=frozen)
    assert model.fit(X, Y, **PUBLIC).certificate_.private


def test_what_is_frozen_cannot_be_wrapped():
    """It failed with an attribute of None."""
    frozen = FrozenEstimator(LinearRegression().fit(X_PUBLIC, Y_PUBLIC))
    with pytest.raises(ValueError, match="FrozenEstimator learns nothing"):
        PrivateEstimator(frozen, sensitivity=FEW, combine=None).fit(X, Y, **PUBLIC)


# Functions


def drawn_from(rows, targets):
    def sample(n_records, rng):
        drawn = rng.integers(len(rows), size=n_records)
        return rows[drawn], targets[drawn]

    return sample


def test_private_records_that_a_function_draws_are_recognized():
    """Nothing else would tell that the noise was computed from them."""
    resampled = CallableReference(drawn_from(X, Y))
    density = PrivateKernelDensity(bounds=(-9, 9), lattice_size=2, sensitivity=FEW)
    features = CallableReference(lambda n, rng: resampled.sample(n, rng)[0])
    with pytest.warns(PrivacyLeakWarning, match="private data themselves"):
        density.fit(X, X_reference=features)
    assert density.certificate_.reference_is_private
    for reference in (resampled, drawn_from(X, Y)):
        kept = SensitivitySampler(reference=reference, n_pairs=40)
        with pytest.raises(ValueError, match="would stay"):
            PrivateRidge(1.0, sensitivity=kept).fit(X, Y)
        sampler = SensitivitySampler(RidgeQuery(1.0), reference=reference, n_pairs=40)
        sampler.fit(X_PUBLIC[:120], Y_PUBLIC[:120])
        read = copy.deepcopy(sampler)
        for each in (sampler, read):
            with pytest.warns(PrivacyLeakWarning, match="private data themselves"):
                each.release(X, Y)
            assert each.certificate_.reference_is_private


@pytest.mark.parametrize("kind", ["public rows", "a law", "few values"])
def test_other_records_of_a_function_are_not_taken_for_private_ones(kind):
    def law(n_records, rng):
        rows = rng.normal(size=(n_records, 3))
        rows = np.rint(rows) if kind == "few values" else rows
        return rows, rng.normal(size=n_records).round(1)

    own = law(120, RNG) if kind == "few values" else (X, Y)
    made = drawn_from(X_PUBLIC, Y_PUBLIC) if kind == "public rows" else law
    sampler = SensitivitySampler(reference=made, n_pairs=40)
    model = PrivateRidge(1.0, sensitivity=sampler).fit(*own)
    assert model.certificate_.private
    # It says nothing of how many rows there are, so that no release is far from them.
    assert not model.sampler_.pairs_.sketch.whole
    assert distance(model.sampler_, model.released_ + 1e9) == 0.0


def test_a_function_is_asked_for_a_few_records_and_may_refuse():
    def sample(n_records, rng):
        if n_records < 50:
            raise ValueError("too few")
        return rng.normal(size=(n_records, 3)), rng.normal(size=n_records)

    assert CallableReference(sample).sketch is None
    sampler = SensitivitySampler(reference=sample, n_pairs=40)
    assert PrivateRidge(1.0, sensitivity=sampler).fit(X, Y).certificate_.private


def test_other_densities_are_known_by_what_they_make():
    """Not by what they learned from: that this is public is the caller's word."""
    density = GaussianMixture(random_state=0).fit(X)
    reference = CallableReference(
        lambda n, rng: density.set_params(
            random_state=np.random.RandomState(rng.bit_generator)
        ).sample(n)[0]
    )
    made, _ = density.sample(120)
    sampler = SensitivitySampler(
        MeanQuery(), reference=reference, n_pairs=40, n_records=120, random_state=0
    ).fit(X_PUBLIC)
    sampler.release(X)
    assert sampler.certificate_.private
    assert not sketch_of(made).overlaps(sketch_of(X))
    assert reference.sketch is not None
    assert not reference.sketch.overlaps(sketch_of(X))
