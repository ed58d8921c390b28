"""``./run.sh demo``: everything at once, on real parts, in two minutes.

It runs an embedded broker, a shop whose orders change, and the real job that writes a Paimon table.
A SIGKILL comes in the middle. After a restart the proof shows that the table equals the source.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from kafka.admin import KafkaAdminClient, NewTopic
from rich.console import Console
from rich.live import Live
from rich.text import Text

from demo.embedded_broker import EmbeddedBroker
from demo.job import DemoJob, ShopProducer
from demo.progress import TableProgress
from demo.proof import source_side, table_side
from demo.screen import DemoState, live_panel, next_steps, proof_table, story
from demo.shop import COLUMNS, Shop
from stream_app.clock import Clock, SystemClock
from stream_app.errors import StreamAppError, UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_table
from stream_app.table.read.merge_read import MergeRead

RECORDS = 150_000
SECONDS_OF_SHOP = 24
PARTITIONS = 3
TOPIC = "shop.public.orders"
DATABASE = "demo"
SEED = 20
SECONDS_WITHOUT_PROGRESS_MAX = 120
_MARK = ".stream_app-demo"
_REFRESH_S = 0.25
_TOLD_EVERY_S = 8.0


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "demo",
        help="watch a shop's changes become a table, crash included",
        description=(
            "Start a Kafka broker, let a shop change its orders, and run the real job, which "
            "writes them into the Paimon table DIR/warehouse/demo.db/orders and compacts it "
            "meanwhile. In the middle the job is killed (SIGKILL) and started again. At the end "
            "the table is compared with the shop. Takes less than two minutes."
        ),
        epilog="examples:\n  ./run.sh demo\n  ./run.sh demo --records 500000 --dir /tmp/demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--records",
        type=_positive,
        default=RECORDS,
        metavar="N",
        help=f"changes that the shop makes (default: {RECORDS})",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="D",
        help="folder for warehouse/ and demo-work/ (default: the current one)",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def run(args: argparse.Namespace) -> int:
    """Run the demo; 1 when the table does not equal the source.

    Raises:
        UsageError: the folder holds a table that the demo did not make.
    """
    if args.dir.exists() and not args.dir.is_dir():
        raise UsageError(f"--dir {args.dir} is no folder", fix="give a folder, or none")
    if _is_no_text(args.dir):
        raise UsageError(f"--dir {args.dir!r} is no UTF-8", fix="give a folder with another name")
    console = Console()
    folder = DemoFolder(args.dir.absolute())
    folder.clear()
    with ExitStack() as stack:
        demo = _Demo(console, folder, args.records, SystemClock(), stack)
        code = demo.run()
    folder.note_end()
    return code


def _is_no_text(path: Path) -> bool:
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return True
    return False


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Where the demo keeps what it makes."""

    root: Path

    @property
    def work(self) -> Path:
        """Broker, checkpoint, quarantine, logs."""
        return self.root / "demo-work"

    @property
    def table(self) -> Path:
        """The table, in a database that no example of ours writes into."""
        return self.root / "warehouse" / f"{DATABASE}.db" / "orders"

    def clear(self) -> None:
        """Delete what an earlier demo left, and nothing else.

        Raises:
            UsageError: something that is in the way is not the demo's.
        """
        mark = self.work / _MARK
        mine = mark.exists()
        if mine and self.table.exists() and mark.read_text() not in ("", self._state()):
            raise UsageError(
                f"{self.table} has been written since the demo made it",
                fix="choose another folder with --dir, or delete the table yourself",
            )
        for path in (self.work, self.table):
            if path.exists() and not mine:
                raise UsageError(
                    f"{path} is there already and is not an earlier demo's",
                    fix="choose another folder with --dir",
                )
        for path in (self.table, self.work):
            shutil.rmtree(path, ignore_errors=True)
        self.work.mkdir(parents=True)
        (self.work / _MARK).touch()

    def note_end(self) -> None:
        """Remember the last snapshot: a later demo keeps a table that was written since."""
        (self.work / _MARK).write_text(self._state())

    def _state(self) -> str:
        """Names of all snapshots, and which table it is."""
        schema = self.table / "schema" / "schema-0"
        names = sorted(path.name for path in (self.table / "snapshot").glob("snapshot-*"))
        return "\n".join([schema.read_text() if schema.exists() else "", *names])

    def write_conf(self, bootstrap: str) -> Path:
        """The job's configuration, as a user would write it."""
        path = self.work / "orders.toml"
        path.write_text(
            f"""\
[source]
bootstrap-servers = "{bootstrap}"
topics = ["{TOPIC}"]
max-offsets-per-trigger = 20000

[table]
warehouse = {_toml(self.root / "warehouse")}
database = "{DATABASE}"
name = "orders"
columns = "{COLUMNS}"
primary-keys = ["dt", "id"]
partition-keys = ["dt"]

[table.options]
bucket = 2
changelog-producer = "input"
"num-sorted-run.compaction-trigger" = 4

[stream]
checkpoint = {_toml(self.work / "checkpoint")}
trigger = "1 second"
quarantine = {_toml(self.work / "quarantine")}

[spark]
"spark.master" = "local[2]"
""",
            encoding="utf-8",
        )
        return path


def _toml(path: Path) -> str:
    """As a text of TOML, which reads escapes as JSON does, but no halves of a character."""
    return json.dumps(str(path), ensure_ascii=False).replace("\x7f", "\\u007f")


class _Demo:
    """One run; everything that is started ends with `stack`."""

    def __init__(
        self,
        console: Console,
        folder: DemoFolder,
        records: int,
        clock: Clock,
        stack: ExitStack,
    ) -> None:
        self._console = console
        self._folder = folder
        self._records = records
        self._clock = clock
        self._stack = stack
        self._shop = Shop(Random(SEED))
        self._began = clock.steady_seconds()
        self._table = TableProgress(str(folder.table))
        self._state = DemoState(records=records, table=self._table)

    def run(self) -> int:
        """Tell the whole story."""
        self._say("starting a Kafka broker")
        broker = EmbeddedBroker(self._folder.work / "kafka")
        self._stack.callback(broker.stop)
        # When the demo is aborted, it does not wait for its processes.
        self._stack.push(lambda kind, *_: broker.kill() if kind else None)
        broker.start()
        _make_topic(broker.bootstrap)
        conf = self._folder.write_conf(broker.bootstrap)
        self._job = DemoJob(conf, self._folder.work)
        self._stack.callback(self._job.stop)
        self._stack.push(lambda kind, *_: self._job.abandon() if kind else None)
        self._producer = ShopProducer(
            shop=self._shop,
            bootstrap=broker.bootstrap,
            topic=TOPIC,
            count=self._records,
            per_second=max(1, self._records // SECONDS_OF_SHOP),
            clock=self._clock,
        )
        self._stack.callback(self._producer.stop)
        self._say(f"starting the job: ./run.sh ingest --conf {shlex.quote(str(conf))}")
        self._job.start()
        self._producer.start()
        self._watch("until a third is in the table", self._third_is_read)
        killed = self._job.kill()
        self._say(f"SIGKILL to the job (process {killed}) in the middle of its work")
        self._say("starting it again with the same checkpoint")
        self._job.start()
        self._watch("until the job has begun again", lambda: self._job.progress.is_started)
        self._watch("until everything is in the table", self._all_is_read)
        self._watch("until compaction is done", self._compacted())
        self._say("ending the job, as Ctrl-C does")
        self._job.stop()
        return self._finish(open_table(str(self._folder.table)))

    def _finish(self, table: FileStoreTable) -> int:
        for part in story(table):
            self._console.print(part)
        source = source_side(self._shop.orders.values(), MergeRead(table).schema)
        there = table_side(table)
        seconds = self._clock.steady_seconds() - self._began
        self._console.print(proof_table(source, there, seconds=seconds))
        self._console.print(next_steps(self._folder.table), soft_wrap=True)
        return 0 if source == there else 1

    def _third_is_read(self) -> bool:
        return self._table.read >= max(1, self._records // 3)

    def _all_is_read(self) -> bool:
        return self._producer.is_done and self._table.read >= self._records

    def _compacted(self) -> Callable[[], bool]:
        """Nothing has been committed for a while."""
        quiet: list[tuple[int, float]] = [(0, self._clock.steady_seconds())]

        def is_quiet() -> bool:
            now, latest = self._clock.steady_seconds(), self._table.latest
            if latest != quiet[0][0]:
                quiet[0] = (latest, now)
            return now - quiet[0][1] > 2.5

        return is_quiet

    def _watch(self, what: str, is_reached: Callable[[], bool]) -> None:
        seen, since = (0, 0), self._clock.steady_seconds()
        told = since
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while not is_reached():
                self._job.poll()
                self._update()
                live.update(live_panel(self._state, waiting=what))
                now, reached = self._clock.steady_seconds(), (self._state.sent, self._table.latest)
                seen, since = reached, now if reached != seen else since
                if not self._console.is_terminal and now - told > _TOLD_EVERY_S:
                    told = now  # the panel moves on a terminal alone
                    self._say(f"{what}: {reached[0]:,} sent, {self._table.read:,} in the table")
                if now - since > SECONDS_WITHOUT_PROGRESS_MAX:
                    raise StreamAppError(
                        f"the demo waited {what}, and nothing happened for "
                        f"{SECONDS_WITHOUT_PROGRESS_MAX} s",
                        where=str(self._job.log_file),
                        fix="see what the job says there",
                    )
                self._clock.sleep(_REFRESH_S)
        self._update()
        self._console.print(live_panel(self._state, waiting=None))

    def _update(self) -> None:
        self._table.look()
        self._state.sent = self._producer.sent
        self._state.seconds = self._clock.steady_seconds() - self._began
        self._state.run = self._job.runs
        self._state.job = self._job.progress

    def _say(self, text: str) -> None:
        seconds = self._clock.steady_seconds() - self._began
        line = Text.assemble((f"{seconds:5.1f} s", "dim"), f"  {text}")
        self._console.print(line, soft_wrap=True)


def _make_topic(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
    finally:
        admin.close()
