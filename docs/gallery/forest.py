r"""
A forest without public data
============================

A lender wants to know which loans will be repaid late. It has 5000 customers
and no public records, but a form that declares the values of each field.
(We make the customers up.)
"""

import textwrap
import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestClassifier

from skparisk import PrivateEstimator, SchemaReference, SensitivitySampler

rng = np.random.default_rng(0)


def customers(n):
    income, debt = rng.gamma([4, 2], [10, 15], size=(n, 2)).clip(0, 120).T
    age = rng.integers(18, 81, size=n)
    late = rng.uniform(size=n) >= 1 / (1 + np.exp((debt - income) / 8))
    y = np.where(late, "late", "repaid")
    return np.column_stack([income, debt, age]), y


(X, y), (X_test, y_test) = customers(5000), customers(5000)

# %%
# The form is the schema
# ----------------------
#
# Trees grow on made-up records of the form, so no split knows a customer.
# Only the counts in the leaves come from private records, with noise.

schema = SchemaReference(
    [(0, 120), (0, 120), range(18, 81)], target=["late", "repaid"]
)


def fit(epsilon, sensitivity="bound"):
    forest = RandomForestClassifier(20, max_depth=6, random_state=0)
    model = PrivateEstimator(forest, epsilon=epsilon, sensitivity=sensitivity)
    return model.fit(X, y, X_reference=schema)


# %%
# Sample, or prove?
# -----------------
#
# A customer is in one leaf of each tree. Replacing one moves two counts per
# tree by 1, so 40 in 20 trees. Sampling from the form finds the same, with a
# warning:

with warnings.catch_warnings(record=True, action="always") as caught:
    sampled = fit(1.0, SensitivitySampler(n_pairs=100, random_state=0))
print(str(caught[0].message).partition(".")[0])

bound = fit(1.0)
print(f"sampled {sampled.sensitivity_}, proven {bound.sensitivity_}")

# %%
# Here the bound costs nothing, and it holds for all people, without a γ:

print(textwrap.fill(bound.certificate_.guarantee))

# %%
# The price of privacy
# --------------------

levels = [0.1, 0.3, 1.0, 3.0]
scores = [fit(level).score(X_test, y_test) for level in levels]
no_noise = fit(np.inf).score(X_test, y_test)
grown = RandomForestClassifier(max_depth=6, random_state=0).fit(X, y)
best = grown.score(X_test, y_test)
print(f"grown on customers {best:.0%}, on the form {no_noise:.0%} right")

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.semilogx(levels, scores, "o-", label="private, one release each")
ax.axhline(best, color="k", linestyle="--", label="scikit-learn's forest")
ax.axhline(no_noise, color="C1", label="grown on the form, no noise")
share = np.mean(y_test == "repaid")
ax.axhline(share, color="0.4", label='always "repaid"')
ax.set(
    title="Accuracy of a private forest",
    xlabel="privacy level ε",
    ylabel="accuracy on test records",
)
ax.legend()
plt.show()

# %%
# The lender pays twice: trees grown on a form split where it does not matter
# (between the two upper lines), and leaves get noise. Fewer, shallower trees
# need less; try that on made-up customers. Theory: :doc:`../theory/forests`.
# Other ways: :doc:`../no_public_data`.
