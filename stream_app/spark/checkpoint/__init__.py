"""A job's files in its checkpoint: the log of epochs, their borders, the job's state with its held
tables, and the plan of a first load. Start with `job_state`.
"""
