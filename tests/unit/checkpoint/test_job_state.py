"""A job stores its state in one document of its checkpoint, and reads older versions' file."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.checkpoint.checkpoint_owner import DATABASE, claim_checkpoint
from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import (
    JobState,
    JobStateFile,
    JobWarning,
    read_state,
    state_or_empty,
)
from stream_app.errors import CheckpointError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.model.source.origin import Origin
from tests.support.files.faulty_file_io import Fault, FaultyFileIO

RECORDED = Path(__file__).parents[2] / "fixtures/checkpoints/spark-4.1.3.zip"
WHOLE = JobState(
    location="/w/shop.db",
    table_identity=DATABASE,
    share="3/8",
    decoder="machine code (Numba 0.61.2)",
    topic_ids={"t": "id of t"},
    epoch=7,
    newest_epochs={"orders": 7, "items": 2},
    held_tables={
        "items": HeldTable(
            since_epoch=3, start={"t": {"0": 40}}, reason="full", since_ms=5, retry_ms=None, tries=2
        )
    },
    source_tables={"orders": {"t": ["eu.orders", "us.orders"]}},
    targets={Origin("eu", "", "orders"): "orders", Origin("us", "", "orders"): "orders"},
    refused_tables={Origin("eu", "", "odd name"): "name it"},
    warnings=(
        JobWarning(table="orders", problem="column at is cut", fix="correct", is_lasting=True),
    ),
)
EARLIER = {
    "table": "/w/shop.db/orders",
    "table_identity": "its own",
    "topic_ids": {"t": "id of t"},
    "tables": {"t": ["shop.orders"]},
}
"""What a job of 0.1.0 had in ``stream_app.json``."""
OF_EARLIER = JobState(
    location="/w/shop.db/orders",
    table_identity="its own",
    topic_ids={"t": "id of t"},
    source_tables={"": {"t": ["shop.orders"]}},
)


def a_folder(path: Path, fault: Fault | None = None) -> JobFolder:
    return JobFolder(str(path), LocalFileIO() if fault is None else FaultyFileIO(fault=fault))


def with_earlier(path: Path) -> JobFolder:
    path.mkdir()
    (path / "stream_app.json").write_text(json.dumps(EARLIER))
    return a_folder(path)


def files_in(folder: JobFolder) -> list[str]:
    return sorted(path.name for path in Path(folder.location).iterdir())


def test_the_next_start_reads_the_whole_state(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    assert read_state(folder) is None
    file = JobStateFile(folder)
    file.state = WHOLE
    file.write()
    assert JobStateFile(folder).state == WHOLE


def test_the_names_of_a_held_table_stay_in_the_file(tmp_path: Path) -> None:
    """A later version of stream_app reads them, so a renamed field keeps its stored name."""
    file = JobStateFile(a_folder(tmp_path))
    file.state = WHOLE
    file.write()
    document = json.loads((tmp_path / "job_state.json").read_text())
    assert document["held"]["items"] == {
        "since_epoch": 3,
        "begin": {"t": {"0": 40}},
        "reason": "full",
        "since_ms": 5,
        "retry_ms": None,
        "tries": 2,
    }


def write_epoch(folder: JobFolder, epoch: int) -> None:
    file = JobStateFile(folder)
    file.update(replace(file.state, epoch=epoch))


def test_what_is_known_already_is_not_written_again(tmp_path: Path) -> None:
    file = JobStateFile(a_folder(tmp_path))
    file.update(replace(file.state, epoch=3))
    (tmp_path / "job_state.json").unlink()
    file.update(replace(file.state, epoch=3))
    assert files_in(file.checkpoint) == []


def test_the_file_of_0_1_0_is_read_and_then_replaced(tmp_path: Path) -> None:
    folder = with_earlier(tmp_path / "c")
    assert state_or_empty(folder) == OF_EARLIER
    assert files_in(folder) == ["stream_app.json"], "reading changes nothing"
    write_epoch(folder, 7)
    assert files_in(folder) == ["job_state.json"]
    assert state_or_empty(folder) == replace(OF_EARLIER, epoch=7)


def test_a_warning_is_kept_once_and_named_by_its_table(tmp_path: Path) -> None:
    file = JobStateFile(a_folder(tmp_path))
    cut = JobWarning(
        table="orders", problem="column at is a TIME", fix="make it again", is_lasting=True
    )
    file.write_warnings([cut, JobWarning(problem="no numbers", fix="set stream.metrics-port")])
    assert str(cut) == "the table orders: column at is a TIME\n  to fix: make it again"
    (tmp_path / "job_state.json").rename(tmp_path / "before")
    file.write_warnings([cut])
    assert files_in(file.checkpoint) == ["before"], "it is known"
    (tmp_path / "before").rename(tmp_path / "job_state.json")
    assert [warning.problem for warning in state_or_empty(file.checkpoint).warnings] == [
        cut.problem,
        "no numbers",
    ]
    JobStateFile(file.checkpoint).begin("arrays")
    assert state_or_empty(file.checkpoint).warnings == (cut,), "each start finds the others again"
    assert state_or_empty(file.checkpoint).decoder == "arrays"


def test_a_passing_warning_ends_with_its_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = JobStateFile(a_folder(tmp_path))
    stays = JobWarning(problem="no numbers", fix="set stream.metrics-port")
    lags = JobWarning(table="db.t", problem="Iceberg's readers lag", fix="correct the cause")
    file.write_warnings([stays])
    file.write_transient_warnings("callbacks", [lags])
    file.write_transient_warnings("callbacks", [lags])
    file.write_transient_warnings("services", [])
    assert state_or_empty(file.checkpoint).warnings == (stays, lags)
    assert caplog.text.count("Iceberg's readers lag") == 1
    file.write_transient_warnings("callbacks", [])
    assert state_or_empty(file.checkpoint).warnings == (stays,)
    file.write_transient_warnings("callbacks", [lags])
    assert caplog.text.count("Iceberg's readers lag") == 2


def test_a_crash_while_the_state_file_is_replaced_loses_nothing(tmp_path: Path) -> None:
    """Each file operation is the last one of a process."""
    for operation in range(100):
        path = tmp_path / str(operation)
        with_earlier(path)
        fault = Fault(operation, "after", stays_dead=True)
        try:
            write_epoch(a_folder(path, fault), 8)
        except OSError:
            epoch = state_or_empty(a_folder(path)).epoch
            assert epoch in (-1, 8)
        again = JobStateFile(a_folder(path))
        again.update(replace(again.state, epoch=9))
        assert state_or_empty(again.checkpoint) == replace(OF_EARLIER, epoch=9)
        assert files_in(again.checkpoint) == ["job_state.json"]
        if not fault.has_struck:
            break
    assert operation >= 2


@pytest.mark.parametrize("name", ["job_state.json", "stream_app.json"])
def test_another_process_reads_all_while_the_job_replaces_them(tmp_path: Path, name: str) -> None:
    """The job does so before the reader's first look at a file."""
    folder = with_earlier(tmp_path / "c")

    class Meanwhile(LocalFileIO):
        def read_bytes(self, path: str) -> bytes:
            if path.endswith(f"/{name}") and "stream_app.json" in files_in(folder):
                if name == "job_state.json":
                    with pytest.raises(FileNotFoundError):
                        super().read_bytes(path)
                write_epoch(folder, 7)
                if name == "job_state.json":
                    raise FileNotFoundError(path)
            return super().read_bytes(path)

    assert read_state(JobFolder(folder.location, Meanwhile())) == replace(OF_EARLIER, epoch=7)
    assert files_in(folder) == ["job_state.json"]


def test_a_checkpoint_of_0_1_0_is_its_job_s(tmp_path: Path) -> None:
    """Recorded; it has one file of the job's own, beside Spark's."""
    with zipfile.ZipFile(RECORDED) as archive:
        data = archive.read("checkpoint/stream_app.json")
    (tmp_path / "stream_app.json").write_bytes(data)
    before = json.loads(data)
    file = JobStateFile(a_folder(tmp_path))
    claim_checkpoint(file, before["table"], before["table_identity"])
    with pytest.raises(CheckpointError, match="belongs to the table"):
        claim_checkpoint(file, "/elsewhere", "another")
    assert file.state.topic_ids == before["topic_ids"]
    assert file.state.source_tables_of() == before["tables"]
    file.update(replace(file.state, epoch=1))
    assert files_in(file.checkpoint) == ["job_state.json"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"version": 1}', "is damaged: it has no 'table'"),
        ('{"version": 2, "anything": 1}', "is of version 2, and stream_app reads version 1"),
    ],
)
def test_a_job_refuses_a_state_that_it_does_not_understand(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "job_state.json").write_text(text)
    with pytest.raises(CheckpointError, match=problem):
        read_state(a_folder(tmp_path))


@pytest.mark.parametrize("text", ["{", "7"])
def test_a_damaged_earlier_file_is_reported(tmp_path: Path, text: str) -> None:
    folder = with_earlier(tmp_path / "c")
    Path(folder.path("stream_app.json")).write_text(text)
    with pytest.raises(CheckpointError, match=r"stream_app\.json of the checkpoint is damaged"):
        read_state(folder)


@pytest.mark.parametrize(
    ("began", "now"), [("", "1/2"), ("1/2", ""), ("1/2", "2/2"), ("1/2", "1/3")]
)
def test_a_checkpoint_belongs_to_one_share(tmp_path: Path, began: str, now: str) -> None:
    claim_checkpoint(JobStateFile(a_folder(tmp_path)), "/w/shop.db", DATABASE, began)
    claim_checkpoint(JobStateFile(a_folder(tmp_path)), "/w/shop.db", DATABASE, began)
    with pytest.raises(CheckpointError, match="was begun with") as caught:
        claim_checkpoint(JobStateFile(a_folder(tmp_path)), "/w/shop.db", DATABASE, now)
    assert began in str(caught.value)
    assert state_or_empty(a_folder(tmp_path)).share == began
