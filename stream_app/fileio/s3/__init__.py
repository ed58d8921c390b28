"""Tables on S3. Start with `s3_file_io`."""
