r"""
A steward's first questions
===========================

Before any model, a steward asks: how many people are there, where do they
live, and what do they earn? A :class:`~skparisk.PrivateTable` answers
without a reference and without a risk. Its release is ε-differentially
private for any data.
"""

import textwrap

import numpy as np
from matplotlib import pyplot as plt

from skparisk import PrivateTable
from skparisk.datasets import load_census

census = load_census(as_frame=True)
regions = census.data.filter(like="region_").idxmax(axis=1)
degree = (census.data["education"] >= 16).map({True: "degree", False: "none"})
people = census.data[["age"]].assign(
    region=regions.str.removeprefix("region_"),
    degree=degree,
    income=census.target,
)[:2000]

# %%
# A data dictionary, not the records, declares the columns. Ask
# everything at once: all answers share one ε.

schema = {
    "region": ["northeast", "midwest", "south", "west"],
    "degree": ["degree", "none"],
    "age": (25, 65),
    "income": (0, 3000),  # dollars per week
}
table = PrivateTable(
    schema,
    counts=[("region", "degree"), "income"],
    means={"income": "degree"},
    bins={"income": 15},
    epsilon=1.0,
).fit(people)
print(textwrap.fill(table.certificate_.guarantee))

# %%
# How many, and where?
# --------------------
#
# Each count states its own error, and groups are sums of their parts:

error = table.count("region")["std_error"].iloc[0]
print(f"each region give or take {error:.0f}")
print(table.count(("region", "degree"))["count"].round())

# %%
# What do they earn?
# ------------------
#
# One release gave 1285 dollars (standard error 35) with a degree, 809 (14)
# without, and a median of 761. Yours differs by its noise.

print(table.quantile("income", 0.5))
print(table.mean("income", "degree").round())

# %%
# An income of 10 000 dollars counts as 3000, the end of the declared range.
# A wider range needs more noise. Bars with intervals show the release; only
# public records may show the dashed line.

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
counts = table.count("income").iloc[:-1]  # the last is "(missing)"
heights = counts["count"].clip(lower=0)
ends = np.abs(counts[["low", "high"]].sub(heights, axis=0)).to_numpy().T
middles = np.arange(100, 3000, 200)
ax.bar(middles, heights, width=180, yerr=ends, capsize=3, alpha=0.7)
income = people["income"].clip(upper=3000)
true, edges = np.histogram(income, bins=15, range=(0, 3000))
ax.stairs(true, edges, color="k", linestyle="--", label="without privacy")
ax.set(
    title="Weekly incomes of 2000 people at ε = 1",
    xlabel="weekly income, dollars",
    ylabel="people",
)
ax.legend()
plt.show()

# %%
# Theory: :ref:`thm-tables`. Several tables and models on one budget:
# :doc:`budget`.
