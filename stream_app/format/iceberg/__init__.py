"""Encodes Iceberg's metadata: manifests, manifest lists and table metadata."""
