"""The pages of a job that needs neither Spark nor a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_app.app.config.shown_job import shown_job
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.web.job_site import JobSite
from stream_app.app.web.serving import serving_pages
from stream_app.model.job_epoch import Offsets
from tests.support.jobs.database_job import DatabaseJob
from tests.support.pages.web_server import PATIENCE_S, Warehouse

TOKEN = "0123456789abcdef"


@contextmanager
def page_of(
    job: DatabaseJob, history: EpochHistory | None = None, unread: int = 0
) -> Iterator[Warehouse]:
    """Yield the job's pages; `unread` messages are in the topic that the job has not seen."""

    def ends(_: object) -> Offsets:
        return {"all": {"0": len(job.sent) + unread}}

    site = JobSite(
        shown_job(job.config),
        job.checkpoint,
        job.clock,
        history,
        ask_ends=ends,
        read_range=job.read,
    )
    with serving_pages(site, "127.0.0.1", 0, TOKEN, PATIENCE_S) as address:
        yield Warehouse(Path(job.sync.warehouse), address)


def block_table(job: DatabaseJob, name: str) -> Path:
    """Create a file in the way of a table, so that no job can create it."""
    in_the_way = Path(job.sync.path(name)) / "schema"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.symlink_to(in_the_way)
    return in_the_way
