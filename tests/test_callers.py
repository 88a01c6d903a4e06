"""What fits a private estimator and learns from the same records without noise."""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import VotingRegressor
from sklearn.feature_selection import RFE, RFECV, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateTable,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.core import Assumption, Leak, words
from skparisk.model_selection import ExponentialSelection
from skparisk.queries import RidgeQuery
from skparisk.reference import TableReference

LEAKS = words().LEAKS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X @ [1.0, 2.0, 3.0] + RNG.normal(size=200)
FROZEN = FrozenEstimator(StandardScaler().fit(RNG.normal(size=(50, 3))))
STATELESS = FunctionTransformer(np.sign)
PUBLIC = RNG.normal(size=(3000, 3))


def ridge():
    """Return a private model that needs no reference."""
    return PrivateRidge(sensitivity="bound", x_norm=3.0, y_bounds=(-9.0, 9.0))


def find_certificates(fitted):
    """Return the claims of private parts, however they are put together."""
    found, left = [], [fitted]
    while left:
        value = left.pop()
        if hasattr(value, "certificate_"):
            found.append(value.certificate_)
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, BaseEstimator):
            left += vars(value).values()
    return found


def fit_caught(estimator, y=Y):
    """Return the leaks of the private models in it, and what was warned of."""
    with (
        warnings.catch_warnings(record=True) as caught,
        PrivacyLedger(math.inf) as ledger,
    ):
        warnings.simplefilter("always")
        estimator.fit(X, y)
    claims = find_certificates([estimator, *vars(estimator).values()])
    assert claims
    leaks = {leak for claim in claims for leak in claim.leaks}
    assert leaks <= {*ledger.spent.leaks}
    warned = [str(each.message) for each in caught]
    # At the line outside of scikit-learn and of this package.
    assert {each.filename for each in caught} <= {__file__}
    assert all(issubclass(each.category, PrivacyLeakWarning) for each in caught)
    assert all(any(text.startswith(LEAKS[leak]) for text in warned) for leak in leaks)
    return leaks


LEARNING = {
    "columns": lambda: make_pipeline(
        make_column_transformer((StandardScaler(), [0, 1]), (STATELESS, [2])), ridge()
    ),
    "other columns": lambda: make_pipeline(
        make_column_transformer((STATELESS, [2]), remainder=StandardScaler()), ridge()
    ),
    "union": lambda: make_pipeline(make_union(STATELESS, StandardScaler()), ridge()),
    "pipeline inside": lambda: make_pipeline(
        make_pipeline(STATELESS, StandardScaler()), ridge()
    ),
}


def test_what_learns_without_noise_is_told():
    """On the certificate, to ledgers, and with a warning, whoever fits it."""
    for make in LEARNING.values():
        assert fit_caught(make()) == {Leak.LEARNS_MORE}


def test_steps_that_release_without_a_model_tell_it_too():
    """On the ledger, and on the certificate."""
    learning = StandardScaler().set_output(transform="pandas")
    table = PrivateTable({"x0": (-9.0, 9.0)}, counts="x0", bins=3)
    pipeline = make_pipeline(learning, table)
    with (
        PrivacyLedger(9.0) as ledger,
        pytest.warns(PrivacyLeakWarning, match="fit standardscaler to pub") as caught,
    ):
        pipeline.fit(X)
    assert len(caught) == 1
    assert ledger.spent.leaks == table.certificate_.leaks == {Leak.LEARNS_MORE}
    with PrivacyLedger(9.0) as ledger:
        table.fit(learning.transform(X))
    assert not ledger.spent.leaks


def test_a_release_outside_of_a_fit_is_of_what_was_fitted_before():
    """To public records, which is right."""
    local = SensitivitySampler(n_pairs=19)
    pipeline = make_pipeline(StandardScaler(), local).fit(PUBLIC)
    with PrivacyLedger(9.0) as ledger:
        pipeline.transform(X)
    assert ledger.spent.n_releases == 1
    assert not ledger.spent.leaks


HARMLESS = {
    "columns": lambda: make_pipeline(
        make_column_transformer((FROZEN, [0, 1, 2]), (STATELESS, [2])), ridge()
    ),
    "union": lambda: make_pipeline(make_union(STATELESS, Normalizer()), ridge()),
    "pipeline inside": lambda: make_pipeline(make_pipeline(STATELESS, FROZEN), ridge()),
    "private before": lambda: make_pipeline(Passing(), ridge()),
    "voting": lambda: VotingRegressor([("a", LinearRegression()), ("b", ridge())]),
    "elimination": lambda: RFE(ridge(), n_features_to_select=2),
    "targets by themselves": lambda: MultiOutputRegressor(ridge()),
    "targets in a chain": lambda: RegressorChain(ridge()),
}


class Passing(PrivateRidge):
    """A private step that is fitted before."""

    def __init__(self):
        super().__init__(sensitivity="bound", x_norm=3.0, y_bounds=(-9.0, 9.0))

    def transform(self, X):
        """Return them as they are."""
        return X


def test_what_learns_nothing_is_no_leak():
    """Nor what is frozen, or private."""
    for make in HARMLESS.values():
        estimator = make()
        several = isinstance(estimator, MultiOutputRegressor | RegressorChain)
        y = np.c_[Y, Y] if several else Y
        assert not fit_caught(estimator, y)


@pytest.mark.parametrize(
    "first", [FROZEN, make_column_transformer((FROZEN, [0, 1, 2])), STATELESS]
)
def test_frozen_steps_before_a_model_are_on_the_word_of_the_caller(first):
    """As those of what is wrapped are."""
    last = ridge()
    with PrivacyLedger(9.0) as ledger:
        make_pipeline(first, last).fit(X, Y)
    told = set() if first is STATELESS else {Assumption.FROZEN_PARTS}
    assert last.certificate_.assumptions == ledger.spent.assumptions == told
    assert last.certificate_.private


def classifier():
    return PrivateLogisticRegression(classes=[0, 1], sensitivity=0.05)


LABELS = np.digitize(Y, [-3.0, 3.0])
# Around private models: what else it learns from the records, or publishes of them.
MORE = {
    "folds": (lambda: RFECV(ridge(), cv=2), Y, Leak.CHOSEN),
    "forward": (
        lambda: SequentialFeatureSelector(ridge(), n_features_to_select=1, cv=2),
        Y,
        Leak.CHOSEN,
    ),
    "threshold": (
        lambda: TunedThresholdClassifierCV(classifier(), cv=2),
        LABELS > 0,
        Leak.CHOSEN,
    ),
    "calibrator": (
        lambda: CalibratedClassifierCV(classifier(), cv=2),
        LABELS > 0,
        Leak.CHOSEN,
    ),
    "chain": (lambda: RegressorChain(ridge(), cv=2), np.c_[Y, Y], Leak.CHOSEN),
    "sizes": (lambda: OneVsOneClassifier(classifier()), LABELS, Leak.LEARNS_MORE),
    "classes": (lambda: OneVsRestClassifier(classifier()), LABELS, Leak.LEARNS_MORE),
    "targets": (
        lambda: TransformedTargetRegressor(ridge(), transformer=StandardScaler()),
        Y,
        Leak.LEARNS_MORE,
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_what_does_more_than_to_hand_on_records_is_told(name):
    make, targets, leak = MORE[name]
    with PrivacyLedger(math.inf) as ledger, pytest.warns(PrivacyLeakWarning):
        make().fit(X, targets)
    assert ledger.spent.leaks == {leak}


@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV])
def test_a_choice_by_private_scores_is_told(kind):
    """Of the model that is fitted last, with what was chosen."""
    search = kind(ridge(), {"alpha": [1.0, 2.0]}, cv=KFold(2))
    if kind is RandomizedSearchCV:
        search.set_params(n_iter=1)
    assert fit_caught(search) == {Leak.CHOSEN}
    if kind is GridSearchCV:
        with PrivacyLedger(
            math.inf
        ) as ledger:  # nothing is chosen from scores of these fits
            search = clone(search).set_params(refit=False).fit(X, Y)
        assert not ledger.spent.leaks


def test_a_private_search_is_told_of_what_is_before_it():
    """Once; and so is its certificate."""
    search = PrivateGridSearchCV(
        PrivateRidge(sensitivity=1.0),
        {"alpha": [1.0, 2.0]},
        selection=ExponentialSelection(y_bounds=(-9.0, 9.0)),
    )
    pipeline = make_pipeline(StandardScaler(), search)
    with pytest.warns(PrivacyLeakWarning, match="fit standardscaler to pub") as caught:
        pipeline.fit(X, Y)
    assert len(caught) == 1
    assert search.certificate_.leaks == {Leak.LEARNS_MORE}
    assert not make_pipeline(STATELESS, search).fit(X, Y)[-1].certificate_.leaks


@pytest.mark.parametrize("step", [StandardScaler(), STATELESS, FROZEN])
def test_a_sampler_with_a_reference_is_refused_behind_what_learns(step):
    """Its pairs would be in other units; fitted to public records it is right."""
    public = RNG.normal(size=(100, 3))
    reference = TableReference(public)
    sampler = SensitivitySampler(reference=reference, n_pairs=100, random_state=0)
    pipeline = Pipeline([("step", step), ("sampler", sampler)])
    if step is STATELESS or step is FROZEN:
        assert pipeline.fit_transform(X).shape == X.shape
        return
    for fit in (pipeline.fit, pipeline.fit_transform):
        with pytest.raises(IncompatibleError, match="not transformed by step, as X"):
            fit(X)
    # Nor may one that was fitted to them, and is not fitted again, release behind it.
    before = FrozenEstimator(SensitivitySampler(n_pairs=100).fit(public))
    with pytest.raises(IncompatibleError, match="not transformed by step, as X"):
        Pipeline([("step", step), ("sampler", before)]).fit_transform(X)
    pipeline.set_params(sampler__reference=None).fit(public)
    assert pipeline.transform(X).shape == X.shape
    assert sampler.certificate_.private


def clusters(reference=None):
    """Return a private model that transforms and predicts, for a public reference."""
    cheap = SensitivitySampler(n_pairs=20, gamma=0.1, reference=reference)
    return PrivateEstimator(
        KMeans(2, n_init=1, random_state=0), sensitivity=cheap, random_state=0
    )


@pytest.mark.parametrize("method", ["fit", "fit_transform", "fit_predict"])
@pytest.mark.parametrize("memory", [False, True])
def test_a_reference_that_is_not_transformed_is_refused(method, memory, tmp_path):
    """Whichever method fits the pipeline, and whoever the reference was given to."""
    memory = str(tmp_path) if memory else None
    routed = make_pipeline(StandardScaler(), clusters(), memory=memory)
    message = "X_reference is not transformed by standardscaler, as X"
    with pytest.raises(IncompatibleError, match=message):
        getattr(routed, method)(X, privateestimator__X_reference=PUBLIC)
    held = make_pipeline(StandardScaler(), clusters(TableReference(PUBLIC)))
    message = "of the SensitivitySampler is not transformed by standardscaler, as"
    with pytest.raises(IncompatibleError, match=message):
        getattr(held.set_params(memory=memory), method)(X)


@pytest.mark.parametrize("last", [clusters, SensitivitySampler])
def test_a_reference_that_a_private_step_does_not_transform_is_refused(last):
    """What it makes of records is in other units as well, though it is no leak."""
    public = TableReference(PUBLIC)
    first = PrivateEstimator(KMeans(3, n_init=1, random_state=0), sensitivity=1.0)
    pipeline = make_pipeline(first, last(reference=public))
    with pytest.raises(IncompatibleError, match=r"privateestimator(-1)?, "):
        pipeline.fit(X)


def fitted_before(reference):
    """Return a private model whose pairs were sampled before."""
    sampler = SensitivitySampler(
        RidgeQuery(), n_pairs=100, n_records=200, reference=reference, random_state=0
    )
    return PrivateRidge(sensitivity=FrozenEstimator(sampler.fit(X, Y)))


@pytest.mark.parametrize(
    "first", [StandardScaler(), PrivateEstimator(KMeans(3, n_init=1), sensitivity=1.0)]
)
def test_pairs_of_a_table_that_were_sampled_before_are_of_other_units(first):
    """As its rows are, that no step on the way has transformed."""
    last = fitted_before(TableReference(PUBLIC, PUBLIC[:, 0]))
    with pytest.raises(IncompatibleError, match="SensitivitySampler is not transf"):
        make_pipeline(first, last).fit(X, Y)


def test_pairs_of_a_schema_may_be_of_any_units():
    """It may have declared those that records are in when they get there."""
    last = fitted_before(SchemaReference([(-3, 3)] * 3, target=(-9, 9)))
    with pytest.warns(PrivacyLeakWarning, match="fit standardscaler to public"):
        make_pipeline(StandardScaler(), last).fit(X, Y)
    assert last.certificate_.leaks == {Leak.LEARNS_MORE}


@pytest.mark.parametrize("method", ["fit", "fit_transform", "fit_predict"])
def test_a_reference_behind_what_learns_nothing_is_taken(method):
    """Nothing inside of what puts parts together has to have transformed it."""
    together = make_column_transformer((FROZEN, [0, 1, 2]), (STATELESS, [2]))
    pipeline = make_pipeline(together, clusters())
    given = {"privateestimator__X_reference": together.fit_transform(PUBLIC)}
    getattr(pipeline, method)(X, **given)
    assert pipeline[-1].certificate_.private


def test_steps_behind_a_private_one_do_not_move_its_records():
    """Nor did they at an earlier fit, which a second one finds them after."""
    pipeline = make_pipeline(clusters(), StandardScaler())
    for _ in range(2):
        pipeline.fit(X, privateestimator__X_reference=PUBLIC)
        assert pipeline[0].certificate_.private
