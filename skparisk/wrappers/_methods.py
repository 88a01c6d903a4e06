"""The methods of a private estimator: those that the wrapped one has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skparisk._private_data import validate_private_records
from skparisk.core.release import hide_values
from skparisk.core.sealed import container_of, is_frame, is_pandas
from skparisk.reference._records import Schema, as_records

# What `release` may be besides names of attributes, and what is then served.
_PREDICTIONS = {
    "predict": ("predict", "score"),
    "predict_proba": ("predict", "predict_proba", "predict_log_proba", "score"),
}


def releases_predictions(model: Any) -> bool:
    """Tell if a private estimator releases predictions, and no attributes."""
    return isinstance(model.release, str) and model.release in _PREDICTIONS


def _offers(*methods: str) -> Callable[[Any], bool]:
    """Tell if all these methods can be served: the estimator has them."""

    def check(model: Any) -> bool:
        if releases_predictions(model):
            return set(methods) <= set(_PREDICTIONS[model.release])
        template = getattr(model, "template_", None)
        for method in methods:
            if template is not None and method in template.needs:
                raise AttributeError(template.say_needs(method))
        # Some tell only once they are fitted.
        served = getattr(model, "estimator_", model.estimator)
        return all(hasattr(served, method) for method in methods)

    return check


def _answers(method: str, *needs: str) -> Callable[[Callable[..., Any]], Any]:
    """Name and document a method, which is there if the wrapped estimator has it."""

    def named(answer: Callable[..., Any]) -> Any:
        answer.__name__, answer.__qualname__ = method, f"ServedMethods.{method}"
        when = ", which is fitted first" if needs else ""
        answer.__doc__ = f"""Return `{method}` of the released estimator{when}.

        Parameters and answer are those of the wrapped estimator.
        """
        return available_if(_offers(method, *needs))(answer)

    return named


def _about_records(method: str) -> Any:
    def answer(self: ServedMethods, X: Any) -> Any:
        return self._ask_about(X, method)

    return _answers(method)(answer)


def _fits_and(method: str) -> Any:
    def answer(self: ServedMethods, X: Any, y: Any = None, **given: Any) -> Any:
        return getattr(self.fit(X, y, **given), method)(X)

    return _answers(f"fit_{method}", method)(answer)


class ServedMethods:
    """Answer from what was released, as the wrapped estimator would."""

    estimator: Any
    estimator_: Any
    schema_: Schema
    release: Any
    fit: Callable[..., Self]

    def _ask_about(self, X: Any, method: str, *arguments: Any) -> Any:
        """Ask about records, in the form of those that were fitted."""
        check_is_fitted(self, "estimator_")
        records = validate_private_records(self, X, allow_nan=True, reset=False)
        if self.schema_.container == "array" and is_frame(records):
            records = as_records(records.to_numpy(), "X")
        # Within `fit`, which scores public records, there is none yet.
        form = getattr(getattr(self, "sampler_", None), "_form", None)
        if form is not None and form.container == container_of(records):
            # As in `fit`: one text in a column must not decide what the others are.
            read = form.read_features(records)
            if is_pandas(read):
                read.index = records.index
            records = read
        return hide_values(self._ask, method, records, *arguments)

    def _ask(self, method: str, *arguments: Any) -> Any:
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, method)(*arguments)

    predict = _about_records("predict")
    predict_proba = _about_records("predict_proba")
    predict_log_proba = _about_records("predict_log_proba")
    decision_function = _about_records("decision_function")
    transform = _about_records("transform")
    score_samples = _about_records("score_samples")
    fit_transform = _fits_and("transform")
    fit_predict = _fits_and("predict")

    @_answers("inverse_transform")
    def inverse_transform(self, X: Any) -> Any:
        return self._ask("inverse_transform", X)

    @_answers("score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        weights = () if sample_weight is None else (sample_weight,)
        return self._ask_about(X, "score", y, *weights)

    @_answers("sample")
    def sample(self, n_samples: int = 1) -> Any:
        return self._ask("sample", n_samples)

    @_answers("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        return self._ask("get_feature_names_out", input_features)

    @_answers("set_output")
    def set_output(self, *, transform: str | None = None) -> Self:
        self.estimator.set_output(transform=transform)
        if hasattr(self, "estimator_"):
            self.estimator_.set_output(transform=transform)
        return self
