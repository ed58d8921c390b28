"""Plain rows of JSON. Start with `plain_json`."""
