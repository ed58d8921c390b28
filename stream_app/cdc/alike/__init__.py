"""Decodes JSON records of the same shape together, for every format. Start with `decoder`."""
