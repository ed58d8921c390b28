"""Reads planned ranges of Kafka's offsets as Arrow. Start with `range_reader` and `client_options`.

Knows librdkafka and Java's names of its settings; knows nothing of tables, formats or Spark.
"""
