"""The configuration of a job: keys, values, secrets. Start with `app_config`."""
