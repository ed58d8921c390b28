"""Tasks, streams and sessions of Spark; of the other packages only `app` imports PySpark.

Start with `ingest.epoch_committer`.
"""
