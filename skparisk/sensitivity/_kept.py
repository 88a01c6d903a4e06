"""What was sampled once, used again: more pairs, and pairs in a file."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from skparisk._validate import check_at_least, check_verbose
from skparisk.calibration import SampledPairs
from skparisk.calibration._pairs import Drawing
from skparisk.calibration._terms import Terms
from skparisk.certificate._rounding import from_strict, strict
from skparisk.exceptions import IncompatibleError
from skparisk.queries import Query
from skparisk.queries._given import own_query
from skparisk.reference import Reference, TableReference, as_reference
from skparisk.sensitivity._digest import build, digest_or_none, versions
from skparisk.sensitivity._document import (
    FORMAT_VERSION,
    DamagedFileError,
    as_plain,
    as_written,
    from_written,
    pack,
    unpack,
    write_whole,
)
from skparisk.sensitivity._drawing import form_of, known_by, set_largest_move
from skparisk.sensitivity._parallel import sample_pairs
from skparisk.sensitivity._release import ReleaseMixin

_FORMAT = "skparisk.sampler"
_ADDRESS = re.compile(" at 0x[0-9A-Fa-f]+")
# How pairs are drawn, and from what; all else is asked of them, and of noise.
_NOT_SAVED = {"query", "reference", "n_jobs", "random_state", "verbose", "memory"}
_EXTENDED = (
    "Pairs were added to those of an earlier fit: the risk is as stated if their "
    "number was settled without a look at what the earlier ones gave."
)
_SAME_QUERY = (
    "The pairs were read from a file; that they were sampled for the query {}, which "
    "cannot be known again, is the caller's word."
)


class KeptPairsMixin(ReleaseMixin):
    """Methods of a sampler whose pairs are drawn, and are used for more."""

    calibrate: Callable[..., Self]
    _agree: Callable[..., Terms]
    _recalibrate: Callable[[SampledPairs, Terms, dict[str, Any]], None]

    @property
    def _about_pairs(self) -> dict[str, Any]:
        """What a certificate says of where pairs come from."""
        evidence = self._evidence
        return {
            "n_records": evidence.n_records,
            "relation": str(self.certificate_.relation),
            "reference": evidence.reference,
            "for_new_people": evidence.for_new_people,
            # Of the fit that they were sampled in, which may be in units of its data.
            "leaks": self.certificate_.leaks,
        }

    def extend(self, n_pairs: int, X: Any = None, y: Any = None) -> Self:
        """Return a sampler with more pairs, that begin with those of this one.

        They are the pairs that a fit with as many would have drawn, bit by bit; of the
        block that is not whole, up to 128 databases at the end, all are drawn anew.

        Parameters
        ----------
        n_pairs : int
            All pairs that there will be, more than `n_pairs_`.

        X, y : array-like, default=None
            The reference that was given to `fit`, which is not kept; None where
            `reference` is set.

        Returns
        -------
        sampler : SensitivitySampler
            Fitted; this one stays as it is. Its pairs are not written to `memory`.

        Raises
        ------
        ValueError
            If there are not more pairs, the reference is missing, has too few rows for
            those that use each once, or draws the records of all pairs together, as a
            :class:`~skparisk.SchemaReference` does.

        IncompatibleError
            If the pairs came from private data; or the reference is another one, is one
            that is not known again, such as a function of one's own, or was used by
            other versions.

        Notes
        -----
        **Guarantee** (:ref:`thm-extended`). That of all pairs, for a number of them
        that was settled without a look at what the earlier ones gave; the certificate
        says so. Whoever chooses among k samplers by what they give, as by their noise,
        has at most k times the risk, and k times the `failure_prob`.

        Examples
        --------
        >>> import numpy as np
        >>> from skparisk import SensitivitySampler
        >>> public = np.random.default_rng(0).exponential(size=(500, 1))
        >>> sampler = SensitivitySampler(np.mean, n_pairs=100, random_state=0)
        >>> more = sampler.fit(public).extend(300, public)
        >>> at_once = sampler.set_params(n_pairs=300).fit(public)
        >>> bool((more.differences_ == at_once.differences_).all())
        True
        """
        pairs = self._kept_pairs()
        drawing, schema = pairs.drawing, pairs.schema
        assert drawing is not None
        assert schema is not None
        check_at_least(n_pairs, "n_pairs", len(pairs) + 1)
        reference = self._reference_again(X, y, drawing)
        other: Self = copy.copy(self).set_params(n_pairs=n_pairs)
        terms, about = other._agree(n_pairs, pairs.n_neighbors), self._about_pairs
        more = sample_pairs(
            self.query_,
            reference,
            n_pairs=n_pairs,
            n_records=about["n_records"],
            schema=schema,
            form=form_of(self.query_, schema),
            relation=about["relation"],
            n_jobs=self.n_jobs,
            entropy=drawing.entropy,
            verbose=check_verbose(self.verbose),
            n_neighbors=pairs.n_neighbors,
            known=pairs,
        )
        assert more.drawing is not None
        joined = replace(
            pairs,
            differences=more.differences,
            errors=more.errors,
            rounding=more.rounding,
            failure=more.failure,
            drawing=replace(
                more.drawing, reference=drawing.reference, kept=drawing.kept
            ),
            provisos=tuple(dict.fromkeys((*pairs.provisos, _EXTENDED))),
        )
        joined.relatives.add(pairs)
        pairs.relatives.add(joined)
        other._recalibrate(joined, terms, about)
        return other

    def _reference_again(self, X: Any, y: Any, drawing: Drawing) -> Reference:
        """Return the reference that pairs were drawn from, known to be the same."""
        if self.reference is not None and X is not None:
            raise ValueError(
                "X must be None where the sampler has a reference, from which more "
                "pairs are drawn."
            )
        if self.reference is None and X is None:
            raise ValueError(
                "X must be given again, as it was to fit, because the reference that "
                "pairs were drawn from is not kept."
            )
        if X is None:
            reference = as_reference(self.reference)
        else:
            reference = TableReference(
                *self._check_data(self.query_, X, y, reset=False)
            )
        if not reference.draws_in_order:
            raise ValueError(
                f"n_pairs cannot be extended with {reference!r}, which draws the "
                "records of all pairs together: fit with as many pairs as are wanted."
            )
        known = known_by(reference)
        if known is None or known != drawing.reference:
            why = "is another one than" if known else "cannot be known again as"
            raise IncompatibleError(
                f"The reference {reference!r} {why} the one that the pairs were drawn "
                "from, by the same versions of all packages: fit with as many pairs as "
                "are wanted."
            )
        return reference

    def save(self, path: Any) -> None:
        """Write the sampled pairs, and what they are calibrated for, to a file.

        A plain ``.npz`` of NumPy, with a text of JSON; no pickle. It has differences of
        answers on public records, and hashes of these by which they are known again. An
        audit of the reference is not in it.

        Parameters
        ----------
        path : str or path-like
            What is there is replaced, at once and as a whole.

        Raises
        ------
        ValueError
            If the parameters are not those that the noise was calibrated for, or one of
            `law`, `noise_shape` and `calibration` is an object, and not a name.

        IncompatibleError
            If the pairs came from private data, which are never written; or from a law
            that was learned from private records, which a sampler that was read could
            not know again, to refuse them.

        Notes
        -----
        The file has a digest of what it holds, which tells damage and not who wrote it:
        a release by a sampler from somebody else rests on their word.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from skparisk import SensitivitySampler
        >>> public = np.random.default_rng(0).exponential(size=(500, 1))
        >>> sampler = SensitivitySampler(np.mean, n_pairs=100).fit(public)
        >>> path = Path(tempfile.mkdtemp()) / "mean.npz"
        >>> sampler.save(path)
        >>> again = SensitivitySampler.load(path, query=np.mean)
        >>> again.certificate_ == sampler.certificate_
        True
        """
        pairs = self._kept_pairs()
        if pairs.learning is not None:
            raise IncompatibleError(
                "Pairs of a law that was learned from private records are not saved: a "
                "sampler that is read from a file would not know these records again. "
                "Keep the LearnedSplit, and fit again."
            )
        document, arrays = as_written(pairs)
        document |= {
            "parameters": self._saved(),
            "about": self._about_pairs,
            "query": _written_query(self.query_),
            "versions": _own_versions(),
            "n_features_in_": self.n_features_in_,
            "feature_names_in_": [*getattr(self, "feature_names_in_", ())],
        }
        # What an estimator, or an audit, has added is not about the parameters.
        again = self.calibrate().certificate_
        evidence = replace(again.require_evidence(), audit=self._evidence.audit)
        again = replace(again, evidence=evidence)
        if again.amended(provisos=self.certificate_.provisos) != self.certificate_:
            raise ValueError(
                "The parameters must be those that the noise was calibrated for: they "
                "were set afterwards. Save what calibrate() returns."
            )
        write_whole(Path(path), pack(_FORMAT, FORMAT_VERSION, document, arrays))

    def _saved(self) -> dict[str, Any]:
        own = self.get_params(deep=False)
        saved = own.keys() - _NOT_SAVED
        return {name: strict(as_plain(own[name], name)) for name in saved}

    @classmethod
    def load(cls, path: Any, query: Any = None) -> Self:
        """Return a fitted sampler of a file that `save` wrote.

        Parameters
        ----------
        path : str or path-like
            The file. Nothing in it is run.

        query : callable, Query or None, default=None
            What the pairs were sampled for, as it was given to the sampler or as its
            `query_`. It is compared with what the file says; of a function of one's own
            that is its name alone, and the certificate says that it is your word.

        Returns
        -------
        sampler : SensitivitySampler
            Calibrated anew, to the same noise. Its `reference`, `random_state`,
            `n_jobs` and `memory` are None.

        Raises
        ------
        ValueError
            If the file is truncated or altered, is no file of a sampler, or has another
            version of the format.

        IncompatibleError
            If the pairs were sampled for another query, or by other versions of
            skparisk, NumPy, SciPy, scikit-learn or Python, with which the query may
            answer differently.

        Examples
        --------
        See `save`.
        """
        path = Path(path)
        try:
            document, arrays = unpack(path.read_bytes(), _FORMAT, FORMAT_VERSION)
            pairs = from_written(document, arrays)
        except DamagedFileError as error:
            raise ValueError(f"The file {path} {error}.") from error
        _check_versions(path, document["versions"])
        asked = own_query(query)
        if not _check_query(path, asked, document["query"]):
            said = _SAME_QUERY.format(asked)
            pairs.provisos = tuple(dict.fromkeys((*pairs.provisos, said)))
        sampler = cls(query, **from_strict(document["parameters"]))
        sampler.query_, sampler.n_features_in_ = asked, document["n_features_in_"]
        if names := document["feature_names_in_"]:
            sampler.feature_names_in_ = np.array(names, dtype=object)
        about = document["about"]
        sizes = about["n_records"], about["relation"]
        set_largest_move(pairs, asked, sampler.n_features_in_, *sizes)
        terms = sampler._agree(len(pairs), pairs.n_neighbors)
        sampler._recalibrate(pairs, terms, about)
        return sampler


def _own_versions() -> dict[str, str]:
    return {**versions(), "build": build()}


def _written_query(query: Query) -> dict[str, str | None]:
    """Return what a query is known by: None if that is its name alone."""
    kind = type(query)
    return {
        "known_by": digest_or_none(query),
        "name": _ADDRESS.sub("", str(query)),  # which a copy has another of
        "kind": f"{kind.__module__}.{kind.__qualname__}",
    }


def _check_versions(path: Path, written: dict[str, str]) -> None:
    """Refuse pairs of versions whose queries may answer differently."""
    own = _own_versions()
    other = [f"{n} {written[n]} (here {own[n]})" for n in own if own[n] != written[n]]
    if other:
        raise IncompatibleError(
            f"The file {path} was written with {', '.join(other)}: the query may "
            "answer differently now, so that its pairs would say nothing. Read it with "
            "the same versions, or sample again."
        )


def _check_query(path: Path, query: Query, written: dict[str, str | None]) -> bool:
    """Refuse another query than was sampled; tell if it is known to be the same."""
    own = _written_query(query)
    if own != written:
        raise IncompatibleError(
            f"The file {path} has pairs of the query {written['name']}, and not of "
            f"{query}, as that is here: give the query that was sampled, or sample "
            "again."
        )
    return own["known_by"] is not None
