"""The programs that `spark-submit` starts: they wire job, page and log.

`ingest.py` and `compact.py` are the scripts. Each runs the `main` of its program.
"""
