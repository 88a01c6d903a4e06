"""Penalties that are chosen by simulated releases on public records."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skparisk import (
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
    learn_reference,
)
from skparisk.linear_model._penalty_choice import _Fold
from skparisk.model_selection import PrivateGridSearchCV
from skparisk.queries import RidgeQuery
from skparisk.reference import RecordPool, TableReference
from skparisk.sensitivity._parallel import PairSpec

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = X @ [2.0, -1.0, 0.0] + RNG.normal(size=240)
LABELS = (Y > 0) * 1.0
PUBLIC = {"X_reference": X[:120], "y_reference": Y[:120]}
OWN = X[120:], Y[120:]
BOX = SchemaReference([(-3, 3)] * 3, target=(-9.0, 9.0))
LEARNED = learn_reference(BOX, X[:120], Y[:120], epsilon=0.5).reference
FEW = SensitivitySampler(n_pairs=100)
RIDGE = PrivateRidge(sensitivity=FEW, combine=None, random_state=0)
LOGISTIC = PrivateLogisticRegression(sensitivity=FEW, combine=None)
MODELS = {
    "alpha": (RIDGE, Y),
    "C": (clone(LOGISTIC).set_params(random_state=0), LABELS),
}
each_model = pytest.mark.parametrize("name", MODELS)


def fit(model, y=Y, **changed):
    model = clone(model).set_params(**changed)
    return model.fit(X[120:], y[120:], X_reference=X[:120], y_reference=y[:120])


@each_model
def test_what_was_compared_is_kept_and_what_was_chosen_is_released(name):
    model, y = MODELS[name]
    fitted = fit(model, y)
    choice = fitted.penalty_choice_
    chosen = getattr(fitted, f"{name}_")
    assert chosen == choice.chosen == getattr(fitted.sampler_.query_, name)
    assert getattr(fitted, name) is None
    assert (np.diff(choice.candidates) > 0).all()
    assert choice.candidates.shape == choice.scores.shape == choice.noise.shape
    best = choice.candidates[choice.scores.argmax()]
    assert best / 11 < chosen < best * 11
    assert repr(choice).startswith("PenaltyChoice(")
    assert len(repr(choice)) < 60


@pytest.mark.slow
@pytest.mark.sampled(1)
@each_model
def test_choice_is_that_of_the_reference_and_the_seed_alone(name):
    model, y = MODELS[name]
    first = fit(model, y).penalty_choice_
    other = clone(model).set_params(n_jobs=2, **{name: "auto"})
    # Other private records, as many.
    other.fit(-X[120:], y[:119:-1], X_reference=X[:120], y_reference=y[:120])
    np.testing.assert_array_equal(first.candidates, other.penalty_choice_.candidates)
    np.testing.assert_array_equal(first.scores, other.penalty_choice_.scores)
    assert first.chosen == other.penalty_choice_.chosen
    chosen = {first.chosen}
    for seed in range(1, 6):
        again = fit(model, y, random_state=seed).penalty_choice_
        assert again.scores.tolist() != first.scores.tolist()
        chosen.add(again.chosen)
    assert len(chosen) > 1


def test_pairs_of_the_choice_are_not_those_that_calibrate(monkeypatch):
    """Nor do they change them: a choice only draws before."""
    from skparisk.linear_model import _penalty_choice

    seen = []

    class Spy(PairSpec):
        def sample(self, *args, **kwargs):
            seen.append(super().sample(*args, **kwargs))
            return seen[-1]

    monkeypatch.setattr(_penalty_choice, "PairSpec", Spy)
    fitted = fit(RIDGE)
    own = set(fitted.sampler_.differences_.ravel().tolist())
    fixed = fit(RIDGE, alpha=fitted.alpha_)
    assert set(fixed.sampler_.differences_.ravel().tolist()) == own
    query = fitted.sampler_.query_
    again = PairSpec(
        query,
        TableReference(*PUBLIC.values()),
        n_pairs=len(seen[0].differences),
        n_neighbors=1,
        n_records=120,
        relation="replace-one",
    ).sample(
        fitted.sampler_.pairs_.schema, np.random.RandomState(0).bytes(16), n_jobs=None
    )
    assert not own & set(again.differences.ravel().tolist())
    assert fixed.certificate_ == fitted.certificate_
    # All candidates are compared on the same pairs: those without a move are the same.
    assert len({each.differences.shape for each in seen}) == 1


@pytest.fixture
def drawn_from(monkeypatch):
    """How many rows there are to draw the pairs of each candidate from."""
    from skparisk.linear_model import _penalty_choice

    n_rows = []

    class Spy(PairSpec):
        def sample(self, *args, **kwargs):
            n_rows.append(self.reference.n_records)
            return super().sample(*args, **kwargs)

    monkeypatch.setattr(_penalty_choice, "PairSpec", Spy)
    return n_rows


@pytest.mark.slow
@pytest.mark.parametrize(("n_rare", "n_rows"), [(8, 1200), (100, 240), (400, 100)])
def test_a_choice_does_not_miss_a_rare_class_of_a_large_table(
    n_rare, n_rows, drawn_from, monkeypatch
):
    from skparisk.linear_model import _penalty_choice

    monkeypatch.setattr(_penalty_choice, "_MOST_ROWS", 100)
    monkeypatch.setattr(_penalty_choice, "_ROWS_PER_COLUMN", 1)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1200, 2))
    labels = np.zeros(1200, dtype=int)
    labels[np.argsort(features[:, 0])[-n_rare:]] = 1
    model = clone(LOGISTIC).set_params(sensitivity__n_pairs=200, random_state=0)
    own = rng.normal(size=(600, 2)), (np.arange(600) % 2 == 0) * 1
    model.fit(*own, X_reference=features, y_reference=labels)
    assert set(drawn_from) == {n_rows}


@pytest.mark.slow
def test_more_noise_wants_more_penalty():
    """In the median: where scores are flat, it is a matter of chance."""
    chosen = [
        np.median([fit(RIDGE, epsilon=e, random_state=i).alpha_ for i in range(5)])
        for e in (0.1, 0.3, 100.0)
    ]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > 20 * chosen[-1]


def test_without_noise_it_is_what_cross_validation_finds():
    model = fit(RIDGE, alpha="auto", epsilon=np.inf)
    assert model.alpha_ < 3
    assert (model.penalty_choice_.noise == 0).all()
    assert fit(RIDGE, epsilon=np.inf).alpha_ == 1.0


@pytest.mark.slow
def test_choice_does_as_well_as_the_best_in_hindsight():
    """And a penalty a hundred times as large, or as small, does not."""
    data, target = load_diabetes(return_X_y=True)
    data = data / data.std(axis=0)
    target = (target - target.mean()) / target.std()

    def error(fitted, train):
        """Return the expected error of a release, exactly."""
        test = np.setdiff1d(np.arange(len(data)), train)
        answer = fitted.sampler_.query_(data[train], target[train])
        Z = np.column_stack([data[test], np.ones(len(test))])
        noise = np.vdot(Z.T @ Z / len(Z), fitted.sampler_.mechanism_.covariance())
        return np.mean((Z @ answer - target[test]) ** 2) + noise

    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(data))
        public, train = order[:147], order[147:294]

        def fitted(alpha, public=public, train=train):
            return PrivateRidge(
                alpha,
                sensitivity=SensitivitySampler(noise_shape="whitened"),
                combine=None,
                random_state=0,
            ).fit(
                data[train],
                target[train],
                X_reference=data[public],
                y_reference=target[public],
            )

        alphas = ["auto", 1.0, 10.0, 30.0, 100.0, 300.0, 10000.0]
        found.append([error(fitted(alpha), train) for alpha in alphas])
    auto, *others = np.mean(found, axis=0)
    assert auto < min(others) + 0.03
    assert min(others[0], others[-1]) > auto + 0.1


def test_rows_that_calibrate_once_are_not_looked_at():
    rows = RNG.normal(size=(400, 3)), RNG.normal(size=400)
    table = TableReference(*rows, sampling="split")
    n_records = 9
    sampler = SensitivitySampler(n_pairs=39)
    model = PrivateRidge(sensitivity=sampler, gamma=0.1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:n_records], Y[:n_records], X_reference=table)
    assert (model.alpha_, model.penalty_choice_) == (1.0, None)
    with pytest.raises(ValueError, match="sampling='split'"):
        clone(model).set_params(alpha="auto").fit(
            X[:n_records], Y[:n_records], X_reference=table
        )


def law(n_records, rng):
    drawn = rng.normal(size=(n_records, 3))
    return drawn, drawn[:, 0] + rng.normal(size=n_records)


REFUSED = {
    "known": ({"sensitivity": 0.5}, {}, "sensitivity that is known"),
    "known law": (
        {"sensitivity": KnownSensitivity(1.0)},
        {},
        "sensitivity that is known",
    ),
    "secret": (
        {"sensitivity": SensitivitySampler(reference=SecretSample())},
        {},
        "SecretSample",
    ),
    "none": ({}, {}, "there is no reference"),
    "learned": ({}, {"X_reference": LEARNED}, "is a LearnedReference"),
    "schema": ({}, {"X_reference": BOX}, "is a SchemaReference"),
    "schema of a sampler": (
        {"sensitivity": SensitivitySampler(reference=BOX)},
        {},
        "is a SchemaReference",
    ),
    "law": ({"sensitivity": SensitivitySampler(reference=law)}, {}, "is a function"),
}


@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_auto_is_refused_without_public_records_and_none_is_the_usual():
    for way in REFUSED:
        parameters, reference, message = REFUSED[way]
        model = PrivateRidge("auto", random_state=0).set_params(**parameters)
        with pytest.raises(
            ValueError, match=r"alpha must be a number.*'auto'"
        ) as error:
            model.fit(*OWN, **reference)
        assert message in str(error.value)
        assert not hasattr(model, "coef_")
        model.set_params(alpha=None).fit(*OWN, **reference)
        assert (model.alpha_, model.penalty_choice_) == (1.0, None)


def test_reference_that_turns_out_to_be_private_chooses_nothing():
    public = {"X_reference": OWN[0], "y_reference": OWN[1]}
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(ValueError, match="this one shares records with the training"),
    ):
        clone(RIDGE).set_params(alpha="auto").fit(*OWN, **public)
    with pytest.warns(PrivacyLeakWarning):
        model = clone(RIDGE).fit(*OWN, **public)
    assert (model.alpha_, model.penalty_choice_) == (1.0, None)


def test_noise_is_as_the_sampler_says():
    for sampler in [
        {"law": "gaussian", "randomness": "both", "noise_shape": "whitened"},
        {"noise_shape": "diagonal", "n_pairs": 200},
        {"n_pairs": 600, "calibration": "dkw", "gamma": 0.2},
        {"n_pairs": 1100, "gamma": 0.001},
        {"n_pairs": 300, "advantage": 0.005},
        {"relation": "add-remove", "n_records": 120},
    ]:
        gamma = sampler.pop("gamma", 0.05)
        made = clone(FEW).set_params(**sampler)
        model = fit(RIDGE, sensitivity=made, gamma=gamma)
        assert np.isfinite(model.penalty_choice_.scores).all()
        # Twice as few pairs, or ten times, say nearly what all of them do.
        expected = np.sqrt(np.diag(model.sampler_.mechanism_.covariance()).mean())
        logs = np.log(model.penalty_choice_.candidates)
        noise = np.exp(
            np.interp(np.log(model.alpha_), logs, np.log(model.penalty_choice_.noise))
        )
        assert expected / 2.5 < noise < expected * 2.5


def test_size_is_private_with_add_remove():
    """So nothing is chosen by it, and what it is refused for is said as ever."""
    sampler = SensitivitySampler(relation="add-remove", n_pairs=100)
    with pytest.raises(ValueError, match="n_records must be given"):
        fit(RIDGE, sensitivity=sampler)
    with pytest.raises(ValueError, match="n_records must be a whole number >= 2"):
        fit(RIDGE, sensitivity=sampler.set_params(n_records=1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (
            clone(RIDGE).set_params(epsilon=10.0),
            np.column_stack([Y, 100 * X[:, 1] + RNG.normal(size=240)]),
        ),
        (LOGISTIC, np.digitize(Y, [-1, 1])),
        (PrivateLinearSVC(sensitivity=FEW), np.digitize(Y, [-1, 1])),
        (PrivateLinearSVC(sensitivity=FEW, fit_intercept=False), LABELS),
        (LOGISTIC, np.where(LABELS, "yes", "no")),
    ],
    ids=["targets", "classes", "machines", "no intercept", "texts"],
)
def test_several_targets_and_classes(model, y):
    fitted = fit(model, y, random_state=0)
    # R2, or 1 less a loss, that beats the one of no features.
    counts = np.unique(y, return_counts=True)[1] / 240
    losses = [-np.log(counts) @ counts, 4 * np.sum(counts * (1 - counts))]
    least = 1 - losses[isinstance(model, PrivateLinearSVC)]
    regresses = isinstance(model, PrivateRidge)
    assert fitted.penalty_choice_.scores.max() > (0.5 if regresses else least)
    assert np.ndim(fitted.penalty_choice_.chosen) == 0


@pytest.mark.filterwarnings("ignore:noise_random_state=")
def test_units_of_columns_change_nothing():
    """A penalty that is chosen is for units of their size, so a power of 2 is exact."""
    units = 2.0 ** np.array([0, 10, -7])
    seeded = clone(RIDGE).set_params(noise_random_state=3)
    model = fit(seeded)
    scaled = clone(seeded).fit(
        units * OWN[0], OWN[1], X_reference=units * X[:120], y_reference=Y[:120]
    )
    assert scaled.alpha_ == model.alpha_
    np.testing.assert_allclose(scaled.coef_ * units, model.coef_, rtol=1e-3)


def test_a_choice_is_the_penalty_of_other_fits():
    units = np.array([1.0, 1024.0, 2.0**-7])
    public = {"X_reference": units * X[:120], "y_reference": Y[:120]}
    model = clone(RIDGE).fit(units * OWN[0], OWN[1], **public)
    choice = model.penalty_choice_
    other = clone(RIDGE).set_params(alpha=choice).fit(units * OWN[0], OWN[1], **public)
    assert other.sampler_.query_ == model.sampler_.query_
    assert other.penalty_choice_ is None
    assert other.alpha_ == choice.chosen
    again = clone(RIDGE).set_params(sensitivity=model.sampler_)
    assert again.fit(units * OWN[0], OWN[1]).alpha_ == choice.chosen
    with pytest.raises(ValueError, match=r"alpha must be for 2 features, .* for 3\."):
        other.fit(OWN[0][:, :2], OWN[1], X_reference=X[:120, :2], y_reference=Y[:120])
    bounded = clone(other).set_params(sensitivity="bound", x_norm=1.0, y_bounds=(0, 1))
    with pytest.raises(ValueError, match=r"alpha must be None, .* with .*'bound'"):
        bounded.fit(*OWN)
    bounded = clone(LOGISTIC).set_params(C=choice, sensitivity="bound", x_norm=1.0)
    with pytest.raises(ValueError, match=r"C must be a number with .*'bound'"):
        bounded.fit(OWN[0], OWN[1] > 0)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_expected_score_is_the_mean_over_draws_of_the_noise(n_targets):
    rng = np.random.default_rng(1)
    y = rng.normal(size=(60, n_targets)) * [1.0, 10.0, 0.1][:n_targets]
    fold = _Fold(RecordPool(X[:60], y), np.arange(40), np.arange(40, 60), RidgeQuery())
    answer = RidgeQuery(2.0)(fold.X, fold.y)
    factor = rng.normal(size=(len(answer), len(answer))) / 10
    draws = rng.normal(size=(20_000, len(answer))) @ factor
    coef, intercept = np.split(answer + draws, [3 * n_targets], axis=1)
    predicted = coef.reshape(-1, n_targets, 3) @ X[40:60].T + intercept[:, :, None]
    errors = np.square(predicted - y[40:].T).mean(axis=2) / y.var(axis=0)
    expected = 1 - errors.mean()
    assert fold.score(answer, factor.T @ factor, None, None) == pytest.approx(
        expected, abs=5 * errors.mean(axis=1).std() / np.sqrt(20_000)
    )


def test_penalty_that_no_noise_is_enough_for_is_not_chosen():
    """Here for none of them: the fit says why, as it would have with a number."""
    rare = np.zeros(120)
    rare[:2] = 1.0
    with pytest.raises(ValueError, match="pairs"):
        PrivateLogisticRegression(sensitivity=FEW, random_state=0).fit(
            X[120:], LABELS[120:], X_reference=X[:120], y_reference=rare
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The parameters were chosen by scores")
def test_searches_and_pipelines_pass_it_on():
    table = TableReference(*PUBLIC.values())
    on_sampler = clone(RIDGE).set_params(sensitivity__reference=table)
    grid = {"alpha": [0.1, "auto", 10.0]}
    search = GridSearchCV(clone(on_sampler), grid, cv=2).fit(*OWN)
    assert set(search.cv_results_["param_alpha"]) == {0.1, "auto", 10.0}
    piped = make_pipeline(FunctionTransformer(), clone(on_sampler))
    assert piped.fit(*OWN)[-1].penalty_choice_ is not None
    private = PrivateGridSearchCV(clone(on_sampler), grid, cv=2, random_state=0)
    private.fit(*OWN, **PUBLIC)
    assert private.best_params_["alpha"] in grid["alpha"]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_folds_are_scored_by_r2_in_deviations_of_all_records(fit_intercept):
    for y in [Y[:60], X[:60] ** 2 + 1.0]:
        rows = X[:60] + 2.0
        query = RidgeQuery(2.0, fit_intercept)
        fold = _Fold(RecordPool(rows, y), np.arange(40), np.arange(40, 60), query)
        ridge = Ridge(2.0, fit_intercept=fit_intercept).fit(fold.X, fold.y)
        answer = query(fold.X, fold.y)
        error = np.mean(np.square(ridge.predict(rows[40:]) - y[40:]), axis=0)
        score = fold.score(answer, np.zeros((len(answer),) * 2), None, None)
        assert score == pytest.approx(1 - np.mean(error / y.var(axis=0)))
