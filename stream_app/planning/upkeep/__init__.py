"""Decides which versions and files may be deleted, and which tags are due. Start with
`expire_range`.
"""
