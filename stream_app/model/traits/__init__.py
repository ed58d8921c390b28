"""The traits of kinds of tables, merge engines and changelog producers, as constants."""
