"""Kafka messages → typed row changes, column by column.

Start with `message_format` and `rows.images`. `stream_app.message_format_registry` lists the
formats. It is beside this package, because it also joins the schema registries of `kafka`. This
package uses Arrow, JSON and the conventions of CDC tools, but no tables, files or Spark.
"""
