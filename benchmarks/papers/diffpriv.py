"""Rubinstein and Aldà's own program, the R package diffpriv, beside skparisk.

Runs where `Rscript` finds the packages diffpriv and gsl (R_LIBS says where else to
look); without them nothing is compared. Three comparisons: the operating points of
Table 1, to nine digits; the sampled sensitivity of a mean of records that both are
given, to twelve, and of records that each draws; and the time of that.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skparisk import SensitivitySampler
from skparisk.exceptions import CalibrationError
from skparisk.papers import dkw_fewest_pairs, dkw_least_noise, dkw_least_risk
from skparisk.queries import MeanQuery

from ._study import RUBINSTEIN, Line, Study

SCRIPT = Path(__file__).with_suffix(".R")
N_RECORDS = 100
GAMMA = 0.05
ITEM = "Algorithm 1 (R)"
MISSING = "Rscript with the packages diffpriv and gsl is not here: skipped."

Answers = list[tuple[str, tuple[float, ...]]]


def is_installed() -> bool:
    """Return whether R and its package can be asked."""
    if shutil.which("Rscript") is None:
        return False
    code = "quit(status = !requireNamespace('diffpriv', quietly = TRUE))"
    return subprocess.run(["Rscript", "-e", code], capture_output=True).returncode == 0


def parse(text: str) -> Answers:
    """Return what the script prints, as names and numbers."""
    rows = (line.strip().split(",") for line in text.splitlines() if line.strip())
    return [(name, tuple(map(float, numbers))) for name, *numbers in rows]


def ask(records: np.ndarray, m: int, k: int, n_repeats: int) -> Answers:
    """Return what R says of records, as many as its sampler asks for."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.txt"
        np.savetxt(file, records.ravel(), fmt="%.17g")
        numbers = map(str, (N_RECORDS, m, k, n_repeats))
        command: Sequence[str] = ["Rscript", str(SCRIPT), str(file), *numbers]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    return parse(result.stdout)


def operating_point(name: str, numbers: tuple[float, ...]) -> tuple[float, ...]:
    """Return our numbers for a row of R's answers, in its order."""
    if name == "fewest":
        point = dkw_fewest_pairs(numbers[0])
        return numbers[0], point.n_pairs, point.order_index, point.rho
    if name == "order":
        point = dkw_least_noise(int(numbers[0]), numbers[1])
        return *numbers[:2], point.order_index, point.rho
    if name == "risk":
        point = dkw_least_risk(int(numbers[0]))
        return numbers[0], point.gamma, point.rho
    try:
        dkw_least_noise(1000, GAMMA)
    except CalibrationError:
        return (1.0,)
    return (0.0,)


def given_sensitivity(records: np.ndarray, k: int) -> float:
    """Return the order statistic of pairs: n - 1 shared records, then the two."""
    mean = MeanQuery()
    shared, last = records[:, :-2], records[:, -2:]
    moves = [
        float(
            np.abs(
                mean(np.append(rest, a)[:, None]) - mean(np.append(rest, b)[:, None])
            )[0]
        )
        for rest, (a, b) in zip(shared, last, strict=True)
    ]
    return sorted(moves)[k - 1]


def drawn_sensitivities(m: int, n_repeats: int) -> np.ndarray:
    """Return sampled sensitivities of means of records that we draw."""
    return np.array(
        [
            SensitivitySampler(
                MeanQuery(),
                gamma=GAMMA,
                calibration="dkw",
                reference=lambda n, rng: rng.exponential(size=(n, 1)),
                n_records=N_RECORDS,
                n_pairs=m,
                random_state=seed,
            )
            .fit(np.zeros((1, 1)))
            .sensitivity_
            for seed in range(n_repeats)
        ]
    )


def _texts(numbers: Sequence[float]) -> str:
    return ", ".join(f"{x:.10g}" for x in numbers)


def compare(n_repeats: int) -> list[Line]:
    """Return the lines, from one run of R."""
    point = dkw_fewest_pairs(GAMMA)
    m, k = point.n_pairs, point.order_index
    records = np.random.default_rng(0).exponential(size=(m, N_RECORDS + 1))
    answers = ask(records, m, k, n_repeats)
    lines = []
    for name, numbers in answers:
        if name not in ("fewest", "order", "risk", "refused"):
            continue
        ours = operating_point(name, numbers)
        agrees = all(
            math.isclose(a, b, rel_tol=1e-9) for a, b in zip(ours, numbers, strict=True)
        )
        what = f"operating point, {name}"
        lines.append(Line("Table 1 (R)", what, _texts(numbers), _texts(ours), agrees))
    found = dict(answers)
    ours_given = given_sensitivity(records, k)
    lines.append(
        Line(
            ITEM,
            f"sensitivity of a mean, {m} pairs, same records",
            f"{found['given'][0]:.12g}",
            f"{ours_given:.12g}",
            math.isclose(found["given"][0], ours_given, rel_tol=1e-9),
        )
    )
    start = time.perf_counter()
    drawn = drawn_sensitivities(m, n_repeats)
    seconds = time.perf_counter() - start
    mean, error = drawn.mean(), drawn.std(ddof=1) / math.sqrt(n_repeats)
    theirs, their_error = found["drawn"]
    lines.append(
        Line(
            ITEM,
            f"the same, own records, mean of {n_repeats}",
            f"{theirs:.5f} ± {their_error:.5f}",
            f"{mean:.5f} ± {error:.5f}",
            bool(abs(mean - theirs) < 5 * math.hypot(error, their_error)),
        )
    )
    lines.append(
        Line(
            ITEM,
            "time of that, R over Python",
            "1",
            f"{found['seconds'][0] / seconds:.1f}",
            None,
            "A ratio of times of one run, which depends on the machine.",
        )
    )
    return lines


def reproduce(fast: bool) -> Study:
    """Return the comparison, with 5 repeats if fast, 50 if not."""
    if is_installed():
        return Study(RUBINSTEIN, compare(5 if fast else 50))
    skipped = Line(ITEM, "comparison with the R package", "", "", None, MISSING)
    return Study(RUBINSTEIN, [skipped])
