"""Paimon's REST catalog: a server that publishes the snapshots and schemas of its tables."""
