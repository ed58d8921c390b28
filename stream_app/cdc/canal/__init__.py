"""Messages of Alibaba's Canal. Start with `canal_json`."""
