"""Formats values as text for people: lists, tables, ages, counts."""
