"""The objects of the Python interface: a table with its verbs."""
