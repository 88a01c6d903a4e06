r"""
Many models from one release
============================

How do wages depend on age, education and region? An analyst tries
penalties, drops columns, and asks how sure each number is. If each fit were
a release, each would spend its own ε. :class:`~skparisk.PrivateMoments`
releases sums and products of the columns once. All of these models follow
from them.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import Ridge

from skparisk import PrivateMoments
from skparisk.datasets import load_census

X, income = load_census(return_X_y=True)
X, y = X[:, [0, 1, 4, 5, 6]], np.log(income)
names = ["age", "education", "Northeast", "Midwest", "South"]
X_private, X_test, X_public = X[:15000], X[15000:25000], X[25000:]
y_private, y_test, y_public = y[:15000], y[15000:25000], y[25000:]
moments = PrivateMoments(epsilon=1.0, random_state=0)
moments.fit(X_private, y_private, X_reference=X_public, y_reference=y_public)

# %%
# Ridge for every penalty
# -----------------------
#
# Fifteen models spend nothing more, and hardly lose any R² on public test
# records:

penalties = np.logspace(0, 7, 15)
private = [moments.ridge(a).score(X_test, y_test) for a in penalties]
plain = [
    Ridge(alpha=a).fit(X_private, y_private).score(X_test, y_test)
    for a in penalties
]
difference = np.abs(np.subtract(private, plain))
print(f"largest difference: {difference.max():.1f}")

# %%
# Least squares, with intervals
# -----------------------------
#
# These intervals include the noise. Without it they would promise too much.

ols = moments.ols()
intervals = ols.confint()[1:]  # the first is of the intercept
print(f"a year of education adds {ols.coef_[1]:.1f} to log wages")

figure, (left, right) = plt.subplots(
    ncols=2, figsize=(8, 3.6), layout="constrained"
)
figure.suptitle("Fifteen ridge models and least squares from one release")
left.semilogx(penalties, private, "C0", linewidth=4, label="from the release")
left.semilogx(penalties, plain, "k--", label="without privacy")
left.set(xlabel="penalty α", ylabel="R² on test records")
left.legend()
width = np.abs(intervals.T - ols.coef_)
right.errorbar(ols.coef_, names, xerr=width, fmt="o", capsize=4)
exact = Ridge(alpha=0).fit(X_private, y_private).coef_
right.plot(exact, names, "kx")
right.set(xlabel="coefficient, 95 % interval (x: no privacy)")
plt.show()

# %%
# Components
# ----------
#
# Principal components come from the same sums. Age varies most, and every
# model carries the certificate of the one release:

first = moments.pca(2).components_[0]
print("first component:", names[np.abs(first).argmax()])
print(f"spent so far: epsilon {ols.certificate_.epsilon}")

# %%
# Theory: :ref:`thm-moments`. For one model with one penalty, an estimator of
# its own releases less, and often needs less noise.
