"""How the JVM of a job is started: jars, command line, log. Start with `spark_submit`."""
