"""Manifests, manifest lists and the index of deletion vectors."""
