"""The page of a database's job shows states, lag and current work, and offers a replay."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.settings import catalog_options, file_io_options, file_io_variables
from stream_app.app.config.shown_job import shown_job
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.submit.ingest_main import serving_job_page
from stream_app.app.web.job_glance import JobGlance
from stream_app.app.web.job_site import JobSite
from stream_app.app.web.serving import serving_pages
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY
from stream_app.table.analyze.recorded_proof import record_proof
from stream_app.table.opening import require_writable
from tests.support.jobs.busy_job import Busy
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import GARBAGE, bad, creates
from tests.support.pages.job_page import TOKEN, page_of
from tests.support.pages.web_server import Warehouse, versions


def test_tables_of_a_database_with_lag_and_freshness(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.time_ms = job.clock.now_ms()
    job.run(*creates("shop.orders", [1, 2]), *creates("shop.items", [1]))
    job.clock.sleep(300)
    with page_of(job) as page:
        words = page.words("/")
        assert re.search(r"items ready up to date 5 min ago 0 0 ", words)
        assert re.search(r"orders ready up to date 5 min ago 0 0 ", words)
    job.time_ms = job.clock.now_ms() - 30_000
    job.run(*creates("shop.orders", [3]))
    with page_of(job, unread=4) as page:
        words = page.words("/")
        assert re.search(r"orders ready 30 s 0 s ago 4 1 ", words)
        assert re.search(r"items ready 30 s 5 min ago 4 0 ", words), "as far as the others"
        assert "lag 4 messages that are not in the table" in page.words("/tables/ods.orders")


def test_the_list_has_the_age_of_proofs(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    with page_of(job) as page:
        assert "proven" not in page.words("/")
        table = require_writable(job.table("orders"))
        record_proof(table, "jdbc:postgresql://db/shop o.t, at LSN 0/1A2B", "1 row", ["w (real)"])
        words = page.words("/")
        assert re.search(r"orders ready up to date \S+ s ago \S+ s ago, in part ", words)
        assert re.search(r"items ready up to date \S+ s ago – ", words)
        assert 'title="equal at LSN 0/1A2B; without w (real)"' in page.get("/")
        words = page.words("/tables/ods.orders")
        assert re.search(r"at LSN 0/1A2B, \S+ s ago: 1 row; without w \(real\)", words)


def test_one_table_is_as_fresh_as_in_the_list(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.time_ms = job.clock.now_ms()
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    job.clock.sleep(300)
    site = JobSite(
        shown_job(job.config), job.checkpoint, job.clock, ask_ends=lambda _: {"all": {"0": 9}}
    )
    assert [site.status(status.table) for status in site.tables()] == list(site.tables())
    job.time_ms = job.clock.now_ms()
    job.run(*creates("shop.orders", [2]))
    job.clock.sleep(7)
    assert [status.fresh_s for status in site.tables()] == [7, 7]
    quiet = site.status("ods.items")
    assert quiet is not None
    assert (quiet.fresh_s, quiet.lag) == (7, 6)
    assert site.status("nosuch") is None


def test_a_page_of_a_running_job_reads_its_own_table_alone(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    history = EpochHistory()
    site = JobSite(
        shown_job(job.config), job.checkpoint, job.clock, history, ask_ends=lambda _: None
    )
    for file in (Path(job.sync.path("orders")) / "manifest").iterdir():
        file.unlink()  # they tell sorted runs only
    shutil.rmtree(job.sync.path("items"))
    history.watch("orders", Busy())
    source_time = str(job.clock.now_ms() - 8000)
    snapshot = replace(
        job.table("orders").snapshots.snapshot(1), properties={SOURCE_TIME_PROPERTY: source_time}
    )
    history.add("items", EpochReport(epoch=0, snapshots=(snapshot,)), job.clock.now_ms())
    status = site.status("ods.orders")
    assert status is not None
    assert (status.state, status.sorted_runs, status.fresh_s) == ("ready", 6, 8)


@pytest.mark.slow
def test_an_open_page_sees_that_its_job_falls_behind(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    unread = [0]
    site = JobSite(
        shown_job(job.config), job.checkpoint, job.clock,
        ask_ends=lambda _: {"all": {"0": len(job.sent) + unread[0]}},
    )  # fmt: skip
    with serving_pages(site, "127.0.0.1", 0) as address:
        page = Warehouse(tmp_path, address)
        for events in ("/events/ods.orders", "/events"):
            with page.response(events) as answer:
                stream = versions(answer)
                first = next(stream)
                unread[0] += 5
                job.clock.sleep(60)
                assert next(stream) != first


def test_a_table_in_trouble_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    in_the_way = Path(job.sync.path("orders")) / "schema"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.symlink_to(in_the_way)
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    with page_of(job) as page:
        list_words = page.words("/")
        assert "2 tables, 1 in trouble" in list_words
        assert list_words.index(" ods.orders held") < list_words.index(" ods.items ready")
        alone = page.words("/tables/ods.orders", status=500)
        assert re.search(r"ods.orders held the file system refused: .* Resume…", alone)
        assert ">new 1<" in page.get("/tables/ods.items/rows")
        assert "schema" in re.sub("<[^>]+>", " ", list_words)


def test_a_damaged_checkpoint_is_reported(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    with page_of(job) as page:
        assert "1 table" in page.words("/")
        (tmp_path / "checkpoint/job_state.json").write_text("{")
        assert "To fix" in page.get("/", status=500)


def test_a_running_job_shows_its_epochs_and_compactions(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    history = EpochHistory()
    history.watch("orders", Busy())
    counts = DecodeCounts(message_count=1000)
    parts = EpochSeconds(wait_s=1, read_s=0.5, decode_s=2, route_s=0.5, write_s=2, commit_s=2)
    report = EpochReport(epoch=0, counts=counts, durations=parts, ran_in_driver=True)
    history.add("orders", report, job.clock.now_ms())
    job.state.update(replace(job.state.state, decoder="arrays (the package numba is missing)"))
    with page_of(job, history) as page:
        words = page.words("/tables/ods.orders")
        assert "back-pressure 4.5 s epochs waited" in words
        assert "compactions 1 running 2 wait, 3 done, 0 failed" in words
        assert "compacting: size ratio, levels 0 → 5, 1 files, 100 B" in words
        assert "throughput 125 messages a second, at work" in words
        times = "wait 1.00 s, read 0.50 s, decode 2.00 s, route 0.50 s, write 2.00 s, commit 2.00 s"
        assert f" 5 s 10 s epoch 0: 1,000 messages; {times} epoch 0 waited" in words
        assert re.search(
            r"together wait .* 0 8\.00 1\.00 0\.50 2\.00 0\.50 2\.00 2\.00 1,000 driver", words
        )
        words = page.words("/")
        assert "throughput 125 messages a second, of the last 5 min" in words
        assert "compactions 1 running 2 wait" in words
        assert "decoder arrays the package numba is missing" in words
    with page_of(job) as page:
        words = page.words("/tables/ods.orders")
        assert "Latest snapshots" in words
        assert "back-pressure" not in words


def test_the_quarantine_is_replayed_from_the_page(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.items", [1]))
    job.run(bad("shop.items", 2))
    [file] = Path(f"{job.config.stream.quarantine}/items").glob("epoch-*.jsonl")
    with page_of(job) as page:
        words = page.words("/tables/ods.items")
        assert re.search(r'value: 1 record .* \{"before":null,"after":\{"id":2,.*"none"', words)
        list_page = page.get("/")
        assert re.search(r'data-key="ods.items">.*?data-name="quarantine">1</td>', list_page, re.S)
        form = {"action": "replay", "token": TOKEN}
        assert page.post("/tables/ods.items/actions", form)[0] == 303
        assert "replay done still bad: " in page.words("/tables/ods.items")
        file.write_text(file.read_text().replace('\\"n\\":\\"none\\"', '\\"n\\":1'))
        job.sent[1] = job.sent[1][0], (job.sent[1][1] or b"").replace(b'"n":"none"', b'"n":1')
        page.post("/tables/ods.items/actions", form)
        assert "replayed 1 record: 1 changes in snapshot" in page.words("/tables/ods.items")
    assert job.rows("items") == {1: "new 1", 2: "new 2"}


@pytest.mark.slow
def test_bad_messages_without_a_table_are_shown_and_replayed(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.items", [1]), GARBAGE)
    [file] = Path(f"{job.config.stream.quarantine}").glob("epoch-*.jsonl")
    with page_of(job) as page, page.response("/events") as answer:
        first = next(stream := versions(answer))
        words = page.words("/")
        assert "quarantine 1 bad records that wait Bad messages without a table: 1" in words
        assert "1 record topic all, partition 0, offset 1 is not JSON" in words
        form = {"action": "replay", "token": TOKEN}
        assert page.post("/actions", {**form, "action": "tag"})[0] == 409
        assert page.post("/actions", form)[0] == 303
        assert "replay done no record belongs to a table" in page.words("/")
        assert next(stream) != first
        [fixed_message] = creates("shop.items", [2])
        line = json.loads(file.read_text())
        line |= {
            name: (stream or b"").decode()
            for name, stream in zip(("key", "value"), fixed_message, strict=True)
        }
        file.write_text(json.dumps(line))
        job.sent[1] = fixed_message
        page.post("/actions", form)
        assert "replayed 1 record: 1 changes in snapshot" in page.words("/")
    assert job.rows("items") == {1: "new 1", 2: "new 2"}


def test_no_message_of_a_producer_hides_the_list(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    odd = b'{"schema":1,"payload":"\\ud800"}'
    job.run(*creates("shop.items", [1]), (None, odd), (None, b"[" * 3000))
    with page_of(job) as page:
        words = page.words("/")
    assert "quarantine 2 bad records" in words
    assert r"\ud800" in words
    assert "[" * 99 in words


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_the_page_of_an_ipv6_address(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    site = JobSite(
        shown_job(job.config), job.checkpoint, job.clock, ask_ends=lambda _: {"all": {"0": 1}}
    )
    with serving_pages(site, "::1", 0) as address:
        assert address.startswith("http://[::1]:")
        assert "ods.orders ready" in Warehouse(tmp_path, address).words("/")


def test_the_list_says_that_the_broker_does_not_answer(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    why = "no broker answers"
    site = JobSite(
        shown_job(job.config), job.checkpoint, job.clock, ask_ends=lambda tell: tell(why)
    )
    with serving_pages(site, "127.0.0.1", 0) as address:
        page = Warehouse(tmp_path, address)
        assert f"what is unread: {why}" in page.words("/"), "before there is a table"
        job.time_ms = job.clock.now_ms()
        job.run(*creates("shop.orders", [1]))
        job.clock.sleep(60)
        assert "orders ready – 1 min ago" in page.words("/")
        assert f"lag unknown {why}" in page.words("/tables/ods.orders")
        job.clock.sleep(300)
        assert "orders ready – 6 min ago" in page.words("/"), "nobody knows"
        assert "commits nothing" not in page.words("/")
        assert "source unknown the broker does not answer" in page.words("/tables/ods.orders")


def test_a_job_that_is_away_is_seen_in_the_list(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.time_ms = job.clock.now_ms()
    job.run(*creates("shop.orders", [1]))
    job.clock.sleep(3600)
    with page_of(job) as page:
        words = page.words("/")
        assert "newest commit 1 h ago" in words
        assert "orders ready up to date" in words, "nothing is unread"
    with page_of(job, unread=1) as page:
        words = page.words("/")
        assert "The job commits nothing, though messages wait: look whether it runs." in words
        assert "orders behind 1 h 1 h ago 1 " in words


def test_bad_messages_are_read_again_only_when_the_folder_has_changed(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.items", [1]), GARBAGE)
    [file] = Path(f"{job.config.stream.quarantine}").glob("epoch-*.jsonl")
    with page_of(job) as page:
        assert "partition 0, offset 1 is not JSON" in page.words("/")
        before = file.stat()
        file.write_text(file.read_text().replace("is not JSON", "is no  JSON"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert "offset 1 is not JSON" in page.words("/")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
        assert "offset 1 is no JSON" in page.words("/")


def test_the_tables_that_are_late() -> None:
    ready = TableStatus(table="a", state=JobTableState.READY, lag=0, fresh_s=0)
    held_status = TableStatus(table="b", state=JobTableState.HELD, lag=9, fresh_s=999)
    glance = JobGlance(changed_s=999)
    assert not glance.is_late([ready, held_status]), "the job has nothing to commit"
    behind = replace(ready, lag=1, fresh_s=999)
    assert glance.is_late(glance.with_lateness([behind, held_status]))
    assert "whether it runs" in str(glance.with_lateness([behind])[0].reason)
    assert "at its log" in str(replace(glance, is_here=True).with_lateness([behind])[0].reason)
    away = replace(glance, ends_problem="no broker")
    assert away.with_lateness([replace(behind, lag=None)])[0] == replace(
        ready, lag=None, fresh_s=None
    )


def test_a_quarantine_that_only_spark_reaches_is_not_called_empty(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    stream = replace(job.config.stream, quarantine="gs://lake/quarantine")
    config = replace(job.config, stream=stream)
    site = JobSite(shown_job(config), job.checkpoint, job.clock, ask_ends=lambda _: None)
    with serving_pages(site, "127.0.0.1", 0) as address:
        words = Warehouse(tmp_path, address).words("/")
    assert "quarantine unknown not counted" in words
    assert "Not shown" not in words


def test_the_page_of_a_container_answers_to_names_of_the_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path)
    caplog.set_level("INFO")
    for host, names, status in (
        ("127.0.0.1", (), 400), ("0.0.0.0", (), 400), ("0.0.0.0", ("Pod.example",), 200),
    ):  # fmt: skip
        caplog.clear()
        stream = replace(job.config.stream, web_port=0, web_host=host, web_names=names)
        config = replace(job.config, stream=stream)
        with serving_job_page(
            shown_job(config), stream, lambda: job.checkpoint, job.clock, EpochHistory()
        ):
            [address] = re.findall(r"the page of the job: (http:\S+)", caplog.text)
            Warehouse(tmp_path, address).get("/healthz", host="pod.example", status=status)
            assert f"//{host}:" in address


def test_settings_hide_secrets_and_a_compaction_gets_them_by_the_environment(
    tmp_path: Path,
) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    options = {"s3.endpoint": "http://store", "s3.secret-key": "very-secret"}
    spark = {"spark.master": "local[2]", "spark.ssl.keyPassword": "very-secret"}
    config: AppConfig = replace(
        job.config, job_tables=replace(job.config.job_tables, file_system=options), spark=spark
    )
    words, further = JobSite(shown_job(config), job.checkpoint, job.clock).compact_command(
        "ods.orders"
    )
    assert words == [job.sync.path("orders"), "--set", "spark.master=local[2]"]
    assert file_io_options(further) == options
    assert further == file_io_variables(options)
    catalog = {"metastore": "rest", "uri": "http://c", "token.provider": "bear", "token": "t"}
    of_catalog = replace(config, job_tables=replace(config.job_tables, catalog=catalog))
    words, further = JobSite(shown_job(of_catalog), job.checkpoint, job.clock).compact_command(
        "ods.orders"
    )
    assert words == ["ods.orders", "--set", "spark.master=local[2]"]
    assert (catalog_options(further), file_io_options(further)) == (catalog, options)
    assert catalog_options({"STREAM_APP_CATALOG__TOKEN": "t"}) == {}
    site = JobSite(shown_job(config), job.checkpoint, job.clock, ask_ends=lambda _: None)
    with serving_pages(site, "127.0.0.1", 0) as address:
        text = Warehouse(tmp_path, address).get("/settings")
    assert "http://store" in text
    assert "very-secret" not in text
