"""Command-line arguments that several verbs share."""
