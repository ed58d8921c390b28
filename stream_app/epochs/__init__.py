"""Brings epochs into tables, whatever runs the tasks. Start with `rounds.epoch_committer`.

`spark` runs the stages of an epoch in its jobs. `stages.epoch_runner` and `stream.running_stream`
are the ports between both, so no module here imports PySpark.
"""
