"""The driver's process: its session, its JVM with the files of Hadoop, and its signals."""
