"""Joins the writers and the compactions of each kind of table. Start with `table_kind`."""
