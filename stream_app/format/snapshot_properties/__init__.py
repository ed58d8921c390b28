"""Encodes and decodes what stream_app records in the properties of snapshots."""
