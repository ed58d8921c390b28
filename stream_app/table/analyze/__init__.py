"""Computes and records facts about a table's rows: column statistics, the checksum and the proof.

Start with `analysis`.
"""
