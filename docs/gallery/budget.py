r"""
A steward's budget
==================

A university's personnel office publishes statistics about its staff, trains
a model, and must account for the privacy that all of it costs.
"""

import io

import numpy as np
from matplotlib import pyplot as plt

from skparisk import PrivacyLedger, PrivateGridSearchCV, PrivateRidge
from skparisk.core import compose_basic, compose_exact
from skparisk.cost import CompensationModel
from skparisk.exceptions import BudgetExceededError
from skparisk.mechanisms import LaplaceMechanism

rng = np.random.default_rng(0)
X, X_public = rng.uniform(size=(2, 300, 3))
y, y_public = X @ [0.5, 0.3, 0.1], X_public @ [0.5, 0.3, 0.1]

# %%
# Which level?
# ------------
#
# A breach of unprotected data would cost 5500 dollars for each of 100
# people. At level ε the office expects to pay
# :math:`5500\, e^{-1/\varepsilon}` each (Dandekar et al. 2021, section 5). A
# count may be wrong by 2 on average, so ε must be at least 1/2:

model = CompensationModel(compensation=5500, n_people=100)
print(f"{model.budget(0.5):.2f} dollars")

# %%
# The same noise keeps a smaller level with some probability, and paying by
# that saves money:

level = model.optimal_epsilon(0.5)
least = model.budget_at_risk(level, 0.5)
print(f"{least:.2f} dollars at level {level:.4f}")

# %%
# By the paper's own formula, ``law=DandekarTheorem4()``, it would be
# 37 805.86 dollars at 0.2741. That formula takes two distances as
# independent that are not (:doc:`../theory/errata`, :doc:`../theory/cost`).
#
# One budget
# ----------
#
# A ledger records every release inside its ``with`` block, also by
# scikit-learn's copies and folds. It refuses a release that does not fit
# before drawing any noise.

count = LaplaceMechanism(sensitivity=1, epsilon=0.5)
ridge = PrivateRidge(epsilon=1.0, random_state=0)
public = {"X_reference": X_public, "y_reference": y_public}
with PrivacyLedger(epsilon=2.0, gamma=0.1) as ledger:
    obese = count.release([35])
    ridge.fit(X, y, **public)
print(f"spent {ledger.spent.epsilon}, left {ledger.remaining()}")

try:
    with ledger:
        ridge.fit(X, y, **public)
except BudgetExceededError as error:
    print(type(error).__name__)

# %%
# A plain ``GridSearchCV`` would spend on every fold, and choose by private
# scores without noise. :class:`~skparisk.PrivateGridSearchCV` chooses on
# public records for free:

search = PrivateGridSearchCV(
    PrivateRidge(epsilon=0.4), {"alpha": [1.0, 100.0]}
)
with ledger:
    search.fit(X, y, **public)
print(search.best_params_, f"left {ledger.remaining():.1f}")

levels = [entry.certificate.epsilon for entry in ledger.releases]
figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ax.bar(["count", "ridge", "search"], np.cumsum(levels))
ax.axhline(2.0, color="k", linestyle="--", label="budget")
ax.set(
    title="Privacy level spent after each release",
    ylabel="ε spent so far",
    ylim=(0, 2.5),
)
ax.legend(loc="upper left")
plt.show()

# %%
# File it
# -------
#
# With ``path="budget.ledger"`` the ledger outlives a crash
# (:meth:`PrivacyLedger.open <skparisk.PrivacyLedger.open>`).
# ``print(ledger)`` is a report, and :meth:`~skparisk.PrivacyLedger.to_jsonl`
# exports it: one line each for the budget, three charges and a checkpoint.

export = io.StringIO()
ledger.to_jsonl(export)
print(f"{len(export.getvalue().splitlines())} lines")

# %%
# Its ``head``, filed with the report, shows later that no entry was
# rewritten (:doc:`../theory/ledger`).
#
# Many small releases
# -------------------
#
# Adding levels is far too careful for many releases. A hundred counts at
# 0.1:

small = [LaplaceMechanism(sensitivity=1, epsilon=0.1)] * 100
exact = compose_exact(small, delta=1e-5)
print(f"added {compose_basic(small).epsilon}, exact {exact.epsilon:.3f}")

# %%
# The exact rule needs the extra ``accounting``, and a number of releases
# fixed beforehand (:doc:`../theory/composition`). A ledger takes
# ``composition="advanced"``.
