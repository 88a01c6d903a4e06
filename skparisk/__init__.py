"""Private scikit-learn estimators, with noise calibrated by sensitivity sampling."""
