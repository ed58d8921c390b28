"""Folds the values of one column in each segment into one value, by aggregate functions."""
