"""What statements of the source rename: read from their text, and remembered."""
