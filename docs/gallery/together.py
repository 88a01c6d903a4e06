r"""
Public and private together
===========================

A survey has 1000 private records, and some public ones of the same people.
Is a private model worth its noise? Is it needed at all? You need not decide:
private records *correct* the public fit. The noise, and how far each fit may
be off, set the weight. It is one release, and the weighting is free.
"""

import textwrap
import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import Ridge

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.datasets import load_census

X, income = load_census(return_X_y=True)
X, y = (
    X[:, [0, 1, 4, 5, 6]],
    np.log(income),
)  # age, education, three regions
X_private, y_private = X[:1000], y[:1000]
X_test, y_test = X[20000:], y[20000:]
sampler = SensitivitySampler(n_pairs=100, random_state=0)

# %%
# Fit three models for each number of public records. Small tables raise a
# :class:`~skparisk.ReferenceWarning`, which we ignore here on purpose.


def fit(n_public, combine):
    chosen = slice(5000, 5000 + n_public)
    model = PrivateRidge(epsilon=0.5, sensitivity=sampler, combine=combine)
    with warnings.catch_warnings(action="ignore"):
        return model.fit(
            X_private,
            y_private,
            X_reference=X[chosen],
            y_reference=y[chosen],
        )


def scores(n_public):
    chosen = slice(5000, 5000 + n_public)
    alone = Ridge().fit(X[chosen], y[chosen])
    models = [alone, fit(n_public, None), fit(n_public, "reference")]
    return [model.score(X_test, y_test) for model in models]


sizes = [100, 200, 400, 800]
found = np.array([scores(n_public) for n_public in sizes])
best = Ridge().fit(X_private, y_private).score(X_test, y_test)
print("public alone:", found[:, 0].round(2))
print(f"private, without noise: {best:.2f}")

# %%
# Each point is one release, so yours will differ.

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
labels = ["public alone", "private alone, ε = 0.5", "together"]
ax.semilogx(sizes, found, "o-", label=labels)
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.axhline(best, color="k", linestyle="--", label="private, no noise")
ax.set(
    title="Score by number of public records",
    xlabel="public records",
    ylabel="R² on test records",
)
ax.legend()
plt.show()

# %%
# With 100 public records the private model is worth its noise. With 800, the
# public ones nearly suffice.
#
# Ask before you publish
# ----------------------
#
# The public records can measure the worth of the private ones:

comparison = fit(800, "reference").compare_with_reference()
print(textwrap.fill(str(comparison)))

# %%
# If the public records are of other people, and the noise is small enough to
# see it, the weight moves to the private ones (``private_weight_``,
# ``reference_shift_``). Theory: :ref:`thm-correction`.
