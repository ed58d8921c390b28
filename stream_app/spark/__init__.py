"""Runs the job's tasks, streams and session in Spark. Only this package and `app` import PySpark.

Start with `stream.topic_stream` and `jobs.share_epochs`.
"""
