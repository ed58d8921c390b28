"""Rows of changes, made of the images that messages hold. Start with `images`."""
