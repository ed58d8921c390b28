"""Joins the writers and the compactions of each kind of table. Start with `kind_parts`."""
