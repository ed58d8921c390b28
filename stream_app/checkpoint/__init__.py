"""A job's files in its checkpoint. Start with `job_state`.

The log has its epochs and their borders. The job's state has its held tables, and requests to
resume one are beside it. The last file is the plan of a first load.
"""
