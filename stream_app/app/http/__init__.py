"""Serves HTTP on the job's ports, with limits on connections and their time."""
