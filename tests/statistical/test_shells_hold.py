"""What the private estimators release has the noise that their certificates claim.

Each fit is followed by one fresh pair, so that the violations of all fits are
independent and the exact binomial test applies: the certified risk is over the
fresh pair and the calibration together.
"""

import numpy as np
import pytest
from laws import SEEDS, assert_law, rejects_law, violates
from scipy import stats
from sklearn.base import clone

from skparisk import (
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    SensitivitySampler,
)
from skparisk.reference import CallableReference
from skparisk.sensitivity import sample_differences

GAMMA = 0.2
N_FITS = 100
N_RECORDS = 30
N_NOISES = 1200


def labeled(n_classes):
    def draw(n_records, rng):
        """Each class occurs thrice, so that no database lacks one."""
        y = rng.integers(n_classes, size=n_records)
        y[: 3 * n_classes] = np.repeat(np.arange(n_classes), 3)
        X = rng.normal(size=(n_records, 4))
        X[:, 0] += y / 2
        return X, y

    return draw


def skewed(n_records, rng):
    return rng.beta(2, 5, size=(n_records, 1))


# Of two classes the penalty is chosen; for the others that would take most of the time.
TWO = {"classes": [0, 1]}
ONE, THREE = TWO | {"C": 1.0}, {"classes": [0, 1, 2], "C": 1.0}
CASES = {
    "logistic, 2 classes": (PrivateLogisticRegression(**TWO), labeled(2)),
    "logistic, 3 classes": (PrivateLogisticRegression(**THREE), labeled(3)),
    "squared hinge": (PrivateLinearSVC(**ONE), labeled(2)),
    "hinge": (PrivateLinearSVC(loss="hinge", **ONE), labeled(2)),
    "density": (PrivateKernelDensity(0.1, lattice_size=5), skewed),
}


def database(draw, seed):
    drawn = draw(N_RECORDS, np.random.default_rng(seed))
    return drawn if isinstance(drawn, tuple) else (drawn,)


def fresh_losses(case, relation, seed):
    """Return the loss of one fresh pair after each fit, over epsilon."""
    shell, draw = CASES[case]
    reference = CallableReference(draw)
    data = database(draw, seed)
    sampler = SensitivitySampler(
        reference=reference, n_records=N_RECORDS, relation=relation, n_pairs=4
    )
    model = clone(shell).set_params(gamma=GAMMA, epsilon=0.5, sensitivity=sampler)
    losses = []
    for seeds in np.random.default_rng(seed).integers(2**31, size=(N_FITS, 2)):
        model.set_params(random_state=int(seeds[0])).fit(*data)
        fresh = sample_differences(
            model.sampler_.query_,
            reference,
            n_pairs=1,
            n_records=N_RECORDS,
            n_features=data[0].shape[1],
            relation=relation,
            random_state=int(seeds[1]),
        )
        losses.append(np.abs(fresh).sum() / model.noise_scale_ / model.epsilon_)
    assert model.risk_ == pytest.approx(GAMMA)
    return np.array(losses)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("case", "relation"),
    [*((case, "replace-one") for case in CASES), ("logistic, 3 classes", "add-remove")],
)
def test_fresh_pairs_exceed_epsilon_at_most_at_the_risk(case, relation, seed):
    losses = fresh_losses(case, relation, seed)
    assert not violates(losses, GAMMA)
    assert violates(losses, GAMMA, noise=0.25)


def released(model):
    if isinstance(model, PrivateKernelDensity):
        return model.polynomial_.values.ravel()
    return np.concatenate([model.coef_.ravel(), model.intercept_])


WAYS = {"declared": {"sensitivity": 0.5}, "bound": {"sensitivity": "bound"}}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("case", "way"),
    [
        (case, way)
        for case in CASES
        for way in WAYS
        if way != "bound" or "hinge" not in case  # which have none
    ],
)
def test_what_is_released_is_the_answer_with_the_claimed_noise(case, way, seed):
    """The answer of the same model at an infinite epsilon."""
    shell, draw = CASES[case]
    model = clone(shell).set_params(**WAYS[way])
    if case == "density":
        model.set_params(lattice_size=N_NOISES // 4)
    elif way == "bound":
        model.set_params(x_norm=1.0)
    data = database(draw, seed)
    answer = released(clone(model).set_params(epsilon=np.inf).fit(*data))
    n_fits = -(-N_NOISES // len(answer))
    noise = np.ravel([released(model.fit(*data)) - answer for _ in range(n_fits)])
    noise /= model.noise_scale_
    assert_law(noise, stats.laplace.cdf)
    assert rejects_law(0.4 * noise, stats.laplace.cdf)
    assert rejects_law(2.5 * noise, stats.laplace.cdf)
