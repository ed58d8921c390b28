"""Reads facts about the source of a job: its topics, their ends, their messages."""
