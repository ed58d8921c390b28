"""Reads and writes objects of Amazon S3 and of compatible stores.

An object appears as a whole and is durable when its last byte has arrived, so `sync` does nothing.
`create_if_absent` is a PUT on the condition that the object does not exist (``If-None-Match: *``).
Not all stores respect the condition, so it is tested before a table is written. A store has no
folders, only names with slashes.

Source: Paimon `s3/S3FileIO.java` for locations and options.
"""

from __future__ import annotations

import contextlib
import errno
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from stream_app.clock import Clock, SystemClock
from stream_app.errors import UsageError
from stream_app.fileio.file_io import FileStatus
from stream_app.fileio.ranged_input import TAIL_SIZE, RangedInput
from stream_app.fileio.s3.s3_errors import S3Explanation, explain_s3_error
from stream_app.fileio.s3.s3_keys import KeyProvider
from stream_app.fileio.s3.s3_options import S3Options
from stream_app.fileio.setting_references import MissingValueError
from stream_app.fileio.store_probes import probe_atomic_create

if TYPE_CHECKING:
    from obstore import WritableFile  # these do not exist at run time
    from obstore.store import ClientConfig, RetryConfig

_T = TypeVar("_T")

_PART_SIZE = 8 << 20
_PARTS_AT_ONCE = 3
"""The number of parts of a file that are in memory while they are sent, besides the growing one."""
_REFUSALS = (PermissionDeniedError, UnauthenticatedError)
_WRITE_BUFFER_SIZE = 1 << 20
_WRITER = "writer"
_SECRET_LENGTH_MIN = 4
"""The minimum length of a secret that messages hide.

A shorter text is not a key of a store, and hiding it would make messages unreadable.
"""
_RETRIES: RetryConfig = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
"""Retries with pauses that double, for half a minute; after that Spark retries the task."""
_FIRST_RETRIES: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}
_FIRST_TIMEOUTS: ClientConfig = {"timeout": "10s", "connect_timeout": "4s"}
"""Time-outs for a store that has never answered: usually its endpoint is wrong."""
_RENEWAL_WAITS_S = (0.2, 1.0, 2.0, 4.0, 8.0)
"""The waits for renewed keys, which may come a little late and one after another."""


@dataclass(frozen=True)
class S3FileIO:
    """The file system of ``s3://bucket/key`` and ``s3a``; its text holds no secret.

    Attributes:
        has_answered: whether the store has answered this driver before. Then the client waits
            longer for it, and for valid keys.
    """

    options: S3Options
    has_answered: bool = field(default=False, repr=False, compare=False)
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)
    _stores: dict[str, S3Store] = field(default_factory=dict, init=False, repr=False, compare=False)
    _answered_buckets: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _key_provider: KeyProvider | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options = self.options
        has_keys = options.keys is not None or options.source is not None
        key_provider = KeyProvider(options.keys, options.source, self.clock) if has_keys else None
        object.__setattr__(self, "_key_provider", key_provider)

    def __reduce__(self) -> tuple[type[S3FileIO], tuple[S3Options, bool, Clock]]:
        # Connections are not pickled. The current keys are.
        keys = None
        if self._key_provider is not None:
            with contextlib.suppress(MissingValueError):
                keys = self._key_provider.current_keys()
        has_answered = self.has_answered or bool(self._answered_buckets)
        return type(self), (replace(self.options, keys=keys), has_answered, self.clock)

    def check_atomic_create(self, folder: str) -> None:
        """Try to create a test object twice, then delete it."""
        probe_atomic_create(self, folder, "its server ignores If-None-Match")

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading, and fetch the end of the file at once."""
        size, tail = self._send(path, _size_and_tail)

        def fetch(start: int, length: int) -> bytes:
            return self._send(
                path,
                lambda store, key: bytes(obstore.get_range(store, key, start=start, length=length)),
            )

        return pa.PythonFile(RangedInput(fetch, size, tail), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; large files are sent in parts."""
        store, key = self._store_and_key(path)
        writer = obstore.open_writer(
            store, key, buffer_size=_PART_SIZE, max_concurrency=_PARTS_AT_ONCE
        )
        output = _S3Output(writer, lambda error: self._os_error(error, path))
        return pa.BufferedOutputStream(pa.PythonFile(output, mode="w"), _WRITE_BUFFER_SIZE)

    def sync(self, path: str) -> None:
        """Do nothing: an object store is durable."""

    def read_bytes(self, path: str) -> bytes:
        """Read the whole file."""
        return self._send(path, lambda store, key: bytes(obstore.get(store, key).bytes()))

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole."""
        self._send(
            path,
            lambda store, key: obstore.put(store, key, data, max_concurrency=_PARTS_AT_ONCE),
        )

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Put an object on the condition that its name is free.

        If an answer is lost, the client repeats the request and finds the object of its first
        attempt. So each call marks its object to recognise it.
        """
        mark = str(uuid.uuid4())

        def put(store: S3Store, key: str) -> bool:
            try:
                obstore.put(
                    store, key, data, attributes={_WRITER: mark}, mode="create", use_multipart=False
                )
            except AlreadyExistsError:
                return _mark(store, key) == mark
            except BaseError:
                with contextlib.suppress(BaseError, FileNotFoundError):
                    if _mark(store, key) == mark:
                        return True
                raise
            return True

        return self._send(path, put)

    def overwrite(self, path: str, data: bytes) -> None:
        """Put an object, and replace an existing one."""
        self._send(path, lambda store, key: obstore.put(store, key, data, use_multipart=False))

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        return [status.name for status in self.list_status(folder) if not status.is_folder]

    def list_status(self, folder: str) -> list[FileStatus]:
        """Return the entries of a folder; a name that is both a file and a folder appears twice."""
        _, folder_key = self._store_and_key(folder)
        listing = self._send(
            folder, lambda store, key: obstore.list_with_delimiter(store, key or None)
        )
        files = [
            FileStatus(
                _name(entry["path"]),
                entry["size"],
                int(entry["last_modified"].timestamp() * 1000),
                is_folder=False,
            )
            for entry in listing["objects"]
            if entry["path"] != folder_key  # Hadoop marks a folder by an empty object
        ]
        folders = [
            FileStatus(_name(entry), 0, 0, is_folder=True) for entry in listing["common_prefixes"]
        ]
        return files + folders

    def exists(self, path: str) -> bool:
        """Return whether an object with this name, or one below it, exists."""

        def is_there(store: S3Store, key: str) -> bool:
            try:
                obstore.head(store, key)
            except FileNotFoundError:
                return any(obstore.list(store, key, chunk_size=1))
            return True

        return self._send(path, is_there)

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return self._send(path, lambda store, key: obstore.head(store, key)["size"])

    def delete(self, path: str) -> None:
        """Delete an object."""

        def delete(store: S3Store, key: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                obstore.delete(store, key)

        self._send(path, delete)

    def sync_deletions(self, folder: str) -> None:
        """Do nothing: deletions of objects are durable."""

    def delete_empty_folder(self, folder: str) -> None:
        """Do nothing, because a store has no folders."""

    def _send(self, path: str, request: Callable[[S3Store, str], _T]) -> _T:
        """Send a request, with renewed keys if the store refuses the old ones."""
        for wait_s in (*_RENEWAL_WAITS_S, None):
            store, key = self._store_and_key(path)
            try:
                answer = request(store, key)
            except (OSError, BaseError) as error:
                if wait_s is None or not self._renew_keys(
                    path, explain_s3_error(str(error)), wait_s
                ):
                    raise self._os_error(error, path) from None
            else:
                self._note_answer(path)
                return answer
        raise AssertionError("the last attempt returns or raises")

    def _renew_keys(self, path: str, explanation: S3Explanation, wait_s: float) -> bool:
        """Renew refused keys, and wait; return whether to repeat the request."""
        if (
            self._key_provider is None
            or not self._key_provider.can_change
            or not explanation.is_about_keys
        ):
            return False
        is_worth_waiting = explanation.may_be_expired and self._is_known(_bucket_and_key(path)[0])
        if not self._key_provider.renew() and not is_worth_waiting:
            return False
        self.clock.sleep(wait_s)
        return True

    def _is_known(self, bucket: str) -> bool:
        return self.has_answered or bucket in self._answered_buckets

    def _note_answer(self, path: str) -> None:
        """Record that the store has answered, so that later requests wait longer for it."""
        bucket, _ = _bucket_and_key(path)
        if not self._is_known(bucket):
            self._answered_buckets.add(bucket)
            self._stores.pop(bucket, None)

    def _store_and_key(self, path: str) -> tuple[S3Store, str]:
        bucket, key = _bucket_and_key(path)
        store = self._stores.get(bucket)
        if store is None:
            store = self._stores.setdefault(bucket, self._store(bucket))
        return store, key

    def _store(self, bucket: str) -> S3Store:
        settings = self.options.settings_of_bucket(bucket)
        client = settings.pop("client_options")
        is_known = self._is_known(bucket)
        retries = _RETRIES if is_known else _FIRST_RETRIES
        if self.options.max_attempts is not None:
            retries = {**retries, "max_retries": self.options.max_attempts - 1}
        return S3Store(
            bucket,
            credential_provider=self._key_provider,
            retry_config=retries,
            client_options=client if is_known else {**client, **_FIRST_TIMEOUTS},
            **settings,
        )

    def _os_error(self, error: Exception, path: str) -> OSError:
        """Convert the client's error to an `OSError`, with the remedy as a note."""
        explanation = explain_s3_error(str(error))
        problem = self._without_secrets(explanation.problem)
        if (
            self._key_provider is not None
            and self._key_provider.problem
            and explanation.is_about_keys
        ):
            problem += f" (keys could not be renewed: {self._key_provider.problem})"
        os_error: OSError
        if isinstance(error, FileNotFoundError):
            os_error = FileNotFoundError(errno.ENOENT, problem, path)
        elif explanation.is_about_keys or isinstance(error, _REFUSALS):
            os_error = PermissionError(errno.EACCES, problem, path)
        else:
            os_error = OSError(errno.EIO, problem, path)
        if explanation.fix:
            os_error.add_note(explanation.fix)
        return os_error

    def _without_secrets(self, text: str) -> str:
        for secret in self._key_provider.secrets() if self._key_provider is not None else ():
            for form in (secret, quote(secret, safe="")):
                text = text.replace(form, "****") if len(form) >= _SECRET_LENGTH_MIN else text
        return text


class _S3Output:
    """A file that is being written, as a ``pyarrow.PythonFile`` needs it."""

    def __init__(self, writer: WritableFile, os_error_of: Callable[[Exception], OSError]) -> None:
        self._writer = writer
        self._os_error_of = os_error_of
        self._written_size = 0
        self.closed = False

    def write(self, data: bytes | pa.Buffer) -> int:
        """Buffer bytes, and send them when a part is full."""
        with self._errors():
            self._writer.write(memoryview(data).cast("B"))
        self._written_size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written_size

    def flush(self) -> None:
        """Do nothing: an object appears as a whole."""

    def close(self) -> None:
        """Send the rest, so that the object appears."""
        if not self.closed:
            self.closed = True
            with self._errors():
                self._writer.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        # The parts sent so far are lost, so a retry of this request cannot help; Spark retries the
        # task.
        try:
            yield
        except (OSError, BaseError) as error:
            raise self._os_error_of(error) from None


def _size_and_tail(store: S3Store, key: str) -> tuple[int, bytes]:
    """Return the object's size and its last bytes, by one request."""
    try:
        response = obstore.get(store, key, options={"range": {"suffix": TAIL_SIZE}})
        return response.meta["size"], bytes(response.bytes())
    except FileNotFoundError:
        raise
    except BaseError:
        # An empty object has no last bytes, and some stores refuse to return any.
        with contextlib.suppress(BaseError, FileNotFoundError):
            if obstore.head(store, key)["size"] == 0:
                return 0, b""
        raise


def _bucket_and_key(path: str) -> tuple[str, str]:
    match = re.fullmatch(r"s3[an]?://([^/]+)/?(.*?)/*", path)
    if match is None:
        raise UsageError(
            f"{path!r} is not an object of S3", fix="write s3://BUCKET/PATH, as the table's is"
        )
    return match[1], match[2]


def _mark(store: S3Store, key: str) -> str | None:
    return obstore.get(store, key).attributes.get(_WRITER)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
