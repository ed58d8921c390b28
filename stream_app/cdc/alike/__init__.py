"""Records of JSON that look alike, for every format. Start with `decoder`."""
