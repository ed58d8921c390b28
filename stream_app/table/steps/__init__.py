"""Steps of a table's pipeline: they judge decoded records, before the shuffle."""
