"""Runs ``stream-app ingest`` in Spark's driver, from its arguments to its exit code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from stream_app.app.cli.arguments.configuration import add_ingest_arguments
from stream_app.app.config.app_config import load_config
from stream_app.app.config.secrets import hiding
from stream_app.app.config.shown_job import ShownJob
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.job.ingest_job import ingest
from stream_app.app.launch.optional_packages import serving_module
from stream_app.app.observe.channels.job_log import log_as, log_to_stderr, run_to_exit_code
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.observe.job_observers import job_observers
from stream_app.app.submit.job_settings import JobSettings, job_settings
from stream_app.app.web.actions import token_of
from stream_app.app.web.job_site import JobSite
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.clock import Clock, SystemClock
from stream_app.errors import UsageError

_LOG = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job, and return the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="spark-submit … ingest.py", description="Ingest CDC records into Paimon tables."
    )
    add_ingest_arguments(parser)
    args = parser.parse_args(argv)
    log_to_stderr()
    try:
        config = load_config(args.conf, args.set, os.environ)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    log_as(config.stream.log_format)
    with hiding(config.secrets):
        return run_to_exit_code(lambda: run(job_settings(config, args.events), SystemClock()))


def run(settings: JobSettings, clock: Clock) -> None:
    """Run the job until its source is drained or it is stopped.

    Raises:
        StreamAppError: the setup is wrong, or the job fails while it runs.
    """
    # Bind the ports first: if one is taken, the job ends before it reads or writes anything.
    with ExitStack() as stack:
        job_tables, stream_config = settings.job_tables, settings.stream_config
        session_starter = settings.session_starter
        observers = stack.enter_context(
            job_observers(job_tables, stream_config, settings.secrets, clock, settings.events_file)
        )
        open_checkpoint = partial(session_starter.open_folder, session_starter.checkpoint_location)
        history = observers.events.history
        stack.enter_context(
            serving_job_page(settings.shown_job, stream_config, open_checkpoint, clock, history)
        )
        ingest(job_tables, stream_config, session_starter, observers, clock)


@contextmanager
def serving_job_page(
    shown_job: ShownJob,
    stream_config: StreamConfig,
    open_checkpoint: Callable[[], JobFolder],
    clock: Clock,
    history: EpochHistory,
) -> Iterator[None]:
    """Serve the web page within the block, if the configuration has a port.

    Args:
        open_checkpoint: opens the job's checkpoint; called only if there is a page.

    Raises:
        UsageError: the port is taken, the token too short, or a package is missing.
    """
    if stream_config.web_port is None:
        yield
        return
    token, host, port = token_of(os.environ), stream_config.web_host, stream_config.web_port
    site = JobSite(shown_job, open_checkpoint(), clock, history)
    with serving_module().serving_pages(
        site, host, port, token, names=stream_config.web_names
    ) as address:
        _LOG.info("the page of the job: %s", address)
        yield
