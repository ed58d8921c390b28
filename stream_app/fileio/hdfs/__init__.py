"""Tables on HDFS. Start with `hdfs_file_io`."""
