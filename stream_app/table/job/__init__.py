"""One streaming job's hold on one table, on the driver. Start with `stream_commit`."""
