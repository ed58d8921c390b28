"""Reads planned ranges of Kafka's offsets as Arrow. Start with `range_reader` and `client_options`.

Knows librdkafka, Java's names of its settings, and the registry of schemas; knows nothing of tables
or Spark, and no format.
"""
