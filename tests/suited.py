"""All estimators of scikit-learn, with records that suit each."""

import inspect

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skparisk.queries._estimator import takes_targets


def member(kind):
    return Ridge() if "Regress" in kind else LogisticRegression(max_iter=20)


def members(kind):
    other = Ridge(10.0) if "Regress" in kind else GaussianNB()
    return [("one", member(kind)), ("other", other)]


# Of parameters without a default.
NEEDED = {
    "estimator": member,
    "estimators": members,
    "steps": lambda kind: [("scale", StandardScaler()), ("model", Ridge())],
    "transformers": lambda kind: [("scale", StandardScaler(), [0, 1])],
    "transformer_list": lambda kind: [("scale", StandardScaler())],
    "param_grid": lambda kind: {"C": [0.1, 1.0]},
    "param_distributions": lambda kind: {"C": [0.1, 1.0]},
    "dictionary": lambda kind: np.eye(4),
}
# For few records, and a short test.
SMALL = {
    "Cs": 2,
    "cv": 2,
    "n_components": 2,
    "n_estimators": 3,
    "n_init": 1,
    "n_quantiles": 10,
    "perplexity": 5.0,
    "thresholds": 5,
}
OTHERS = {
    "DictionaryLearning": {"max_iter": 5},
    "GaussianProcessRegressor": {"alpha": 0.1},
    "HashingVectorizer": {"n_features": 16},
    "HistGradientBoostingClassifier": {"max_iter": 3},
    "HistGradientBoostingRegressor": {"max_iter": 3},
    "IsotonicRegression": {"out_of_bounds": "clip"},
    "LatentDirichletAllocation": {"max_iter": 3},
    "MLPClassifier": {"hidden_layer_sizes": (5,), "max_iter": 20},
    "MLPRegressor": {"hidden_layer_sizes": (5,), "max_iter": 20},
    "MiniBatchDictionaryLearning": {"max_iter": 5},
    "RadiusNeighborsClassifier": {"radius": 5.0},
    "RadiusNeighborsRegressor": {"radius": 5.0},
    "RandomizedSearchCV": {"n_iter": 2},
    "SelectKBest": {"k": 2},
    "SelfTrainingClassifier": {"estimator": LogisticRegression(max_iter=20)},
    "SpectralBiclustering": {"n_components": 6},
    "TSNE": {"max_iter": 250},
    "TheilSenRegressor": {"max_subpopulation": 50},
}


def make(kind):
    """Return an estimator of a class, with few parameters that are not defaults."""
    parameters = inspect.signature(kind).parameters
    name = kind.__name__
    given = {
        parameter: NEEDED[parameter](name)
        for parameter, said in parameters.items()
        if said.default is said.empty and parameter in NEEDED
    }
    given |= {parameter: SMALL[parameter] for parameter in parameters & SMALL.keys()}
    return kind(**given | OTHERS.get(name, {}))


def suitable(estimator, n_records, seed):
    """Return records, and targets or labels or None, that suit an estimator."""
    rng = np.random.default_rng(seed)
    tags, package = get_tags(estimator), type(estimator).__module__.split(".")[1]
    group = rng.permutation(np.arange(n_records) % 3)
    y = _targets(estimator, rng, group) if takes_targets(estimator) else None
    if tags.input_tags.string and not tags.input_tags.two_d_array:
        words = np.array(["ash", "beech", "elm", "fir", "oak", "yew"])
        return [" ".join(words[rng.integers(0, 6, 8)]) for _ in group], y
    if tags.input_tags.pairwise:
        return np.exp(-rng.random((n_records, n_records))), y
    X = rng.gamma(4.0, 0.25, size=(n_records, 4)) + 0.8 * np.eye(3, 4)[group]
    if tags.input_tags.categorical or package == "feature_extraction":
        X = np.minimum(2 * X, 3.0).astype(np.int64)  # categories, or counts
    if package == "isotonic":
        X = X[:, :1]
    if package == "impute":  # in a column they are rare
        X[rng.random(X.shape) < [0.2, 0.2, 0.2, 0.02]] = np.nan
    if hasattr(estimator, "pooling_func"):  # which columns are alike is chance
        X = rng.random(X.shape)
    return X, y


def _targets(estimator, rng, group):
    tags = get_tags(estimator)
    y = group + 0.1 + rng.random(group.shape)
    several = not tags.target_tags.single_output
    if tags.estimator_type == "regressor":
        pairs = "cross_decomposition" in type(estimator).__module__
        return np.c_[y, y**2 + rng.random(group.shape)] if several or pairs else y
    if tags.estimator_type != "classifier":
        return group.astype(np.float64)
    if not tags.classifier_tags.multi_class:
        group = np.minimum(group, 1)
    if "semi_supervised" in type(estimator).__module__:
        return group  # of which -1 stands for none
    labels = np.array(["ash", "beech", "cedar"])[group]
    return np.c_[labels, labels[::-1]] if several else labels
