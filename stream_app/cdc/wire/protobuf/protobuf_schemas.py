"""Compiles the text of a Protobuf schema, and describes its messages' fields.

protoc itself compiles it, which the extra ``protobuf`` installs (ADR 38). Each process compiles a
schema once.

Source: Protobuf's "Language guide", field presence; Confluent's "Wire format" for message indexes.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import RegisteredSchema, SchemaKind, Schemas
from stream_app.cdc.wire.protobuf.protobuf_cursor import PATH_MAX
from stream_app.errors import UsageError
from stream_app.process.local_disk import scratch_folder
from stream_app.version import install_command

_ROOT = "stream_app_registered.proto"
_IMPORTED_FILE = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*\.proto")
_WELL_KNOWN_TYPES = "google/protobuf/"
"""The folder of the files that protoc brings."""
_SHOWN_LENGTH_MAX = 160


def check_protoc(name: str) -> None:
    """Check that protoc is installed.

    Args:
        name: the name of the format, for the error.

    Raises:
        UsageError: the extra is not installed.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise UsageError(
            f"the format {name} needs protoc, which is not installed",
            where="source.format",
            fix=f"{install_command('protobuf')}, on the driver and all executors",
        )


def message_class(schemas: Schemas, schema_number: int, path: Sequence[int]) -> Any:
    """Return the class of messages of a schema.

    Args:
        schema_number: -1 stands for messages that are not in the wire format.
        path: the index of the message's type, and of types within.

    Raises:
        UnreadableRecordError: the schema has no such message.
        SourceError: no registry answers.
    """
    registered_schema = schemas.schema(schema_number)
    registered_schema.check(SchemaKind.PROTOBUF)
    if not path:
        raise UnreadableRecordError(
            f"is not Protobuf of schema {schema_number}: it has no index of a message's type, or "
            f"more than {PATH_MAX}"
        )
    compiled_schema = _compile(registered_schema)
    if isinstance(compiled_schema, str):
        raise UnreadableRecordError(compiled_schema)
    from google.protobuf import message_factory  # noqa: PLC0415

    message_type = None
    message_types = list(compiled_schema.message_types_by_name.values())
    for index in path:
        if not 0 <= index < len(message_types):
            path_text = ", ".join(map(str, path[:8]))
            raise UnreadableRecordError(
                f"names schema {schema_number}, which has no message of index {path_text}"
            )
        message_type = message_types[index]
        message_types = list(message_type.nested_types)
    return message_factory.GetMessageClass(message_type)


@lru_cache(maxsize=256)
def _compile(registered_schema: RegisteredSchema) -> Any:
    """Return the descriptor of the schema's file, or the reason of bad records without one."""
    from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: PLC0415

    try:
        compiled_bytes = _run_protoc(registered_schema)
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(compiled_bytes).file:
            pool.Add(file)
        return pool.FindFileByName(_ROOT)
    except UnreadableRecordError as problem:
        return str(problem)
    except Exception as error:  # protoc and the pool raise many kinds of errors
        error_text = f"{type(error).__name__}: {error}"
        return f"has a schema that is not Protobuf's: {error_text}"[:_SHOWN_LENGTH_MAX]


def _run_protoc(registered_schema: RegisteredSchema) -> bytes:
    """Return the compiled files, those of the references before the schema itself."""
    import grpc_tools  # noqa: PLC0415
    from grpc_tools import protoc  # noqa: PLC0415

    well_known_types = Path(grpc_tools.__file__).with_name("_proto")
    with scratch_folder("protobuf") as folder:
        for name, text in ((_ROOT, registered_schema.text), *registered_schema.references):
            if name.startswith(_WELL_KNOWN_TYPES):
                continue
            if not _IMPORTED_FILE.fullmatch(name):
                raise UnreadableRecordError(
                    f"has a schema that imports {name[:_SHOWN_LENGTH_MAX]!r}, "
                    "which is not a file name"
                )
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        output_file = Path(folder, "compiled")
        paths = [f"-I{folder}", f"-I{well_known_types}"]
        exit_code = protoc.main(
            ["protoc", *paths, "--include_imports", f"--descriptor_set_out={output_file}", _ROOT]
        )
        if exit_code or not output_file.exists():
            raise UnreadableRecordError("has a schema that is not Protobuf's: protoc refuses it")
        return output_file.read_bytes()
