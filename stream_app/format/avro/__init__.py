"""Manifests as Avro files. Start with `manifest_avro`."""
