"""The page of a running job, served by the job's own process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stream_app.app.config.app_config import AppConfig
from stream_app.app.launch.optional_packages import serving_module
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.web.actions import token_of
from stream_app.app.web.job_site import JobSite
from stream_app.clock import Clock
from stream_app.spark.job_folder import Folder

_LOG = logging.getLogger("stream_app")


@contextmanager
def page_of_job(
    config: AppConfig, checkpoint: Callable[[], Folder], clock: Clock, history: EpochHistory
) -> Iterator[None]:
    """Serve the page within the block, if the configuration has a port.

    Args:
        checkpoint: opens the job's; asked only for a page.

    Raises:
        UsageError: the port is taken, the token too short, or a package is missing.
    """
    if config.stream.web_port is None:
        yield
        return
    token, host, port = token_of(os.environ), config.stream.web_host, config.stream.web_port
    names = config.stream.web_names
    site = JobSite(config, checkpoint(), clock, history)
    with serving_module().serving(site, host, port, token, names=names) as address:
        _LOG.info("the page of the job: %s", address)
        yield
