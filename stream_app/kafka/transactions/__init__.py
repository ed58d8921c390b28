"""Where epochs end between the transactions of the source; `window_cut` is the place to start."""
