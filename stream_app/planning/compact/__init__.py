"""Decides from sizes and counts: compactions of append tables, the policy, and the cores."""
