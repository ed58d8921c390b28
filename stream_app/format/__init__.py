"""Bytes to model and back; gets bytes or streams, never a path. Start with `binary_row`."""
