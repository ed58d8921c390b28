"""The processes that Spark runs: ingest and compact. Start with `ingest_job`."""
