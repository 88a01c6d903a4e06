"""What a table certifies holds for people that it has not seen."""

import numpy as np
import pytest
from laws import assert_binomial_at_most, exceeds

from skparisk import CalibrationError
from skparisk.core.calibrate import Exchangeable, Target
from skparisk.queries import FunctionQuery, MeanQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import calibrate, sample_differences

GAMMA = 0.2
N_TABLES = 3000


def spread(X):
    """Depends on the shared records as well."""
    return X.std()


def people(rng, size):
    return rng.random((size, 1))


def share_beyond(sampling, query, n_rows, n_records, m, shared_of, rng):
    """Return how far new people are apart, in units of the certified sensitivity."""
    ratios = []
    for table in range(N_TABLES):
        rows = people(rng, n_rows)
        reference = TableReference(rows, sampling=sampling)
        sampled = sample_differences(
            query,
            reference,
            n_pairs=m,
            n_records=n_records,
            n_features=1,
            random_state=table,
        )
        index = Exchangeable().order_index(m, GAMMA)
        sensitivity = np.sort(np.abs(sampled[:, 0]))[index - 1]
        shared = shared_of(reference, rng)
        one, other = (np.vstack([shared, person]) for person in people(rng, 2))
        ratios.append(abs(query(one)[0] - query(other)[0]) / sensitivity)
    return np.array(ratios)


def rows_of_the_other_half(reference, rng):
    """Shared records as the sampling draws them: from the half that has no pairs."""
    source = reference.bind(1, n_shared=7, n_own=0, seed=np.random.SeedSequence(0))
    drawn = source.draw(0, 1, rng)
    return drawn.pool.X[drawn.draw_shared()[0]]


def test_split_holds_exactly_for_two_new_people():
    """The 8th of 9 pairs has a risk of 0.2, neither more nor less."""
    rng = np.random.default_rng(0)
    ratios = share_beyond(
        "split", FunctionQuery(spread), 36, 8, 9, rows_of_the_other_half, rng
    )
    beyond = int((ratios > 1).sum())
    assert_binomial_at_most(beyond, N_TABLES, GAMMA)
    assert not exceeds(N_TABLES - beyond, N_TABLES, 1 - GAMMA)  # and it is tight
    assert exceeds(int((ratios > 0.9).sum()), N_TABLES, GAMMA)


@pytest.mark.parametrize(("n_rows", "n_records"), [(22, 12), (22, 8), (22, 40)])
def test_leave_out_adds_at_most_what_it_says_for_means(n_rows, n_records):
    rng = np.random.default_rng(1)
    m = 99
    ratios = share_beyond(
        "leave-out",
        MeanQuery(),
        n_rows,
        n_records,
        m,
        lambda reference, rng: people(rng, n_records - 1),
        rng,
    )
    bound = GAMMA + (4 * n_rows + 2) / ((n_rows + 1) * (n_rows + 2))
    assert_binomial_at_most(int((ratios > 1).sum()), N_TABLES, bound)
    # Half of the noise is noticed even so.
    assert exceeds(int((ratios > 0.5).sum()), N_TABLES, bound)


def test_pairs_without_an_answer_count_and_a_refused_sample_would_select():
    """3 % of databases have no answer; 39 pairs, of which one may be beyond."""
    rng, gamma, trials = np.random.default_rng(2), 0.05, 20_000
    counting = selecting = samples = 0
    for _ in range(trials):
        values = rng.exponential(size=40)
        values[rng.random(40) < 0.02] = np.inf
        *pairs, fresh = values
        differences = np.array(pairs)[:, None]
        try:
            noise, _ = calibrate(differences, Target(1.0, gamma), n_records=1)
        except CalibrationError:
            continue  # no release: nothing is beyond
        beyond = fresh > noise.noise_scale
        counting += beyond
        if np.isfinite(pairs).all():
            samples += 1
            selecting += beyond
    assert_binomial_at_most(counting, trials, gamma)
    # Had samples with such a pair been refused, the others would claim too little.
    assert exceeds(selecting, samples, gamma)
    assert selecting / samples > 0.06
