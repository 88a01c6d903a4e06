"""Samplers in files: read as they were written, or refused with the reason."""

import copy
import json
import threading
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from kept import (
    PRIVATE,
    PUBLIC,
    TARGETS,
    assert_same_pairs,
    files_in,
    own_mean,
    sampler_of,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    IncompatibleError,
    LearnedReference,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateRidge,
    SchemaReference,
    SensitivitySampler,
    audit_reference,
)
from skparisk.certificate._claim import LEARNS_MORE
from skparisk.mechanisms import IsotropicShape
from skparisk.queries import MeanQuery, Query, RidgeQuery
from skparisk.reference import (
    Categories,
    Domain,
    Interval,
    TableReference,
)
from skparisk.sensitivity import _drawing
from skparisk.sensitivity._document import FORMAT_VERSION, pack, unpack

SAVED = {
    "mean": (MeanQuery(), {}),
    "whitened": (RidgeQuery(1.0), {"noise_shape": "whitened", "gamma": 0.1}),
    "both": (RidgeQuery(1.0), {"randomness": "both", "law": "gaussian"}),
    "neighbors": (RidgeQuery(1.0), {"neighbors_per_database": 2, "gamma": 0.2}),
    "infinite": (MeanQuery(), {"epsilon": np.float64(np.inf)}),
    "advantage": (MeanQuery(), {"advantage": 0.2}),
    "pac": (MeanQuery(), {"calibration": "pac", "noise_random_state": 3}),
    "records": (None, {"n_pairs": 50}),
    "numpy": (np.median, {"relation": "add-remove", "n_records": 20}),
}


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_a_sampler_is_read_as_it_was_written(tmp_path, name):
    """With its noise, and what it is to refuse."""
    query, given = SAVED[name]
    reference = TableReference(PUBLIC, TARGETS)
    given = {"n_pairs": 100, "reference": reference, "n_records": 300, **given}
    if query is None:
        given["n_records"] = None
    fitted = SensitivitySampler(query, random_state=0, **given).fit(PUBLIC, TARGETS)
    fitted.save(tmp_path / "sampler.npz")
    read = SensitivitySampler.load(tmp_path / "sampler.npz", query=query)
    assert_same_pairs(read.pairs_, fitted.pairs_)
    assert read.certificate_ == fitted.certificate_
    assert read.query_ == fitted.query_
    own = {**fitted.get_params(), "reference": None, "random_state": None}
    assert read.get_params() == own
    assert {*vars(read)} == {*vars(fitted)}
    state = {"noise_random_state": 0}
    if name == "infinite":
        return
    noise = [s.set_params(**state).calibrate().mechanism_ for s in (read, fitted)]
    assert noise[0].noise_scale == noise[1].noise_scale
    more = 2 * len(fitted.pairs_)
    read.set_params(reference=reference)
    assert_same_pairs(read.extend(more).pairs_, fitted.extend(more).pairs_)


def test_what_was_read_knows_private_records_again(tmp_path):
    """And the columns, and the domain."""
    frame = pd.DataFrame(PUBLIC, columns=["a", "b"])
    reference = TableReference(frame, clip=True)
    sampler = sampler_of(query=np.mean, reference=reference, n_records=300, n_pairs=99)
    sampler.fit(frame).save(tmp_path / "s.npz")
    read = SensitivitySampler.load(tmp_path / "s.npz", np.mean)
    assert [*read.feature_names_in_] == ["a", "b"]
    assert read.pairs_.domain == reference.domain
    with pytest.raises(ValueError, match="feature names should match"):
        read.release(pd.DataFrame(PRIVATE, columns=["a", "c"]))
    with pytest.warns(PrivacyLeakWarning):
        read.release(frame.sample(frac=1, random_state=0))
    with pytest.raises(IncompatibleError, match="came from private data"):
        read.save(tmp_path / "t.npz")
    assert files_in(tmp_path) == [tmp_path / "s.npz"]


def test_what_leaked_in_a_fit_is_on_each_claim_of_its_sampler(tmp_path):
    """On that of its release, at other levels and in a file; not of the given one."""
    schema = SchemaReference([(-9, 9)] * 2, target=(-9, 9))
    fitted = sampler_of(query=RidgeQuery(1.0), reference=schema)
    fitted.fit(PUBLIC, TARGETS)
    model = make_pipeline(StandardScaler(), PrivateRidge(1.0, sensitivity=fitted))
    with pytest.warns(PrivacyLeakWarning, match="standardscaler"):
        ridge = model.fit(PRIVATE, TARGETS)[-1]
    sampler = ridge.sampler_
    assert sampler.certificate_ is ridge.certificate_
    sampler.save(tmp_path / "sampler.npz")
    read = SensitivitySampler.load(tmp_path / "sampler.npz", query=RidgeQuery(1.0))
    for each in (sampler, sampler.calibrate(epsilon=2.0), read, copy.copy(sampler)):
        assert each.certificate_.leaks == (LEARNS_MORE,)
    with PrivacyLedger(9.0) as ledger:
        sampler.release(PRIVATE, TARGETS)
    assert ledger.spent.leaks == (LEARNS_MORE,)
    assert fitted.certificate_.private


def test_a_sampler_that_was_audited_is_written(tmp_path):
    """Without the audit, which is not about what will be released."""
    sampler = sampler_of(n_records=20).fit(PUBLIC)
    before = sampler.certificate_
    audit_reference(sampler, np.tile(PRIVATE, (30, 1)), epsilon=1.0, X_reference=PUBLIC)
    assert sampler.certificate_ != before
    sampler.save(tmp_path / "sampler.npz")
    read = SensitivitySampler.load(tmp_path / "sampler.npz", MeanQuery())
    assert read.certificate_ == before


def test_every_kind_of_column_is_written(tmp_path):
    """Ranges of numbers, dates and durations, categories, and what is free."""
    columns = [
        Interval(0.1, 7),
        Interval(np.datetime64("2020-01-01"), np.datetime64("2021-01-01"), True),
        Interval(np.timedelta64(1, "s"), np.timedelta64(9, "s")),
        Categories(["f", None, "m"], "m"),
        Categories([True, np.float64(2.5)]),
        None,
    ]
    fitted = sampler_of().fit(PUBLIC)
    fitted.pairs_.domain = Domain(columns, [Categories([3, 1])])
    fitted.save(tmp_path / "s.npz")
    read = SensitivitySampler.load(tmp_path / "s.npz", MeanQuery())
    assert read.pairs_.domain == fitted.pairs_.domain
    assert read.pairs_.domain.columns[3].default == "m"
    fitted.pairs_.domain = Domain([Categories([np.datetime64("2020")])])
    with pytest.raises(ValueError, match="a category must be a text, a number"):
        fitted.save(tmp_path / "s.npz")


def test_a_query_of_ones_own_is_the_callers_word(tmp_path):
    """What is known of it is its name, and the certificate says so."""
    fitted = sampler_of(query=own_mean).fit(PUBLIC)
    fitted.save(tmp_path / "s.npz")
    read = SensitivitySampler.load(tmp_path / "s.npz", query=own_mean)
    assert read.noise_scale_ == fitted.noise_scale_
    (caveat,) = {*read.certificate_.caveats} - {*fitted.certificate_.caveats}
    assert "query own_mean, which cannot be known again, is the caller's" in caveat
    read.save(tmp_path / "t.npz")
    again = SensitivitySampler.load(tmp_path / "t.npz", query=own_mean)
    assert again.certificate_ == read.certificate_


@pytest.mark.parametrize("query", [None, np.mean, np.ptp, own_mean, RidgeQuery(2.0)])
def test_pairs_of_another_query_are_refused(tmp_path, query):
    sampler_of(query=RidgeQuery(1.0)).fit(PUBLIC, TARGETS).save(tmp_path / "s.npz")
    with pytest.raises(IncompatibleError, match="has pairs of the query RidgeQuery"):
        SensitivitySampler.load(tmp_path / "s.npz", query=query)


def rewritten(data, **changes):
    """Return a file whose digest is right, with another text."""
    document, arrays = unpack(data, "skparisk.sampler", FORMAT_VERSION)
    given = {**document, **changes}
    kind, version = given.pop("format"), given.pop("format_version")
    return pack(kind, version, given, arrays)


class Quantile:
    """A query of one's own, whose content may be changed."""

    def __init__(self, shares):
        self.shares = shares

    def __call__(self, X):
        return np.quantile(X, self.shares)

    def of(self, X):
        return self(X)


class OwnQuantile(Quantile, Query):
    """The same as a query."""

    def __call__(self, X, y=None):
        return np.atleast_1d(super().__call__(X))


CHANGED = {
    "partial": lambda shares: partial(np.quantile, q=shares),
    "partial of one's own": lambda shares: partial(own_quantile, shares=shares),
    "object": Quantile,
    "method": lambda shares: Quantile(shares).of,
    "query": OwnQuantile,
    "cell of a column": lambda shares: partial(
        quantile_of_cell, cells=pd.Series([shares, "more"], dtype=object)
    ),
    "cell of a table": lambda shares: partial(
        quantile_of_cell, cells=pd.DataFrame({"rank": [1.0], "shares": [shares]})
    ),
}


def own_quantile(X, shares):
    return np.quantile(X, shares)


def quantile_of_cell(X, cells):
    return np.quantile(X, np.ravel(cells)[0 if cells.ndim == 1 else 1])


@pytest.mark.parametrize("kind", CHANGED)
def test_a_query_that_is_changed_in_place_stays_what_was_sampled(tmp_path, kind):
    """Pairs of the median say nothing of the maximum, that has far more to hide."""
    shares = [0.5]
    sampler = sampler_of(
        query=CHANGED[kind](shares), epsilon=1e6, noise_shape="isotropic"
    ).fit(PUBLIC)
    sampler.save(tmp_path / "pairs.npz")
    read = SensitivitySampler.load(tmp_path / "pairs.npz", CHANGED[kind](shares))
    shares[0] = 1.0
    more = sampler.extend(2 * sampler.n_pairs_, PUBLIC)
    answers = [np.quantile(PRIVATE, share) for share in (0.5, 1.0)]
    assert answers[1] - answers[0] > 1
    for fitted in (sampler, sampler.calibrate(), read, more):
        (released,) = fitted.release(PRIVATE)
        assert abs(released - answers[0]) < 1e-3
    sampler.save(tmp_path / "again.npz")
    with pytest.raises(IncompatibleError, match="as that is here"):
        SensitivitySampler.load(tmp_path / "pairs.npz", np.max)


def test_a_query_that_cannot_be_copied_is_refused(monkeypatch):
    """Someone else might change it; nothing is drawn."""
    monkeypatch.setattr(_drawing, "sample_pairs", None)
    query = partial(own_quantile, shares=threading.Lock())
    with pytest.raises(ValueError, match=r"can be copied.*cannot pickle.*Give a fun"):
        sampler_of(query=query).fit(PUBLIC)


def test_each_kind_of_damage_has_its_message(tmp_path):
    """And nothing of a file is trusted then."""
    fitted = sampler_of().fit(PUBLIC)
    path = tmp_path / "s.npz"
    fitted.save(path)
    data = path.read_bytes()
    place = data.index(fitted.differences_.tobytes())
    flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    other = {"skparisk": "0.0", "numpy": np.__version__}
    versions = {**json_of(data)["versions"], **other}
    wrong = {
        "is truncated": data[: len(data) // 2],
        "has been altered: its archive": flipped,
        "has been altered: its digest": crc_repaired(path, fitted),
        "is no file of skparisk.sampler": b"not an archive",
        r"is a file of skparisk.pairs, and not": rewritten(
            data, format="skparisk.pairs"
        ),
        "has version 1 of the format": rewritten(data, format_version=1),
        "has version 3 of the format": rewritten(data, format_version=3),
        "does not describe sampled pairs": rewritten(data, schema=None),
    }
    for message, damaged in wrong.items():
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=message):
            SensitivitySampler.load(path, query=MeanQuery())
    path.write_bytes(rewritten(data, versions=versions))
    with pytest.raises(IncompatibleError, match=r"written with skparisk 0\.0 \(here"):
        SensitivitySampler.load(path, query=MeanQuery())
    with pytest.raises(FileNotFoundError):
        SensitivitySampler.load(tmp_path / "none.npz", query=MeanQuery())
    path.write_bytes(data)
    SensitivitySampler.load(path, query=MeanQuery())


def json_of(data):
    return unpack(data, "skparisk.sampler", FORMAT_VERSION)[0]


def crc_repaired(path, fitted):
    """Return an archive that is whole, with one difference altered."""
    with np.load(path, allow_pickle=False) as archive:
        members = {name: archive[name] for name in archive.files}
    members["differences"] = fitted.differences_ / 2
    with (path.parent / "altered").open("wb") as file:
        np.savez(file, **members)
    return (path.parent / "altered").read_bytes()


def test_a_file_is_plain(tmp_path):
    """Numpy reads it, and no member is a pickle, or any private record."""
    fitted = sampler_of().fit(PUBLIC)
    fitted.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as archive:
        assert {archive[name].dtype.kind for name in archive.files} <= set("fuU")
        document = json.loads(archive["document"].tobytes())
    assert document["format"] == "skparisk.sampler"
    with zipfile.ZipFile(tmp_path / "s.npz") as archive:
        assert {name.rpartition(".")[2] for name in archive.namelist()} == {"npy"}


def test_what_is_not_saved_is_refused(tmp_path):
    path = tmp_path / "s.npz"
    shaped = sampler_of(noise_shape=IsotropicShape()).fit(PUBLIC)
    with pytest.raises(ValueError, match="noise_shape must be a text, a number or"):
        shaped.save(path)
    changed = sampler_of().fit(PUBLIC).set_params(epsilon=2.0)
    with pytest.raises(ValueError, match="must be those that the noise was calib"):
        changed.save(path)
    changed.calibrate().save(path)
    assert SensitivitySampler.load(path, MeanQuery()).epsilon == 2.0
    schema = SchemaReference([(-9, 9), (-9, 9)])
    split = LearnedReference(schema, epsilon=1.0).learn(PUBLIC)
    learned = sampler_of(reference=split.reference).fit(PUBLIC)
    with pytest.raises(IncompatibleError, match="learned from private records are"):
        learned.save(path)


def test_nothing_is_left_of_a_write_that_fails(tmp_path, monkeypatch):
    """And what was there before stays."""
    path = tmp_path / "mean.npz"
    fitted = sampler_of().fit(PUBLIC)
    fitted.save(path)
    before = path.read_bytes()

    def fail(*names):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        fitted.save(path)
    assert files_in(tmp_path) == [path]
    assert path.read_bytes() == before
