"""Runs ``stream-app compact`` in Spark's driver, from its arguments to its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from stream_app.app.cli.arguments.compaction import add_compact_arguments, compaction_settings
from stream_app.app.cli.arguments.configuration import load_config_argument
from stream_app.app.config.secrets import Secrets, hiding
from stream_app.app.config.settings import environment_secrets
from stream_app.app.job.compact_job import compact
from stream_app.app.observe.channels.job_log import log_as, log_to_stderr, run_to_exit_code
from stream_app.errors import UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job, and return the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="spark-submit … compact.py", description="Compact a Paimon table."
    )
    add_compact_arguments(parser)
    args = parser.parse_args(argv)
    log_to_stderr()
    try:
        config = load_config_argument(args.conf)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if config is not None:
        log_as(config.stream.log_format)
    secrets = Secrets(environment_secrets(os.environ)) if config is None else config.secrets
    with hiding(secrets):
        return run_to_exit_code(lambda: compact(compaction_settings(args, config), secrets))
