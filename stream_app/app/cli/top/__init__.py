"""Shows tables live in a terminal: the screen, and the keys that change it."""
