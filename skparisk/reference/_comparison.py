"""What a private model is worth beside one of the public records alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReferenceComparison:
    """Scores of a private model, and of public records alone, on public records.

    Parameters
    ----------
    private : float
        Score of the release on the public records, as by `score` of the estimator. A
        release that corrects a public fit is scored on each fifth of the records with a
        fit of the others.

    public_only : float
        Score of a fit to public records alone, without noise, by cross-validation in
        five folds. Its penalty is the penalty of the corrected public fit, or
        scikit-learn's.

    n_reference : int
        Public records.

    n_records : int
        Records of the private fit.

    error : float, default=0.0
        Standard error of the difference, over the five folds.

    serves_public : bool, default=False
        Whether the fit to public records is served, as it scores better.

    Notes
    -----
    **Guarantee**. None is needed: this is post-processing of the release and of public
    records, so it is free. It is about people like those in the reference.

    Examples
    --------
    >>> from skparisk.reference import ReferenceComparison
    >>> print(ReferenceComparison(0.31, 0.46, 147, 148, error=0.04))
    On the 147 public records, the private model (148 records) scores 0.31 and
    a fit to the public records alone 0.46 (cross-validated). The standard error of
    the difference is 0.04.
    """

    private: float
    public_only: float
    n_reference: int
    n_records: int
    error: float = 0.0
    serves_public: bool = False

    @property
    def public_is_better(self) -> bool:
        """Whether public records alone do better, by more than two standard errors."""
        return self.gap > 2 * self.error

    @property
    def gap(self) -> float:
        """Score of public records alone minus score of the private model."""
        return self.public_only - self.private

    @property
    def advice(self) -> str:
        """Advice if public records alone do better; "" otherwise."""
        if not self.public_is_better:
            return ""
        told = ": serve a fit to them, without noise"
        if self.serves_public:
            told = ", so a fit to them is served, and nothing that was released"
        return (
            f"The public records alone score better ({self.public_only:.3g}) than the "
            f"private model ({self.private:.3g}){told}."
        )

    def __str__(self) -> str:
        return (
            f"On the {self.n_reference} public records, the private model "
            f"({self.n_records} records) scores {self.private:.3g} and\na fit to "
            f"the public records alone {self.public_only:.3g} (cross-validated). "
            f"The standard error of the difference is {self.error:.2g}."
        )
