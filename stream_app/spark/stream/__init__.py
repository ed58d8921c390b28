"""Where messages come from, and how they are cut into epochs. Start with `running_stream`."""
