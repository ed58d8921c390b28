"""Bytes of Iceberg's metadata: manifests, manifest lists and table metadata."""
