"""The quarantine: records that a job could not store, in files of their own."""
