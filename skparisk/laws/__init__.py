"""Laws of noise: how each is drawn exactly, and what privacy loss it has.

Names such as "laplace" are shorthands for objects of these classes. A law of one's own
is a subclass of :class:`Law`; the functions that draw whole numbers from random bytes
are what its `sample` is made of.
"""

from skparisk.core.exact import (
    ByteSource,
    sample_bernoulli_decay,
    sample_discrete_gaussian,
    sample_discrete_laplace,
    sample_uniform_integers,
)
from skparisk.laws._base import Law, UnitNoise
from skparisk.laws._exponential import Exponential
from skparisk.laws._gaussian import Gaussian
from skparisk.laws._laplace import Laplace

__all__ = [
    "ByteSource",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Law",
    "UnitNoise",
    "sample_bernoulli_decay",
    "sample_discrete_gaussian",
    "sample_discrete_laplace",
    "sample_uniform_integers",
]
