"""The store handles S3's requests, lost answers, parts, and servers that promise less."""

from __future__ import annotations

import multiprocessing
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from stream_app.errors import StorageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.ranged_input import CACHE_BYTES_MAX, TAIL_SIZE
from stream_app.fileio.store_registry import file_io_of
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.read_batches import read_batches

MIB = 1 << 20


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.new_bucket()


@pytest.fixture
def io(s3: S3Server, bucket: str) -> FileIO:
    return file_io_of(f"s3://{bucket}/t", s3.options)[1]


def test_schemes_of_hadoop_mean_the_same_objects(io: FileIO, bucket: str) -> None:
    io.write_bytes(f"s3://{bucket}/t/f", b"1")
    assert io.read_bytes(f"s3a://{bucket}/t/f") == b"1"


def race(io: FileIO, bucket: str, number: int) -> list[int]:
    names = range(10)
    return [n for n in names if io.create_if_absent(f"s3://{bucket}/snapshot-{n}", b"%d" % number)]


@pytest.mark.slow
def test_one_of_many_processes_takes_a_name(io: FileIO, bucket: str) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        won = pool.starmap(race, [(io, bucket, number) for number in range(2)])
    assert sorted(won[0] + won[1]) == list(range(10))
    for number, names in enumerate(won):
        for name in names:
            assert io.read_bytes(f"s3://{bucket}/snapshot-{name}") == b"%d" % number


@pytest.mark.parametrize("answers_lost", [1, 2])
def test_a_lost_answer_is_not_a_lost_race(
    io: FileIO, bucket: str, s3: S3Server, answers_lost: int
) -> None:
    """The object is made, the client asks again, and hears that there is one."""
    s3.answers_lost = answers_lost
    assert io.create_if_absent(f"s3://{bucket}/snapshot-1", b"1")
    assert not io.create_if_absent(f"s3://{bucket}/snapshot-1", b"1")


def test_a_created_object_counts_when_no_answer_comes_at_all(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    io = file_io_of(f"s3://{bucket}/t", s3.options)[1]
    s3.answers_lost = 1
    assert io.create_if_absent(f"s3://{bucket}/snapshot-1", b"1")


def test_a_server_that_ignores_the_condition_is_not_written(
    io: FileIO, bucket: str, s3: S3Server
) -> None:
    io.check_atomic_create(f"s3://{bucket}/t")
    s3.ignores_conditions = True
    with pytest.raises(StorageError, match="If-None-Match"):
        io.check_atomic_create(f"s3://{bucket}/t")
    assert io.list_names(f"s3://{bucket}/t") == []


def test_a_listing_of_several_pages_is_whole(io: FileIO, bucket: str) -> None:
    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    names = [f"snapshot-{number}" for number in range(1, 1102)]  # a page has a thousand
    for name in names:
        store.put_object(bucket, f"t/snapshot/{name}", b"")
    assert sorted(io.list_names(f"s3://{bucket}/t/snapshot")) == sorted(names)


def test_the_mark_of_a_folder_is_not_a_file(io: FileIO, bucket: str) -> None:
    """Hadoop's client leaves an empty object with a slash at the end of its name."""
    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for mark in ("t/", "t/manifest/"):
        store.put_object(bucket, mark, b"")
    io.write_bytes(f"s3://{bucket}/t/manifest/m", b"1")
    assert [status.name for status in io.list_status(f"s3://{bucket}/t")] == ["manifest"]
    assert io.list_names(f"s3://{bucket}/t") == []
    assert io.list_names(f"s3://{bucket}/t/manifest") == ["m"]


@pytest.mark.slow
def test_a_large_file_is_sent_in_parts_while_it_is_written(
    io: FileIO, bucket: str, s3: S3Server
) -> None:
    path, data = f"s3://{bucket}/t/f", np.random.default_rng(1).bytes(2 * MIB)
    with s3.counted() as requests:
        sink = io.open_output(path)
        for _ in range(20):
            sink.write(data)
        sent = [path for method, path in s3.requests if "partNumber" in path]
        assert len(sent) >= 2, "40 MB are not held in memory"
        assert not io.exists(path)
        sink.close()
    assert io.size(path) == 40 * MIB
    assert io.read_bytes(path) == data * 20
    assert sum("partNumber" in path for _, path in requests) == 5


def wide_file(io: FileIO, path: str, columns: int, rows: int) -> int:
    """Random numbers, so that the file is as large as they are; its size."""
    random = np.random.default_rng(1)
    table = pa.table({f"c{n}": random.integers(0, 1 << 62, rows) for n in range(columns)})
    with io.open_output(path) as sink:
        pq.write_table(table, sink, row_group_size=rows // 2, use_dictionary=False)
    return io.size(path)


@pytest.mark.parametrize(
    ("columns", "rows", "requests_max"),
    [
        (4, 1_000, 1),  # a small file comes with its opening
        (4, 400_000, 30),  # 12.8 MB: a megabyte at a time
        (40, 40_000, 16),  # 12.8 MB in columns of 160 kB, which lie beside each other
    ],
)
def test_parquet_needs_few_requests(
    io: FileIO, bucket: str, s3: S3Server, columns: int, rows: int, requests_max: int
) -> None:
    path = f"s3://{bucket}/t/f.parquet"
    size = wide_file(io, path, columns, rows)
    names = [f"c{n}" for n in range(columns)]
    with s3.counted() as requests, io.open_input(path) as source:
        assert sum(batch.num_rows for batch in read_batches(source, names, 65_536)) == rows
    assert {method for method, _ in requests} == {"GET"}
    assert len(requests) <= requests_max
    assert s3.bytes_sent <= size * 1.25 + TAIL_SIZE


def test_one_column_of_many_is_read_alone(io: FileIO, bucket: str, s3: S3Server) -> None:
    path = f"s3://{bucket}/t/f.parquet"
    size = wide_file(io, path, 10, 200_000)
    with s3.counted() as requests, io.open_input(path) as source:
        assert sum(batch.num_rows for batch in read_batches(source, ["c3"], 65_536)) == 200_000
    assert len(requests) <= 5
    assert s3.bytes_sent <= size / 4 < CACHE_BYTES_MAX


def test_errors_are_the_systems_and_hold_no_secret(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        file_io_of("s3://nobodys/t", s3.options)[1].write_bytes("s3://nobodys/t/f", b"")
    unreachable_options = s3.options | {"s3.endpoint": "http://127.0.0.1:9"}
    io = file_io_of(f"s3://{bucket}/t", unreachable_options)[1]
    for operation in (io.read_bytes, io.size, io.list_names, io.exists):
        with pytest.raises(OSError, match=r"127\.0\.0\.1:9") as caught:
            operation(f"s3://{bucket}/t/f")
        assert caught.value.filename == f"s3://{bucket}/t/f"
        for secret in (ACCESS_KEY, SECRET_KEY):
            assert secret not in repr(caught.value) + str(caught.value)
            assert secret not in repr(io) + str(io)
    # A key that the store itself tells (as Amazon does) does not get through either.
    secret = "t-is-the-secret-of-this-bucket"
    io = file_io_of(f"s3://{secret}/t", s3.options | {"s3.secret-key": secret})[1]
    with pytest.raises(FileNotFoundError) as caught:
        io.size(f"s3://{secret}/t/f")
    assert secret not in str(caught.value.strerror)


def test_it_goes_to_other_processes_with_its_keys(io: FileIO) -> None:
    again = pickle.loads(pickle.dumps(io))
    assert again == io
    assert again.options.keys.secret_key == SECRET_KEY
