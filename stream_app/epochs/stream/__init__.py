"""Decides when epochs begin and end, and what happens between. Start with `running_stream`."""
