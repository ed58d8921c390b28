"""Starts the JVM of a job: jars, command line, log. Start with `spark_submit`."""
