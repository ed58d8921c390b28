"""Tasks, streams and sessions of Spark. Beside it only `app` imports PySpark, to join the parts.

Start with `ingest.epoch_committer`.
"""
