"""Manifests, manifest lists and the indexes: deletion vectors, hashes of keys."""
