"""Reads messages of Protobuf, many together. Start with `protobuf_cursor`."""
