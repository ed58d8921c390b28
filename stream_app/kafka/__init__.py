"""Reads planned ranges of Kafka's offsets as Arrow. Start with `range_reader` and `client_options`.

It calls librdkafka and schema registries, and translates Java's settings. It does not depend on
tables, Spark or message formats.
"""
