"""How a scan is cut into splits, and a stream into steps. Start with `split_generator`."""
