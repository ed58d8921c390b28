"""The quarantine: records that a job could not decode, in files of their own."""
