"""A job's files in its checkpoint. Start with `job_state`.

They are the log of epochs, the epochs' borders, the job's state with its held tables, requests to
resume one, and the plan of a first load.
"""
