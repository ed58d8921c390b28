"""``stream-app doctor``: checks a job's requirements before it runs."""

from __future__ import annotations

import argparse
import os

from stream_app.app.cli.arguments.configuration import add_configuration
from stream_app.app.config.app_config import load_config
from stream_app.app.ops.doctor.examination import Examination
from stream_app.app.ops.doctor.observation import Severity
from stream_app.clock import SystemClock
from stream_app.errors import FAILED

DESCRIPTION = "Look at everything that a job needs before it runs, and say what to fix."
EPILOG = """\
It looks at Java, Python's packages, memory and disk; asks the broker for the topics and fetches a
record of each; tries the rights, the clock and the promises of the stores; compares
table and checkpoint with the configuration; and checks that the topics have what the job reads
next, and that the latest snapshot has all its files. It starts no Spark, and makes no table.

examples:
  stream-app doctor --conf conf/orders.toml
  stream-app doctor --conf conf/shop-database.toml --set source.bootstrap-servers=kafka:9092

exit codes: 0 a job can run, perhaps with warnings; 1 there is a problem; 2 the configuration is
wrong"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_configuration(parser)


def run(args: argparse.Namespace) -> int:
    """Print each observation as it is made.

    Raises:
        UsageError: the configuration is wrong.
    """
    config = load_config(args.conf, args.set, os.environ)
    worst_severity = Severity.OK
    examination = Examination(
        config.job_tables, config.stream.quarantine, config.spark, SystemClock()
    )
    for observation in examination.observations():
        for line in observation.lines():
            print(config.secrets.hide(line), flush=True)
        if observation.severity is Severity.PROBLEM:
            worst_severity = Severity.PROBLEM
    return FAILED if worst_severity is Severity.PROBLEM else 0
