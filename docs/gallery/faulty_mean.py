r"""
A private mean that is not
==========================

A colleague releases the mean of ages between 0 and 100 with Laplace noise
for ε = 1. The code runs, its tests pass, and the noise looks like noise.
"""

import numpy as np
from matplotlib import pyplot as plt

from skparisk import audit_claim
from skparisk.mechanisms import LaplaceMechanism

rng = np.random.default_rng(0)


def faulty_mean(database, size):
    ages = database[0][:, 0] / 100
    sensitivity = ages.var() / len(ages)
    noise = rng.laplace(scale=sensitivity / 1.0, size=size)
    return 100 * np.round((ages.mean() + noise) * 2**30) / 2**30


# %%
# The sensitivity of a mean of n numbers in [0, 1] is 1/n. Someone took the
# variance for the range.
#
# Attack it
# ---------
#
# Take two databases that differ in one record. Made-up ones will do.

ages = rng.integers(18, 90, size=(50, 1)).astype(float)
other = ages.copy()
other[0] = 100.0
attack = {
    "pairs": [((ages,), (other,))],
    "n_releases": 2000,
    "random_state": 0,
}
found = audit_claim(faulty_mean, ages, claim=1.0, **attack)
print(str(found).splitlines()[0])
print(f"level at least {found.worst.lower_bound:.1f}, where 1 is claimed")

# %%
# With a confidence of 0.95 this bound holds whatever the code looks like
# (:ref:`thm-lower-bound`).
#
# Mend it
# -------
#
# :class:`~skparisk.mechanisms.LaplaceMechanism` takes the sensitivity as a
# parameter:

mechanism = LaplaceMechanism(sensitivity=100 / len(ages), epsilon=1.0)


def mean(database, size):
    return mechanism.release(np.full((size, 1), database[0].mean()))


print(
    audit_claim(
        mean, ages, claim=mechanism, confidence=0.999, **attack
    ).verdict
)

# %%
# That is no proof. The proof is that the mean moves by at most 100/n.
#
# Look through the attacker's eyes at the releases of both databases:

figure, axes = plt.subplots(ncols=2, figsize=(8, 3.2), layout="constrained")
figure.suptitle("Releases of two databases that differ in one age")
for ax, release in zip(axes, (faulty_mean, mean), strict=True):
    for database, label in ((ages, "Alice is 79"), (other, "Alice is 100")):
        values = np.ravel(release((database,), 2000))
        ax.hist(
            values, bins=60, histtype="stepfilled", alpha=0.6, label=label
        )
    ax.set(title=release.__name__, xlabel="released mean age", yticks=[])
axes[0].legend()
plt.show()

# %%
# Floating point
# --------------
#
# Correct noise, drawn in floating point, leaks by its low bits if releases
# are many:


def floating(database, size):
    return np.sum(database[0] > 95) + rng.laplace(scale=1.0, size=size)


attack["n_releases"] = 100_000
leak = audit_claim(floating, ages, claim=1.0, **attack).worst
print("given away by", leak.distinguisher)

# %%
# skparisk draws whole numbers on a grid instead.
