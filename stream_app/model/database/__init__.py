"""Describes a whole database at one transaction of its source."""
