"""Encodes manifests as Avro files. Start with `manifest_avro`."""
