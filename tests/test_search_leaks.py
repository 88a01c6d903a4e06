"""Parts of an estimator that are not from skparisk, and may learn without noise."""

import math

import numpy as np
import pytest
from searches import (
    PUBLIC,
    SELECTIONS,
    X_PUBLIC,
    Y_PUBLIC,
    Fill,
    X,
    Y,
    known,
    private_search,
)
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skparisk import PrivacyLeakWarning, PrivateEstimator
from skparisk.core import Leak
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection._fits import Candidate


class Duck:
    """Of no base class, so that nothing is known of it."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


RESPONSE = PrivateEstimator(StandardScaler(), sensitivity=1.0)

LEARNING = {
    "scaler": make_pipeline(StandardScaler(), known()),
    "duck": make_pipeline(Duck(), known()),
    "ensemble": VotingRegressor([("private", known()), ("plain", Ridge())]),
    "ensemble of private parts": BaggingRegressor(known()),
    "targets": make_pipeline(RESPONSE, Ridge()),
    "records kept": make_pipeline(RESPONSE, GaussianProcessRegressor()),
    "default": make_pipeline(RESPONSE, TransformedTargetRegressor()),
    "function": make_pipeline(FunctionTransformer(lambda X: X - X.mean(0)), known()),
    "function of targets": TransformedTargetRegressor(
        known(), func=lambda y: y - y.mean(), inverse_func=np.positive
    ),
    "scaled targets": TransformedTargetRegressor(known(), transformer=StandardScaler()),
    "columns": make_pipeline(
        ColumnTransformer([("scaler", StandardScaler(), [0])]), known()
    ),
    "chosen columns": make_pipeline(
        ColumnTransformer([("same", "passthrough", lambda X: X.std(0) > 1)]), known()
    ),
    "union": make_pipeline(make_union(StandardScaler(), "passthrough"), known()),
    "disk": make_pipeline(Normalizer(), known(), memory="cache"),
    "search": GridSearchCV(known(), {}),
    "inside": private_search(make_pipeline(StandardScaler(), known()), {}, "reference"),
}
HARMLESS = {
    "alone": known(),
    "one record": make_pipeline(Normalizer(), "passthrough", known()),
    "own": make_pipeline(Fill(), known()),
    "frozen": make_pipeline(FrozenEstimator(StandardScaler().fit(X_PUBLIC)), known()),
    "private": make_pipeline(PrivateEstimator(StandardScaler()), known()),
    "elementwise": make_pipeline(FunctionTransformer(np.arcsinh), known()),
    "identity": make_pipeline(FunctionTransformer(), known()),
    "function of a target": TransformedTargetRegressor(
        known(), func=np.arcsinh, inverse_func=np.sinh
    ),
    "columns": make_pipeline(
        ColumnTransformer([("one", Normalizer(), [0]), ("same", "passthrough", [1])]),
        known(),
    ),
    "kinds of columns": make_pipeline(
        ColumnTransformer([("n", "passthrough", make_column_selector("x"))]), known()
    ),
    "union": make_pipeline(make_union(Normalizer(), "passthrough"), known()),
    "nested": private_search(known(), {}, "reference"),
}


def test_parts_that_may_hold_what_they_learned_are_noticed():
    for name in LEARNING:
        assert Candidate({}, LEARNING[name]).learns_more


def test_parts_that_have_nothing_to_learn_are_no_leak():
    for name in HARMLESS:
        assert not Candidate({}, HARMLESS[name]).learns_more


# Of a plain ridge regression of encoded targets, with some draws of the noise.
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_parts_without_noise_are_a_leak_that_is_told():
    for name in ["scaler", "ensemble", "targets", "function"]:
        for selection in SELECTIONS:
            records = (X > 0).astype(float) if name == "targets" else X
            search = private_search(LEARNING[name], {}, selection)
            with PrivacyLedger(math.inf) as ledger:
                public = {"X_reference": (X_PUBLIC > 0) * 1.0, "y_reference": Y_PUBLIC}
                with pytest.warns(
                    PrivacyLeakWarning, match="not from skparisk"
                ) as caught:
                    search.fit(records, Y, **(public if name == "targets" else PUBLIC))
            assert [one.category for one in caught].count(PrivacyLeakWarning) == 1
            assert not search.certificate_.private
            assert search.certificate_.leaks == ledger.spent.leaks == {Leak.LEARNS_MORE}
            assert search.certificate_.epsilon == 1.0
            told = [entry.certificate for entry in ledger.releases]
            assert {one.n_releases for one in told if one.leaks} == {0}
            # The scores are public all the same.
            assert hasattr(search, "cv_results_") == (selection == "reference")


def test_only_the_candidate_that_is_fitted_may_leak_by_reference():
    grid = {"standardscaler": ["passthrough"]}
    search = private_search(LEARNING["scaler"], grid, "reference")
    assert search.fit(X, Y, **PUBLIC).certificate_.private
