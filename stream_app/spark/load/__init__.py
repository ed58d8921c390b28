"""A first load: rows of a database as the first epochs of a job."""
