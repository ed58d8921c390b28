"""Runs epochs and compactions as Spark jobs, and forks their workers. Start with `share_epochs`."""
