"""The tasks of one epoch, and the Spark jobs that run them. Start with `epoch_runner`."""
