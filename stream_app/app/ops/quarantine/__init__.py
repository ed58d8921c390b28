"""Records in the quarantine: what is there, and what becomes of it."""
