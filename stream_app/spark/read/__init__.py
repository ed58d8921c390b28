"""The source ``format("stream_app")``. Start with `data_source`."""
