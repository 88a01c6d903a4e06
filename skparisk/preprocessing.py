"""RandomizedResponseTransformer: records that are private before they are collected."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skparisk._callers import leaks_around
from skparisk._fitted import whole_fit
from skparisk.core.checks import check_epsilon, check_random_state, warn_if_seeded
from skparisk.core.claim import mint
from skparisk.core.exact import noise_source, sample_uniform_integers
from skparisk.core.release import as_seeded, hide_values
from skparisk.core.sealed import key_of
from skparisk.ledger import spend, suspend_open
from skparisk.mechanisms import RandomizedResponse

__all__ = ["RandomizedResponseTransformer"]

# More than what rounding may take from a sum of privacy levels.
_SUM_SLACK = 2.0**-50


class RandomizedResponseTransformer(
    OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Randomized response for categorical columns, each record by itself.

    Each value is kept with some probability, and else replaced by any other category
    of its column. Whoever collects the records need not be trusted, and estimates how
    frequent the categories are (:meth:`estimate_proportions`).

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy level of a whole record, in (0, inf]. Unitless. Split evenly over the
        columns with more than one category. Infinite: values are kept.

    categories : list of array-like
        Possible values of each column, which are public: distinct, without NaN. Values
        are compared with ``==``; else a text that is a number is that number.

    noise_random_state : int, RandomState, Generator or None, default=None
        Seeds the noise, for tests: :ref:`private-parameters`.

    Attributes
    ----------
    categories_ : list of ndarray
        Possible values of each column.

    mechanisms_ : list of RandomizedResponse
        What randomizes each column.

    epsilon_ : float
        Achieved privacy level of a record, at most `epsilon`.

    n_features_in_, feature_names_in_ : int, ndarray of str
        Columns seen in `fit`, and their names, where `X` had names.

    Notes
    -----
    **Guarantee**. A transformed record is epsilon-differentially private for any two
    records, in the local model: by :class:`~skparisk.mechanisms.RandomizedResponse` in
    each column, and basic composition over them. Each call of `transform` spends the
    level again.

    A value that is no category becomes a uniformly random one before the response. Its
    law is then the mean of the laws of the categories, and all ratios of probabilities
    stay within the level. NaN is refused.

    Examples
    --------
    >>> from skparisk.preprocessing import RandomizedResponseTransformer
    >>> X = [["yes", "A"], ["no", "B"], ["no", "A"], ["yes", "C"]]
    >>> survey = RandomizedResponseTransformer(
    ...     epsilon=4.0, categories=[["yes", "no"], ["A", "B", "C"]]
    ... ).fit(X)
    >>> responses = survey.transform(X)
    >>> [shares.size for shares in survey.estimate_proportions(responses)]
    [2, 3]
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Any,
        noise_random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.noise_random_state = noise_random_state

    @whole_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Set the categories, and what randomizes each column.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records, of which only the columns count.

        y : ignored
            For the interface of scikit-learn.

        Raises
        ------
        ValueError
            If a parameter is out of range, or a value is NaN or infinite.
        """
        epsilon = check_epsilon(self.epsilon)
        noise_source(self.noise_random_state)
        columns = self._columns(X, reset=True)
        categories = _check_categories(self.categories, len(columns))
        share = epsilon / max(1, sum(len(values) > 1 for values in categories))
        if math.isfinite(share):  # rounded down: the sum must not be above the level
            share = math.nextafter(share, 0)
        self.mechanisms_ = [
            RandomizedResponse(len(values), epsilon=share) for values in categories
        ]
        achieved = math.fsum(mechanism.epsilon for mechanism in self.mechanisms_)
        self.epsilon_ = min(achieved * (1 + _SUM_SLACK), epsilon)
        self.categories_ = categories
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Randomize each record by itself.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Private records.

        Returns
        -------
        released : ndarray of shape (n_rows, n_features)
            Categories of each column; an array of objects if columns have values of
            several kinds.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or there are other columns than in `fit`.

        Warns
        -----
        PrivacyLeakWarning
            If the noise is seeded, or earlier steps of a Pipeline are fitted to these
            records.
        """
        check_is_fitted(self, "categories_")
        indices = _encode(hide_values(self._columns, X, reset=False), self.categories_)
        leaks = leaks_around()
        warn_if_seeded(self.noise_random_state)
        state = self.noise_random_state
        if state is not None:  # one stream for all columns
            state = check_random_state(state, "noise_random_state")
        whole_record = mint(
            epsilon=self.epsilon_,
            relation="replace-one",
            leaks=frozenset(leaks),
        )
        spend(as_seeded(whole_record, self.noise_random_state), note=str(self))
        kinds = {values.dtype.kind for values in self.categories_}
        # A type that holds the values of all columns as they are.
        one = len(kinds) == 1
        dtype = np.result_type(*self.categories_) if one else np.dtype(object)
        released = np.empty(indices.shape, dtype)
        with suspend_open():  # the columns' parts of it are paid for
            for column, (values, mechanism) in enumerate(
                zip(self.categories_, self.mechanisms_, strict=True)
            ):
                given, source = indices[:, column], noise_source(state)
                anything = sample_uniform_integers(len(values), len(indices), source)
                answers = np.where(given < 0, anything.astype(np.intp), given)
                responses = mechanism.randomize(answers, noise_random_state=state)
                released[:, column] = values[responses]
        return released

    def estimate_proportions(self, X: Any) -> list[NDArray[np.float64]]:
        """Estimate how frequent each category is: post-processing, so it is free.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Released by :meth:`transform`.

        Returns
        -------
        proportions : list of ndarray of shape (n_categories,)
            For each column, in the order of `categories_`. Unbiased; they sum to 1, and
            may be below 0 or above 1. A value that was no category counts as an equal
            part of each. For their variances see :meth:`RandomizedResponse.variance
            <skparisk.mechanisms.RandomizedResponse.variance>`.

        Raises
        ------
        ValueError
            If a value is no category.
        """
        check_is_fitted(self, "categories_")
        indices = _encode(self._columns(X, reset=False), self.categories_)
        if (indices < 0).any():
            raise ValueError(
                "X must be an output of transform: it has values that are not "
                "categories."
            )
        return [
            mechanism.estimate_proportions(responses)
            for mechanism, responses in zip(self.mechanisms_, indices.T, strict=True)
        ]

    def _columns(self, X: Any, *, reset: bool) -> list[NDArray[Any]]:
        """Return finite columns, each of its own type where `X` has such columns."""
        if hasattr(X, "iloc") and X.ndim == 2 and X.shape[1]:
            columns = [
                check_array(X.iloc[:, j], ensure_2d=False, dtype=None, input_name="X")
                for j in range(X.shape[1])
            ]
        else:
            array = check_array(X, dtype=None, input_name="X")
            if not hasattr(X, "dtype") and array.dtype.kind == "U":
                # A list may hold numbers as well, which must not become strings.
                array = check_array(X, dtype=object, input_name="X")
            columns = list(array.T)
        validate_data(self, X, skip_check_array=True, reset=reset)
        return columns

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.non_deterministic = True
        return tags


def _check_categories(categories: Any, n_features: int) -> list[NDArray[Any]]:
    """Return the categories of each column as distinct values."""
    if not isinstance(categories, list | tuple | np.ndarray):
        raise ValueError(
            "categories must be a list of arrays, one for each column, got "
            f"{categories!r}."
        )
    if len(categories) != n_features:
        raise ValueError(
            f"categories must have an array for each of the {n_features} columns, got "
            f"{len(categories)}."
        )
    checked = []
    for column, given in enumerate(categories):
        name = f"categories[{column}]"
        values = np.asarray(given)
        if not hasattr(given, "dtype") and values.dtype.kind == "U":
            values = np.array(given, dtype=object)
        if values.ndim != 1 or len(set(values.tolist())) < len(values):
            raise ValueError(
                f"{name} must be a list of distinct values, got {given!r}."
            )
        check_array(values, ensure_2d=False, dtype=None, input_name=name)
        checked.append(values)
    return checked


def _encode(
    columns: list[NDArray[Any]], categories: list[NDArray[Any]]
) -> NDArray[np.intp]:
    """Return the index of each value in the categories of its column, or -1.

    A text that is a number is that number: one text more in a column of a file must not
    decide what all others are.
    """
    indices = np.empty((len(columns[0]), len(columns)), dtype=np.intp)
    for j, (column, values) in enumerate(zip(columns, categories, strict=True)):
        exact = {value: i for i, value in enumerate(values.tolist())}
        alike = {key_of(value): i for value, i in reversed(exact.items())}
        for i, value in enumerate(column.tolist()):
            place = exact.get(value)
            indices[i, j] = alike.get(key_of(value), -1) if place is None else place
    return indices
