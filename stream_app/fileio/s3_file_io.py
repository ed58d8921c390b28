"""Objects of Amazon S3 and of stores that speak its language.

An object appears whole when its last byte has arrived, and is safe then: nothing is left for
`sync`. `create_if_absent` is a PUT under the condition that there is no such object
(``If-None-Match: *``). Not every store minds it, so it is tried before a table is written. There
are no folders, only names with slashes.

Source: Paimon `s3/S3FileIO.java` for locations and options.
"""

from __future__ import annotations

import contextlib
import errno
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from stream_app.errors import UsageError
from stream_app.fileio.atomic_create import probe_atomic_create
from stream_app.fileio.file_io import FileStatus
from stream_app.fileio.ranged_input import TAIL_BYTES, RangedInput
from stream_app.fileio.s3_options import S3Options

if TYPE_CHECKING:
    from obstore.store import RetryConfig  # there is none when it runs

_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 3
"""A file that is written holds so many parts in memory, and one that grows."""
_SMALL_WRITES_BYTES = 1 << 20
_WRITER = "writer"
_RETRIES: RetryConfig = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
"""With pauses that double, half a minute: a task is tried again after that, and an epoch too."""


@dataclass(frozen=True)
class S3FileIO:
    """Paths are ``s3://bucket/key``, also with ``s3a``; its text holds no secret."""

    options: S3Options
    _stores: dict[str, S3Store] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[S3FileIO], tuple[S3Options]]:
        # Connections stay where they are.
        return type(self), (self.options,)

    def check_atomic_create(self, folder: str) -> None:
        """Try it, with an object that is deleted again."""
        probe_atomic_create(self, folder, "its server ignores If-None-Match")

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading; the end of the file is fetched at once."""
        store, key = self._at(path)
        with self._errors(path):
            size, tail = _size_and_tail(store, key)

        def fetch(start: int, length: int) -> bytes:
            with self._errors(path):
                return bytes(obstore.get_range(store, key, start=start, length=length))

        return pa.PythonFile(RangedInput(fetch, size, tail), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; large ones are sent in parts."""
        store, key = self._at(path)
        return pa.BufferedOutputStream(
            pa.PythonFile(_Output(self, path, store, key), mode="w"), _SMALL_WRITES_BYTES
        )

    def sync(self, path: str) -> None:
        """Nothing: a store is asked to keep what it has taken."""

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        store, key = self._at(path)
        with self._errors(path):
            return bytes(obstore.get(store, key).bytes())

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole."""
        store, key = self._at(path)
        with self._errors(path):
            obstore.put(store, key, data, max_concurrency=_PARTS_AT_ONCE)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Put under the condition that there is no such object.

        When an answer is lost on its way, the client asks again, and is told that the object is
        there, by its own doing. So each attempt leaves its mark on the object.
        """
        store, key = self._at(path)
        mark = str(uuid.uuid4())
        with self._errors(path):
            try:
                obstore.put(
                    store, key, data, attributes={_WRITER: mark}, mode="create", use_multipart=False
                )
            except AlreadyExistsError:
                return _mark(store, key) == mark
            except BaseError:
                with contextlib.suppress(BaseError):
                    if _mark(store, key) == mark:
                        return True
                raise
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        """Put, whatever is there."""
        store, key = self._at(path)
        with self._errors(path):
            obstore.put(store, key, data, use_multipart=False)

    def list_names(self, folder: str) -> list[str]:
        """Names below a folder."""
        return [status.name for status in self.list_status(folder)]

    def list_status(self, folder: str) -> list[FileStatus]:
        """What lies below a folder; a name that is a file's and a folder's comes twice."""
        store, key = self._at(folder)
        with self._errors(folder):
            found = obstore.list_with_delimiter(store, key or None)
        files = [
            FileStatus(
                _name(each["path"]),
                each["size"],
                int(each["last_modified"].timestamp() * 1000),
                is_folder=False,
            )
            for each in found["objects"]
            if each["path"] != key  # an empty object that Hadoop leaves as a folder's mark
        ]
        folders = [
            FileStatus(_name(each), 0, 0, is_folder=True) for each in found["common_prefixes"]
        ]
        return files + folders

    def exists(self, path: str) -> bool:
        """Whether there is an object, or one below."""
        store, key = self._at(path)
        with self._errors(path):
            try:
                obstore.head(store, key)
            except FileNotFoundError:
                return any(obstore.list(store, key, chunk_size=1))
        return True

    def size(self, path: str) -> int:
        """Bytes of a file."""
        store, key = self._at(path)
        with self._errors(path):
            return obstore.head(store, key)["size"]

    def delete(self, path: str) -> None:
        """Delete an object."""
        store, key = self._at(path)
        with self._errors(path), contextlib.suppress(FileNotFoundError):
            obstore.delete(store, key)

    def delete_empty_folder(self, folder: str) -> None:
        """Nothing: there are no folders."""

    def _at(self, path: str) -> tuple[S3Store, str]:
        found = re.fullmatch(r"s3[an]?://([^/]+)/?(.*?)/*", path)
        if found is None:
            raise UsageError(
                f"{path!r} is no object of S3", fix="write s3://BUCKET/PATH, as the table's is"
            )
        bucket = found[1]
        if bucket not in self._stores:
            settings = self.options.store_settings(bucket)
            self._stores[bucket] = S3Store(bucket, retry_config=_RETRIES, **settings)
        return self._stores[bucket], found[2]

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """The client's errors as the operating system's, without secrets."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, self._said(error), path) from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, self._said(error), path) from None
        except BaseError as error:
            raise OSError(errno.EIO, self._said(error), path) from None

    def _said(self, error: Exception) -> str:
        """What the store says, or the client: without the request and the answer in full."""
        text = str(error).partition("Debug source:")[0].strip()
        code, message = (re.search(rf"<{tag}>(.*?)</{tag}>", text) for tag in ("Code", "Message"))
        if code:
            text = f"{code[1]}: {message[1]}" if message else code[1]
        for secret in self.options.secrets:
            text = text.replace(secret, "****")
        return text


class _Output:
    """A file that is written, for ``pyarrow.PythonFile``."""

    def __init__(self, file_io: S3FileIO, path: str, store: S3Store, key: str) -> None:
        self._file_io = file_io
        self._path = path
        self._writer = obstore.open_writer(
            store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
        )
        self._written = 0
        self.closed = False

    def write(self, data: bytes | pa.Buffer) -> int:
        """Take bytes, and send them when a part is full."""
        with self._file_io._errors(self._path):
            self._writer.write(memoryview(data).cast("B"))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._written

    def flush(self) -> None:
        """Nothing: an object appears whole."""

    def close(self) -> None:
        """Send the rest; the object appears."""
        if not self.closed:
            self.closed = True
            with self._file_io._errors(self._path):
                self._writer.close()


def _size_and_tail(store: S3Store, key: str) -> tuple[int, bytes]:
    """The object's size and its last bytes, by one request."""
    try:
        got = obstore.get(store, key, options={"range": {"suffix": TAIL_BYTES}})
        return got.meta["size"], bytes(got.bytes())
    except FileNotFoundError:
        raise
    except BaseError:
        # Nothing has no last bytes: some stores refuse to give any of an empty object.
        size = obstore.head(store, key)["size"]
        if size:
            raise
        return 0, b""


def _mark(store: S3Store, key: str) -> str | None:
    return obstore.get(store, key).attributes.get(_WRITER)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
