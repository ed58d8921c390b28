"""Runs the job's tasks, streams and session in Spark. Only this package and `app` import PySpark.

Start with `ingest.epoch_committer`.
"""
