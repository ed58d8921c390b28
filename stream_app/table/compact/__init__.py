"""Decides which buckets are compacted, and when; takes the results. Start with
`coordinator`.
"""
