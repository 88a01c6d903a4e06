"""The risk that noise from a table is calibrated to, after the formula."""


def risk_for_rows(gamma, n_rows, n_pairs, *, n_own=2):
    """Return gamma - (1 - gamma) / M where there are more pairs than M = N // n_own."""
    n_independent = n_rows // n_own
    if n_independent >= n_pairs:
        return gamma
    return gamma - (1 - gamma) / n_independent
