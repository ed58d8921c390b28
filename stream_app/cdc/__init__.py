"""Kafka messages → typed row changes, column by column. Start with `message_format` and `images`.

It uses Arrow, JSON and the conventions of CDC tools, but no tables, files or Spark.
"""
