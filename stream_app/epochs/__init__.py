"""Brings epochs into tables, whatever runs the tasks. Start with `rounds.epoch_committer`.

`spark` runs the stages of an epoch in its jobs. `stages.epoch_runner` and `stream.running_stream`
are the ports between both, so no module here imports PySpark.

The values of an epoch, from its messages to its commits:

======================================  ============================  ==============================
stage                                   value                         module
======================================  ============================  ==============================
messages of the source                  `SourceEpoch`                 `rounds.round_commits`
messages of one table                   `TableMessages`               `stages.epoch_plan`
rows of one bucket, for a writing task  `Block`, there `TaskBlock`    `stages.blocks`, `write_task`
all blocks, assigned to writing tasks   `RoutedEpoch`                 `stages.epoch_runner`
the same, with their epoch and plan     `DecodedEpoch`                `rounds.round_commits`
what a writing task returns             `TaskResult`                  `stages.write_task`
what all tasks have written             `EpochOutput`, `TableOutput`  `stages.epoch_runner`
one table's files before their commit   `TableResult`                 `rounds.round_commits`
one table's epoch after its commit      `EpochReport`                 `rounds.table_listener`
======================================  ============================  ==============================
"""
