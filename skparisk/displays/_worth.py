"""What private people would add to public ones, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_X_y
from sklearn.utils.parallel import Parallel, delayed

from skparisk._silence import silenced
from skparisk._simulated import simulated
from skparisk._validate import check_at_least, check_n_jobs, seed_sequence
from skparisk.displays._steps import Display, Floats
from skparisk.ledger import suspend_open
from skparisk.model_selection._candidates import Records, fit_estimator, with_seeds

_N_TEST = 2_000
# Fewer say too little of how targets depend on features.
_FEWEST = 20


class WorthDisplay(Display):
    """Score of a private model by the number of private and of public people.

    Make it with `from_estimator`, before any level is spent: the people are simulated.

    Parameters
    ----------
    n_private : array-like of shape (n_sizes,)
        Private people.

    scores : dict of int to ndarray of shape (n_sizes,)
        Of the private model, by the number of public people; larger is better.

    public_only : dict of int to float
        Of a fit on these public people alone, without noise.

    without_privacy : array-like of shape (n_sizes,)
        Of a fit on the private people, without noise.

    scoring : str
        Which score it is, for the axis.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        Without privacy, then for each number of public people the private model and
        these alone.

    ax_, figure_ : matplotlib Axes, Figure
        Where the lines are.

    See Also
    --------
    skparisk.PrivateRidge.compare_with_reference : The same of a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import PrivateRidge, WorthDisplay
    >>> from skparisk.datasets import load_census
    >>> X, wages = load_census(return_X_y=True)
    >>> display = WorthDisplay.from_estimator(
    ...     PrivateRidge(epsilon=1.0), X[:200], np.log(wages[:200]), random_state=0
    ... )
    >>> display.ax_.get_xlabel()
    'private people'
    """

    def __init__(
        self,
        n_private: Sequence[int],
        scores: dict[int, Floats],
        public_only: dict[int, float],
        without_privacy: Floats,
        *,
        scoring: str,
    ) -> None:
        self.n_private = n_private
        self.scores = scores
        self.public_only = public_only
        self.without_privacy = without_privacy
        self.scoring = scoring

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
        """Simulate public, private and other people like some public records.

        A simulated person has the features of one of the records, moved a little
        toward others (the smoothed bootstrap: Silverman and Young, Biometrika 1987),
        and a target that a linear model predicts for these, with the error that it has
        on records that it was not fitted to. So columns of codes are no whole numbers
        any more, and what is not linear is not there: it is a plan, and no promise.

        Parameters
        ----------
        estimator : estimator
            A private regressor or classifier, such as
            :class:`~skparisk.PrivateRidge` with the level that is planned.

        X : array-like of shape (n_rows, n_features)
            Numbers of public people, at least 20.

        y : array-like of shape (n_rows,)
            Their targets or labels.

        n_private, n_public : sequence of int
            Numbers of people to simulate; of public ones, None: half of those that
            there are, and as many.

        scoring : str, default=None
            Name of a score of scikit-learn. None: R², or the area under the ROC curve.

        n_repeats : int, default=5
            Simulations, of which the median is drawn.

        n_jobs : int, default=None
            Workers of joblib. The result does not depend on it.

        random_state : int, RandomState, Generator or None, default=None
            Seeds everything, noise included: nothing private is there.

        ax, **kwargs
            See `plot`.

        Returns
        -------
        display : WorthDisplay

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
        scoring = scoring or ("roc_auc_ovr" if classes else "r2")
        score = get_scorer(scoring)
        n_public = (len(X) // 2, len(X)) if n_public is None else n_public
        for name, sizes in (("n_private", n_private), ("n_public", n_public)):
            for size in sizes:
                check_at_least(size, name, 10)
        people = _People(X, y, classes)
        seeds = seed_sequence(random_state).spawn(n_repeats)
        found = Parallel(n_jobs=n_jobs)(
            delayed(_simulate)(estimator, people, score, n_public, n_private, seed)
            for seed in seeds
        )
        bare, alone, private = (
            np.median(part, axis=0) for part in zip(*found, strict=True)
        )
        display = cls(
            [*n_private],
            dict(zip(n_public, private, strict=True)),
            dict(zip(n_public, alone.tolist(), strict=True)),
            bare,
            scoring=scoring,
        )
        return display.plot(ax, **kwargs)

    def _draw(self, **kwargs: Any) -> None:
        ax, x = self.ax_, self.n_private
        self.lines_ = ax.plot(
            x, self.without_privacy, "--", color="gray", label="without privacy"
        )
        for size, scores in self.scores.items():
            given = {"marker": "o"} | kwargs
            (line,) = ax.plot(x, scores, **given, label=f"private, {size} public")
            alone = np.full(len(x), self.public_only[size])
            style = {"color": line.get_color(), "linestyle": ":"}
            self.lines_ += [line, *ax.plot(x, alone, **style, label=f"{size} alone")]
        ax.set_xscale("log")
        ax.set_xlabel("private people")
        ax.set_ylabel(f"{self.scoring}, of simulated people")


class _People:
    """A population that is like some records."""

    def __init__(self, X: Floats, y: NDArray[Any], classes: bool) -> None:
        self._X, self._classes = X, classes
        # As much as to tell apart people with the same features, and no more.
        self._width = len(X) ** (-1 / (X.shape[1] + 4)) / 2
        model = (LogisticRegression(max_iter=1_000), "C", "neg_log_loss")
        if not classes:
            model = (Ridge(), "alpha", "neg_mean_squared_error")
        linear, penalty, scoring = model
        name = f"{type(linear).__name__.lower()}__{penalty}"
        self._model = GridSearchCV(
            make_pipeline(StandardScaler(), linear),
            {name: np.logspace(-3, 3, 13)},
            scoring=scoring,
        ).fit(X, y)
        self._errors = None
        if not classes:
            best = self._model.best_estimator_
            self._errors = y - cross_val_predict(best, X, y)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[Any]]:
        """Return features and targets of some people."""
        center = self._X.mean(axis=0)
        spread = self._X - center
        rows = rng.integers(len(spread), size=n)
        # Of the covariance of the records, as is the sum, which is shrunk again.
        moved = rng.normal(size=(n, len(spread))) @ spread / np.sqrt(len(spread))
        X = center + (spread[rows] + self._width * moved) / np.hypot(1, self._width)
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
) -> tuple[Floats, Floats, Floats]:
    """Return scores without privacy, of public people alone, and of private models."""
    rng = np.random.default_rng(seed)
    test = people.draw(_N_TEST, rng)
    X, y = people.draw(max(n_private), rng)
    publics = [people.draw(size, rng) for size in n_public]
    linear = LogisticRegression(max_iter=1_000) if is_classifier(estimator) else Ridge()
    plain = make_pipeline(StandardScaler(), linear)
    with simulated(), suspend_open(), silenced():
        bare = [score(plain.fit(X[:size], y[:size]), *test) for size in n_private]
        alone = [score(plain.fit(*public), *test) for public in publics]
        private = []
        for public in publics:
            for size in n_private:
                names = ("random_state", "noise_random_state")
                seeded = with_seeds(estimator, seed, names, keep_given=False)
                records = Records(X[:size], y[:size], *public)
                private.append(score(fit_estimator(seeded, records), *test))
    shape = (len(n_public), len(n_private))
    return np.array(bare), np.array(alone), np.reshape(private, shape)
