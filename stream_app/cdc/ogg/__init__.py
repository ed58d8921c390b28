"""Messages of Oracle GoldenGate. Start with `ogg_json`."""
