"""Statements of the source: the messages that carry them, and a parser of their text."""
