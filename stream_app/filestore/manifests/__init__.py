"""Reads and writes manifests, manifest lists and index files: deletion vectors, hashes of keys."""
