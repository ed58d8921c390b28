"""The verbs of `stream-app`: a module a verb."""
