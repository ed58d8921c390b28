"""The programs that `spark-submit` starts: they wire job, page and log.

`ingest.py` and `compact.py` are the scripts, whose paths users write. Each runs the `main` of the
module beside it, such as `ingest_main`. A script imports this module only after it handles signals,
so the two are not one.
"""
