"""Plans a first load: what a database can give a job exactly, and in which parts."""
