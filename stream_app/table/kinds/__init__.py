"""Joins for each kind of table its writers and its compactions. Start with `kind_parts`."""
