"""The drawings of a page: charts and trees as places and lengths, without HTML."""
