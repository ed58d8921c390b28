"""A whole database at one transaction of its source."""
