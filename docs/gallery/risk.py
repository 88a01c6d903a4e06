r"""
One release, many levels
========================

A clinic publishes the mean age of 400 patients at ε = 1 and a risk of
γ = 0.05: one pair of neighboring databases in twenty may lose more. How much
more? The same release has a risk at every other level, and a level at every
other risk.
"""

import numpy as np
from matplotlib import pyplot as plt

from skparisk import RiskCurveDisplay, SensitivitySampler, required_pairs

ages = np.random.default_rng(0).uniform(18, 90, size=(400, 1))
sampler = SensitivitySampler(np.mean, n_pairs=200, random_state=0).fit(ages)

# %%
# Sampled moves
# -------------
#
# The sampler replaced one patient in each of 200 databases. The noise is
# calibrated to a high quantile of how far the mean moved, so that a few
# pairs of the sample lie beyond it:

figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
ax.hist(sampler.sensitivities_, bins=30, alpha=0.7)
ax.axvline(sampler.sensitivity_, color="C3", label="sampled sensitivity")
ax.set(
    title="How far one patient moves the mean age",
    xlabel="distance of the two means, years",
    ylabel="pairs",
)
ax.legend()
plt.show()

# %%
# The risk curve
# --------------
#
# Fix other levels beforehand, without a look at the pairs:

certificate = sampler.certificate_
for epsilon in (0.25, 0.5, 1.0, 1.5):
    print(f"level {epsilon}: risk {certificate.risk_at(epsilon):.3f}")
print(f"risk 0.2: level {certificate.epsilon_at(0.2):.2f}")

# %%
# :class:`~skparisk.RiskCurveDisplay` draws the whole curve, and marks the
# release:

display = RiskCurveDisplay.from_estimator(sampler)
display.ax_.set_title("The risk falls from 0.64 at ε = 0.25 to 0.05 at ε = 1")
plt.show()

# %%
# A smaller risk takes more pairs, at least
# :func:`~skparisk.required_pairs`:

for gamma in (0.1, 0.05, 0.01):
    print(f"risk {gamma}: {required_pairs(gamma)} pairs")

# %%
# What γ means, and how to choose it: :doc:`../choosing`. Theory:
# :ref:`thm-order-statistic`.
