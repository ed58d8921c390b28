"""Runs ``stream-app demo``: a broker, a shop and the real job, in less than a minute.

The shop changes three tables, and the job brings them into Paimon tables. In the middle the demo
kills the job and alters two of the shop's tables. At the end a proof shows that each table equals
its source.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from random import Random

from kafka.admin import KafkaAdminClient, NewTopic
from rich.console import Console
from rich.live import Live
from rich.text import Text

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.clock import SystemClock
from stream_app.demo.demo_catalog import DemoCatalog
from stream_app.demo.demo_folder import DemoFolder, short_path
from stream_app.demo.demo_job import DemoJob, ShopProducer
from stream_app.demo.progress_panel import (
    DemoState,
    TableProgress,
    are_equal,
    live_panel,
    next_steps,
    program,
    proof_panel,
)
from stream_app.demo.proof import iceberg_side, source_side, table_side
from stream_app.demo.shop import ALTERS, TABLES, Shop
from stream_app.demo.story import story
from stream_app.errors import StreamAppError, UsageError
from stream_app.table.opening import open_file_store_table
from stream_app.table.read.split_read import SplitRead
from stream_app.version import install_command

CONF = Path(__file__).with_name("shop.toml")
RECORD_COUNT = 60_000
RECORD_COUNT_MIN = 100
"""The smallest number of records with which each table has rows when half of them are sent."""
SHOP_S = 20
"""The seconds in which the shop sends its changes."""
TOPIC_PARTITION_COUNT = 2
SEED = 20
_PROGRESS_WAIT_MAX_S = 300
_REFRESH_S = 0.25
_LINE_INTERVAL_S = 8.0
_QUIET_S = 2.5
"""The seconds without a commit after which the compactions have ended."""


DESCRIPTION = """\
Start a Kafka broker, let a shop change customers, orders and their items, and run the real job,
shop.toml, which makes Paimon tables of them in DIR/warehouse/demo.db and compacts them meanwhile.
In the middle the demo kills the job (SIGKILL) and starts it again, and the shop alters two tables.
At the end the demo compares each table with the shop. It takes less than a minute."""
EPILOG = "examples:\n  stream-app demo\n  stream-app demo --records 500000 --dir /tmp/demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "--records",
        type=_records,
        default=RECORD_COUNT,
        metavar="N",
        help=f"messages that the shop sends (default: {RECORD_COUNT})",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="D",
        help="folder for warehouse/ and demo-work/ (default: the current one)",
    )
    parser.add_argument(
        "--catalog",
        action="store_true",
        help="make the tables in a catalog and publish commits to Iceberg; the proof then shows "
        "what PyIceberg reads",
    )


def _records(text: str) -> int:
    record_count = int(text)
    if record_count < RECORD_COUNT_MIN:
        raise argparse.ArgumentTypeError(f"must be at least {RECORD_COUNT_MIN}")
    return record_count


def run(args: argparse.Namespace, console: Console | None = None) -> int:
    """Run the demo; return 1 if a table does not equal its source.

    Raises:
        UsageError: the folder holds tables that the demo did not make.
    """
    if args.dir.exists() and not args.dir.is_dir():
        raise UsageError(f"--dir {args.dir} is not a folder", fix="give a folder, or none")
    if _is_not_utf8(args.dir):
        raise UsageError(f"--dir {args.dir!r} is not UTF-8", fix="give a folder with another name")
    if args.catalog and find_spec("pyiceberg") is None:
        raise UsageError(
            "PyIceberg is not installed, which reads the tables in the proof",
            where="--catalog",
            fix=install_command("iceberg"),
        )
    folder = DemoFolder(args.dir.absolute())
    folder.clear()
    catalog = DemoCatalog(folder) if args.catalog else None
    with ExitStack() as stack:
        demo = _Demo(console or Console(), folder, args.records, catalog, stack)
        code = demo.run()
    folder.write_end()
    return code


def _is_not_utf8(path: Path) -> bool:
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return True
    return False


class _Demo:
    """One run of the demo. `stack` ends all processes and threads that the run starts."""

    def __init__(
        self,
        console: Console,
        folder: DemoFolder,
        record_count: int,
        catalog: DemoCatalog | None,
        stack: ExitStack,
    ) -> None:
        clock = SystemClock()
        self._catalog = catalog
        self._console = console
        self._folder = folder
        self._record_count = record_count
        self._clock = clock
        self._stack = stack
        self._shop = Shop(Random(SEED))
        self._start_s = clock.steady_seconds()
        tables = {name: TableProgress(str(folder.database / name)) for name in TABLES}
        self._state = DemoState(record_count=record_count, tables=tables)

    def run(self) -> int:
        """Run every scene of the demo; return the exit code."""
        self._say("starting a Kafka broker")
        broker = EmbeddedBroker(self._folder.work / "kafka")
        self._stack.callback(broker.stop)
        # An aborted demo kills its processes.
        self._stack.push(lambda error_type, *_: broker.kill() if error_type else None)
        broker.start()
        _create_topics(broker.bootstrap)
        settings = [f"source.bootstrap-servers={broker.bootstrap}"]
        settings += self._catalog.settings() if self._catalog else []
        options = [word for setting in settings for word in ("--set", setting)]
        arguments = ("ingest", "--conf", str(CONF), *options)
        self._job = DemoJob(arguments, self._folder.root, self._folder.work)
        self._stack.callback(self._job.stop)
        self._stack.push(lambda error_type, *_: self._job.abandon() if error_type else None)
        self._producer = ShopProducer(
            shop=self._shop,
            bootstrap=broker.bootstrap,
            count=self._record_count,
            per_second=self._record_count / SHOP_S,
            clock=self._clock,
        )
        self._stack.callback(self._producer.stop)
        self._say("starting the job of all tables; it makes them from the messages:")
        self._say(f"  {program()} ingest --conf {shlex.quote(short_path(CONF))} \\")
        self._say(f"      {shlex.join(options)}")
        self._job.start()
        self._producer.start()
        self._watch(
            "until a third is in the tables",
            lambda: self._state.newest_table.message_count >= self._record_count // 3,
        )
        for alter in ALTERS:
            self._say(f"the shop: {alter};")
        self._producer.alter()
        process_id = self._job.kill()
        self._show()
        self._say(f"SIGKILL to the job (process {process_id}) in the middle of its work")
        self._say("starting it again with the same checkpoint")
        self._job.start()
        self._watch("until the job has begun again", lambda: self._job.is_started)
        self._watch(
            "until everything is in the tables",
            lambda: (
                self._producer.is_done
                and self._state.newest_table.message_count >= self._record_count
            ),
        )
        self._watch("until compaction is done", self._compactions_have_ended())
        self._show()
        self._say("ending the job, as Ctrl-C does")
        self._job.stop()
        return self._finish()

    def _finish(self) -> int:
        """Print the story and the proof; return 1 if a table differs from its source, else 0."""
        tables = {name: open_file_store_table(str(self._folder.database / name)) for name in TABLES}
        for part in story(tables):
            self._console.print()
            self._console.print(part)
        self._console.print()
        sides = {
            name: [
                source_side(source, SplitRead(table).selection.schema),
                table_side(table, source),
            ]
            for (name, table), source in zip(
                tables.items(), self._shop.tables.values(), strict=True
            )
        }
        if self._catalog:
            for name, source in self._shop.tables.items():
                sides[name].append(iceberg_side(tables[name], source))
        elapsed_s = self._clock.steady_seconds() - self._start_s
        self._console.print(proof_panel(sides, elapsed_s=elapsed_s))
        self._console.print(next_steps(self._folder.database.parent), soft_wrap=True)
        if self._catalog:
            self._console.print(Text(f"  {self._catalog.write_file()}"), soft_wrap=True)
        return 0 if all(map(are_equal, sides.values())) else 1

    def _compactions_have_ended(self) -> Callable[[], bool]:
        """Return a condition that is true once no table has had a commit for `_QUIET_S`."""
        snapshot_count = 0
        commit_s = self._clock.steady_seconds()

        def is_quiet() -> bool:
            nonlocal snapshot_count, commit_s
            if self._snapshot_count() != snapshot_count:
                snapshot_count = self._snapshot_count()
                commit_s = self._clock.steady_seconds()
            return self._clock.steady_seconds() - commit_s > _QUIET_S

        return is_quiet

    def _snapshot_count(self) -> int:
        """Return the number of snapshots of all tables."""
        return sum(table.latest_id for table in self._state.tables.values())

    def _watch(self, goal: str, is_reached: Callable[[], bool]) -> None:
        """Show the progress until a goal is reached.

        Raises:
            StreamAppError: nothing has happened for `_PROGRESS_WAIT_MAX_S`.
        """
        progress = (0, 0, 0)
        progress_at_s = self._clock.steady_seconds()
        line_at_s = progress_at_s
        self._state.wait_until(goal)
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while not is_reached():
                self._job.poll()
                self._update()
                live.update(live_panel(self._state))
                now_s = self._clock.steady_seconds()
                previous_progress = progress
                progress = (
                    self._state.sent_count,
                    self._snapshot_count(),
                    self._job.output_byte_count,
                )
                progress_at_s = now_s if progress != previous_progress else progress_at_s
                if not self._console.is_terminal and now_s - line_at_s > _LINE_INTERVAL_S:
                    line_at_s = now_s  # the panel moves only on a terminal
                    count = self._state.newest_table.message_count
                    self._say(f"{goal}: {progress[0]:,} sent, {count:,} in the tables")
                if now_s - progress_at_s > _PROGRESS_WAIT_MAX_S:
                    raise StreamAppError(
                        f"the demo waited {goal}, and nothing happened for "
                        f"{_PROGRESS_WAIT_MAX_S} s",
                        where=self._job.end_of_log(),
                        fix="look for the cause in these lines of the job's log",
                    )
                self._clock.sleep(_REFRESH_S)

    def _update(self) -> None:
        self._state.advance(
            sent_count=self._producer.sent_count,
            elapsed_s=self._clock.steady_seconds() - self._start_s,
            run=self._job.run_count,
        )

    def _show(self) -> None:
        """Stop updating the panel, and leave it on the screen."""
        self._update()
        self._state.wait_until("")
        self._console.print(live_panel(self._state))

    def _say(self, text: str) -> None:
        elapsed_s = self._clock.steady_seconds() - self._start_s
        line = Text.assemble((f"{elapsed_s:5.1f} s", "dim"), f"  {text}")
        self._console.print(line, soft_wrap=True)


def _create_topics(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        topics = [
            NewTopic(f"shop.public.{name}", num_partitions=TOPIC_PARTITION_COUNT) for name in TABLES
        ]
        admin.create_topics(topics)
    finally:
        admin.close()
