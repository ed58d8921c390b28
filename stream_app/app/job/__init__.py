"""The jobs in Spark's driver: ingest and compact. Start with `ingest_job`."""
