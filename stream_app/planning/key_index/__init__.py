"""Decides the rules of the key index, which finds a key's row in any partition."""
