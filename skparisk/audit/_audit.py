"""The private audit of a reference, on records that are used for nothing else."""

from __future__ import annotations

from typing import Any

from skparisk._private import PrivateMixin
from skparisk.audit._at_size import Audited
from skparisk.audit._blocks import (
    BlockJudge,
    choose_blocks,
    count_exceeding,
    cut_blocks,
)
from skparisk.audit._limits import (
    LARGEST_SHARE,
    CountNoise,
    check_confidence,
    required_blocks,
    risk_limits,
)
from skparisk.audit._reference_audit import ReferenceAudit, cost_of_audit
from skparisk.core import claim as core
from skparisk.core.checks import (
    check_n_jobs,
    check_probability,
    seed_sequence,
    warn_if_seeded,
)
from skparisk.core.claim import Certificate
from skparisk.core.exact import noise_source
from skparisk.core.release import draw, forgetting, hide_values
from skparisk.ledger import OPEN, check_room
from skparisk.reference import SchemaReference
from skparisk.reference._records import as_records, n_rows


def audit_reference(
    audited: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    gamma: float | None = None,
    n_blocks: int | None = None,
    confidence: float = 0.95,
    X_reference: Any = None,
    y_reference: Any = None,
    random_state: Any = None,
    noise_random_state: Any = None,
    n_jobs: int | None = None,
) -> ReferenceAudit:
    """Measure, privately, how often real pairs exceed the level that is claimed.

    The risk of a certificate is over pairs of a reference. Here private records are cut
    into blocks, each of which is one real pair, and the number of those that exceed the
    level is released with noise. What is audited is calibrated anew, for databases as
    small as the blocks; a penalty that is weighed against a sum over records, as that
    of `Ridge`, is scaled down with their number, where the size of the release is
    known.

    .. important::
       The records `X` must be used for nothing else: neither to fit the model, nor for
       the reference, nor for another audit whose result changes this one. That cannot
       be checked, except that they must not be records of the reference: it is on the
       caller's word, as the audit says.

    Parameters
    ----------
    audited : SensitivitySampler or private estimator
        Fitted or not, with sampled pairs of "replace-one" neighbors. If it is fitted,
        the audit is also put on its `certificate_`, as it is about the same reference.

    X : array-like of shape (n_rows, n_features)
        Private records, independent draws of the population of the release, one row a
        person. The types of the columns of a data frame count as public.

    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Their targets or labels.

    epsilon : float
        Privacy level of the audit, finite, >= 2**-20. Unitless.

    gamma : float, default=None
        Risk that the verdict is about, in (0, 1), at least the one that was asked for,
        which is the default. With a reference that is just right the true risk is close
        to the latter, and an audit of it inconclusive: ask if it is at most twice as
        much, or ask for half as much in the fit.

    n_blocks : int, default=None
        Blocks T. None: :func:`required_blocks` for the audited risk, or as many as
        there are records for, where blocks are then larger than the databases of the
        release. Each block has ``n_rows // n_blocks`` records, one more than a database
        and at most one more than a database of the release; and more than 20, unless
        the release has fewer.

    confidence : float, default=0.95
        Confidence of each of the two limits, in [0.5, 1).

    X_reference, y_reference : array-like, default=None
        The public records, for what has no reference of its own. A fitted model or
        sampler has dropped them: give the same again.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the cutting of blocks, and the sampling of pairs from the reference where
        that has no seed of its own: nothing that must be secret.

    noise_random_state : int, RandomState, Generator or None, default=None
        None: the noise comes from the operating system's cryptographic source. Anything
        else is for tests, and warns: the audit is then not private, and says so.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it.

    Raises
    ------
    ValueError
        If a parameter is out of range, there are too few records, they are not finite
        numbers or share records with the reference, there is no reference, the relation
        is "add-remove", the sensitivity is known, or an `advantage` is asked for.

    CalibrationError
        If the noise cannot be calibrated for databases of that size.

    IncompatibleError
        If it has been audited already, as the better of two audits would be no audit;
        if the reference, or what is asked for, is not that of the fit; if its pairs
        came from private data; or if `X` has other columns.

    BudgetExceededError
        If a ledger is open and refuses.

    Warns
    -----
    PrivacyLeakWarning
        If the noise is seeded.

    ReferenceWarning
        As a fit to as many public records does.

    Notes
    -----
    **Guarantee** (:ref:`thm-audit`). The audit is epsilon-differentially private for
    replaced records. Each limit of the true risk, at databases as large as the blocks,
    holds with probability `confidence` at least, so that "supported" or "contradicted"
    is wrong with probability 1 - `confidence` at most. The caller must ensure that
    records are independent, and like those of the release. That the risk at the size of
    the release is the same is evidence, not proof.

    Records of the audit and of the release are disjoint, so that both together cost the
    larger of their levels, and not the sum: see
    :func:`~skparisk.core.compose_parallel`. An open ledger does not know that
    they are disjoint, and adds up; :ref:`thm-audit` says what to do. To audit again
    after a look at the result is another release.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import SensitivitySampler, audit_reference
    >>> from skparisk.reference import CallableReference
    >>> rng = np.random.default_rng(0)
    >>> population = CallableReference(lambda n, rng: rng.normal(size=(n, 1)))
    >>> sampler = SensitivitySampler(np.mean, gamma=0.2, reference=population)
    >>> audit = audit_reference(sampler, rng.normal(size=(6000, 1)), epsilon=2.0)
    >>> audit.n_records, audit.lower <= audit.upper
    (135, True)
    """
    noise = CountNoise.at(epsilon)
    check_confidence(confidence)
    check_n_jobs(n_jobs)
    noise_source(noise_random_state)
    public, cuts = seed_sequence(random_state).spawn(2)
    what = Audited.of(audited, X_reference, y_reference)
    judged = what.gamma if gamma is None else check_probability(gamma, "gamma")
    if judged < what.gamma:
        raise ValueError(
            f"gamma must be at least {what.gamma!r}, the risk that was asked for, got "
            f"{gamma!r}: noise for it does not aim at less."
        )
    seeded = noise_random_state is not None
    cost = cost_of_audit(float(epsilon), seeded)
    check_room(cost)
    form = what.reference.form
    if form is not None:
        X = form.read_features(X)
    records = hide_values(as_records, X, "X")
    n_blocks, n_records = choose_blocks(
        n_rows(records),
        n_blocks,
        n_release=what.n_records,
        needed=lambda: required_blocks(
            judged,
            epsilon=epsilon,
            confidence=confidence,
            risk=what.gamma if what.gamma <= LARGEST_SHARE * judged else None,
        ),
    )
    calibrated = what.calibrate(n_records, n_jobs, public)
    database = calibrated.check_private(X, y)
    warn_if_seeded(noise_random_state)
    blocks = cut_blocks(database, n_blocks, n_records + 1, cuts)

    @forgetting
    def count() -> int:
        noisy: int = draw(
            noise,
            count_exceeding(BlockJudge.of(calibrated.sampler), blocks, n_jobs),
            [cost],
            OPEN,
            note=f"audit of a reference in {n_blocks} blocks",
            noise_random_state=noise_random_state,
        )
        return noisy

    noisy_count = count()
    limits = risk_limits(noisy_count, n_blocks, noise=noise, confidence=confidence)
    audit = ReferenceAudit(
        n_records,
        n_blocks,
        noisy_count,
        float(epsilon),
        judged,
        confidence,
        limits.lower,
        limits.upper,
        seeded,
        audited=calibrated.certificate,
        release_records=what.n_records,
    )
    _keep(audited, audit)
    gamma = calibrated.certificate.require_evidence().gamma
    supported = not audit.seeded and audit.upper <= gamma
    if supported and isinstance(what.reference, SchemaReference):
        what.reference._audited = True
    return audit


def _keep(audited: Any, audit: ReferenceAudit) -> None:
    """Put an audit on the certificate of what is fitted."""
    sampler = audited
    if isinstance(audited, PrivateMixin) and hasattr(audited, "certificate_"):
        audited.certificate_ = with_audit(audited.certificate_, audit)
        sampler = audited.sampler_
    if hasattr(sampler, "claim_"):
        claim = sampler.claim_
        sampler.claim_ = claim.stating(with_audit(claim.certificate, audit))


def with_audit(certificate: Certificate, audit: ReferenceAudit) -> Certificate:
    """Return a certificate with what an audit of its reference measured."""
    return core.claim_with_audit(certificate, audit.measured)
