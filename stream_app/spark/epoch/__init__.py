"""What the tasks of one epoch do, and the Spark jobs that run them. Start with `epoch_runner`."""
