"""The listings of `stream-app inspect`, with one module for each."""
