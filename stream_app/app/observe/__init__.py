"""Observes a running job: events, metrics, health, channels."""
