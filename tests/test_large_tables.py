"""Tables in a file that is mapped to memory."""

import numpy as np
import pytest
from counts import rejects_counts, seeds

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.exceptions import PrivacyLeakWarning
from skparisk.queries import RidgeQuery
from skparisk.reference import TableReference, _rows

N_ROWS = 3000
ROWS = np.random.default_rng(0).normal(size=(N_ROWS, 4))
ROWS[:, -1] += ROWS[:, 0]
PRIVATE = np.random.default_rng(1).normal(size=(120, 4))


def in_file(tmp_path, rows):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    return np.load(path, mmap_mode="r")


def fitted(query, X, y, **words):
    sampler = SensitivitySampler(query, n_records=120, n_pairs=80, random_state=0)
    reference = TableReference(X, y)
    sampler.set_params(reference=reference, **words)
    return sampler.fit(PRIVATE[:, :3], PRIVATE[:, 3])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pairs_of_a_file_are_those_of_the_same_rows_in_memory(dtype, tmp_path):
    """To the last bit."""
    rows = ROWS.astype(dtype)
    table = in_file(tmp_path, rows)
    found = fitted(RidgeQuery(1.0), table[:, :3], table[:, 3])
    expected = fitted(RidgeQuery(1.0), rows[:, :3].astype(float), rows[:, 3])
    np.testing.assert_array_equal(found.differences_, expected.differences_)
    assert found.certificate_ == expected.certificate_


def test_private_records_in_a_file_are_recognized(tmp_path):
    table = in_file(tmp_path, np.vstack([ROWS, PRIVATE]))
    model = PrivateRidge(1.0, random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(
            PRIVATE[:, :3],
            PRIVATE[:, 3],
            X_reference=table[:, :3],
            y_reference=table[:, 3],
        )


@seeds
def test_all_subsets_of_the_others_are_equally_likely(seed):
    """And not 10 % more or less."""
    rng = np.random.default_rng(seed)
    own = np.tile([[2]], (20_000, 1))
    rows = _rows.draw_subsets(7, own, 3, rng)
    assert not (rows == 2).any()
    subsets = np.sort(rows - (rows > 2), axis=1)
    assert (np.diff(subsets, axis=1) > 0).all()
    codes = np.unique(subsets @ [36, 6, 1], return_inverse=True)[1]
    assert not rejects_counts(codes, np.ones(20))
    assert rejects_counts(codes, np.r_[np.full(10, 0.9), np.full(10, 1.1)])
