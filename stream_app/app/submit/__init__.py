"""The programs that `spark-submit` starts: they wire job, page and log. A file a program."""
