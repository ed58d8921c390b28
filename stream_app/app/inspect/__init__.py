"""Facts about tables and jobs, for `stream-app inspect`, `status`, the page and the metrics."""
