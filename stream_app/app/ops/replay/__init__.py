"""Replays records of the quarantine into their tables."""
