"""A first load of a job's tables from their database: its plan, its start and its progress.

Start with `begin_load`. `loaded_tables` splits the tables into parts, `checkpoint.load_plan`
records them, and `spark.jobs.load_epochs` reads them as the job's first epochs, because only
`spark` may use Spark.
"""
