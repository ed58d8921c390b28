"""Reads messages from their source, and cuts them into epochs. Start with `topic_stream`."""
