"""Makes rows of changes from the images in messages. Start with `images`."""
