"""The transactions of Debezium's messages, and their places in the source's log."""
