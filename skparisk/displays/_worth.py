"""Plot what private people would add to public ones, by simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_X_y
from sklearn.utils.parallel import Parallel, delayed

from skparisk._checks import check_n_jobs, seed_sequence
from skparisk._simulated import simulated
from skparisk.core.checks import check_at_least
from skparisk.core.release import silenced
from skparisk.displays._base import Display, Floats
from skparisk.ledger import suspend_open
from skparisk.model_selection._fits import Records, fit_estimator, with_seeds

_N_TEST = 2_000
# Fewer records say too little about how targets depend on features.
_FEWEST = 20


class WorthDisplay(Display):
    """Score of a private model by the number of private and public people.

    Create it with `from_estimator` before you spend any ε: the people are simulated.

    Parameters
    ----------
    n_private, n_public : array-like of shape (n_sizes,), (n_publics,)
        Numbers of private and of public people.

    scores : array-like of shape (n_publics, n_sizes)
        Scores of the private models; larger is better.

    public_only, without_privacy : array-like of shape (n_publics,), (n_sizes,)
        Scores without noise, of fits to the public and to the private people alone.

    scoring : str
        Name of the score, shown on the axis.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        First the fit without privacy. Then, for each number of public people, the
        private model and the public people alone.

    ax_, figure_ : matplotlib Axes, Figure
        Axes and figure of the lines.

    See Also
    --------
    skparisk.PrivateRidge.compare_with_reference : The comparison for a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import PrivateRidge, WorthDisplay
    >>> from skparisk.datasets import load_census
    >>> X, wages = load_census(return_X_y=True)
    >>> X, y = X[:200], np.log(wages[:200])
    >>> sizes = {"n_private": [300, 3000], "n_public": [40], "n_repeats": 1}
    >>> ridge = PrivateRidge(epsilon=1.0)
    >>> display = WorthDisplay.from_estimator(ridge, X, y, **sizes, random_state=0)
    >>> display.scores.round(2), display.public_only.round(2)
    (array([[0.08, 0.11]]), array([0.07]))
    """

    def __init__(
        self,
        n_private: ArrayLike,
        n_public: ArrayLike,
        scores: ArrayLike,
        public_only: ArrayLike,
        without_privacy: ArrayLike,
        *,
        scoring: str,
    ) -> None:
        self.n_private, self.n_public = np.array(n_private), np.array(n_public)
        self.scores, self.public_only = np.array(scores), np.array(public_only)
        self.without_privacy, self.scoring = np.array(without_privacy), scoring

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_private: Sequence[int] = (300, 1_000, 3_000, 10_000),
        n_public: Sequence[int] | None = None,
        scoring: str | None = None,
        n_repeats: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Simulate public, private and test people that resemble public records.

        Each simulated person has the features of one record, moved a little toward
        others (the smoothed bootstrap: Silverman and Young, Biometrika 1987). A linear
        model predicts the target, plus one of its errors on held-out records; labels
        are drawn from its probabilities. Nonlinear effects are missing, and few records
        say little: use the result as a plan, not a promise.

        Parameters
        ----------
        estimator : estimator
            A private regressor or classifier, such as
            :class:`~skparisk.PrivateRidge`, at the privacy level you plan to use.

        X, y : array-like of shape (n_rows, n_features), (n_rows,)
            Numeric features of at least 20 public people, and their targets or labels.

        n_private, n_public : sequence of int
            Numbers of people to simulate, each >= 10. `n_public` None: half as many as
            there are records, and as many.

        scoring : str, default=None
            Name of a scikit-learn scorer. None: R², or the area under the ROC curve.

        n_repeats : int, default=5
            Number of simulations; their medians are drawn.

        n_jobs : int, default=None
            Number of joblib workers. It does not affect the result.

        random_state : int, RandomState, Generator or None, default=None
            Seeds everything, noise included: no private data are involved.

        ax, **kwargs
            See `plot`.

        Raises
        ------
        ValueError
            If a parameter is out of range, or there are too few public people.

        Notes
        -----
        **Guarantee**. No private record is used, and no ledger is charged.
        """
        check_at_least(n_repeats, "n_repeats", 1)
        check_n_jobs(n_jobs)
        classes = is_classifier(estimator)
        X, y = check_X_y(X, y, y_numeric=not classes, ensure_min_samples=_FEWEST)
        n_public = (len(X) // 2, len(X)) if n_public is None else n_public
        for name, sizes in (("n_private", n_private), ("n_public", n_public)):
            for size in sizes:
                check_at_least(size, name, 10)
        scoring = scoring or ("roc_auc_ovr" if classes else "r2")
        given = (estimator, _People(X, y, classes), get_scorer(scoring))
        found = Parallel(n_jobs=n_jobs)(
            delayed(_simulate)(*given, n_public, n_private, seed)
            for seed in seed_sequence(random_state).spawn(n_repeats)
        )
        medians = (np.median(part, axis=0) for part in zip(*found, strict=True))
        return cls(n_private, n_public, *medians, scoring=scoring).plot(ax, **kwargs)

    def _draw(self, **kwargs: Any) -> None:
        ax, x = self.ax_, self.n_private
        self.lines_ = ax.plot(x, self.without_privacy, "--", c="gray")
        self.lines_[0].set_label("without privacy")
        for size, scores, alone in zip(
            self.n_public, self.scores, self.public_only, strict=True
        ):
            given = {"marker": "o"} | kwargs
            (line,) = ax.plot(x, scores, **given, label=f"private, {size} public")
            flat = np.full(len(x), alone)
            self.lines_ += [
                line,
                *ax.plot(
                    x, flat, ":", c=line.get_color(), label=f"{size} public alone"
                ),
            ]
        ax.set_xscale("log")
        ax.set_xlabel("private people")
        ax.set_ylabel(f"{self.scoring}, on simulated people")


class _People:
    """A simulated population that resembles public records."""

    def __init__(self, X: Floats, y: NDArray[Any], classes: bool) -> None:
        self._X, self._center = X, X.mean(axis=0)
        # About half the bandwidth of least error for this many records (Silverman).
        self._width = len(X) ** (-1 / (X.shape[1] + 4)) / 2
        linear = LogisticRegression(max_iter=1_000) if classes else Ridge()
        self._model = GridSearchCV(
            make_pipeline(StandardScaler(), linear),
            {
                f"{type(linear).__name__.lower()}__{'C' if classes else 'alpha'}": (
                    np.logspace(-3, 3, 13)
                )
            },
            scoring="neg_log_loss" if classes else "neg_mean_squared_error",
        ).fit(X, y)
        self._errors = None
        if not classes:
            best = self._model.best_estimator_
            self._errors = y - cross_val_predict(best, X, y)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[Any]]:
        """Draw the features and targets of `n` people."""
        spread = self._X - self._center
        rows = rng.integers(len(spread), size=n)
        # Has the covariance of the records; the sum is shrunk back to it.
        moved = rng.normal(size=(n, len(spread))) @ spread / np.sqrt(len(spread))
        shrunk = (spread[rows] + self._width * moved) / np.hypot(1, self._width)
        X = self._center + shrunk
        if self._errors is not None:
            return X, self._model.predict(X) + rng.choice(self._errors, n)
        beyond = rng.random((n, 1)) > self._model.predict_proba(X).cumsum(axis=1)
        last = len(self._model.classes_) - 1
        return X, self._model.classes_[beyond.sum(axis=1).clip(max=last)]


def _simulate(
    estimator: Any,
    people: _People,
    score: Any,
    n_public: Sequence[int],
    n_private: Sequence[int],
    seed: np.random.SeedSequence,
) -> tuple[list[list[float]], list[float], list[float]]:
    """Score private models, public people alone, and fits without privacy."""
    rng = np.random.default_rng(seed)
    test, (X, y) = people.draw(_N_TEST, rng), people.draw(max(n_private), rng)
    publics = [people.draw(size, rng) for size in n_public]
    linear = LogisticRegression(max_iter=1_000) if is_classifier(estimator) else Ridge()
    plain = make_pipeline(StandardScaler(), linear)
    seeded = with_seeds(estimator, seed)
    with simulated(), suspend_open(), silenced():
        private = [
            [
                score(fit_estimator(seeded, Records(X[:n], y[:n], *public)), *test)
                for n in n_private
            ]
            for public in publics
        ]
        alone = [score(plain.fit(*public), *test) for public in publics]
        bare = [score(plain.fit(X[:n], y[:n]), *test) for n in n_private]
    return private, alone, bare
