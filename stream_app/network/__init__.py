"""Requests by HTTP, and connections to databases."""
