"""Composition roots: where the parts are chosen and joined. Start with `cli.main`."""
