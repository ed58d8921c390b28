"""Kafka messages → typed row changes, column by column. Start with `message_format` and `images`.

Knows Arrow, JSON and the habits of CDC tools; knows nothing of tables, files or Spark.
"""
