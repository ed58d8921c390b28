"""Plans a first load: which tables a database can provide exactly, and in which parts."""
