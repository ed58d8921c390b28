"""Aggregate functions: the values of one column in many segments → one value for each segment."""
