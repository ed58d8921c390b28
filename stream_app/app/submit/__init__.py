"""The programs that `spark-submit` starts: they wire job, page and log. Each has a file."""
