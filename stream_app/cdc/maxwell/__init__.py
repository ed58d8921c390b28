"""Messages of Maxwell's daemon. Start with `maxwell_json`."""
