"""Records in the quarantine: listing, replay, removal."""
