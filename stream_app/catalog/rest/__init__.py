"""Implements the client of Paimon's REST catalog, whose server publishes snapshots and schemas."""
