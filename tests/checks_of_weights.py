"""The checks of scikit-learn that give weights of private rows alone."""

_REFUSED = "sample_weight_reference must be given as well: nothing else bounds weights"
WEIGHTS = {
    f"check_{name}": _REFUSED
    for name in (
        "all_zero_sample_weights_error",
        "classifiers_one_label_sample_weights",
        "sample_weight_equivalence_on_dense_data",
        "sample_weight_equivalence_on_sparse_data",
        "sample_weights_list",
        "sample_weights_not_an_array",
        "sample_weights_not_overwritten",
        "sample_weights_pandas_series",
        "sample_weights_shape",
    )
}
