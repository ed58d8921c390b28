"""The listings of `stream-app inspect`, a module for each."""
