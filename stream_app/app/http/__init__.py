"""Shared by the job's ports: limits of connections and of their time."""
