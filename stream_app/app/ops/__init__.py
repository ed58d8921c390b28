"""Operations by which an operator examines and repairs a job and its tables.

The folders compare tables with their source, examine a job before its start, replay quarantined
records, and add changes that a table lacks. The modules resume held tables, tag a version, read the
tables that a checkpoint records, and write the configuration of `init`.
"""
