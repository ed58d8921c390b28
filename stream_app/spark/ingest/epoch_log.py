"""Spark's own part of a checkpoint: which epochs there are, and where they begin and end.

Source: Spark `OffsetSeqLog`, `CommitLog`, `StreamMetadata`, `KafkaSourceInitialOffsetWriter`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.job_folder import Folder


@dataclass(frozen=True, slots=True)
class EpochLog:
    """Reads what Spark has written; epochs of long ago are gone.

    Attributes:
        folder: the checkpoint.
        goes_back: whether the source has offsets, from which an epoch can be read again.
    """

    folder: Folder
    goes_back: bool

    def is_begun(self) -> bool:
        """Whether Spark has started the query, now or in an earlier run."""
        return self.folder.files.exists(self.folder.path("metadata"))

    def query_id(self) -> str:
        """The streaming query's id, which Spark keeps from its first start on."""
        document = json.loads(self.folder.files.read_bytes(self.folder.path("metadata")))
        return str(document["id"])

    def source_end(self, epoch: int) -> str:
        """The end of an epoch: a line of JSON for each source."""
        data = self.folder.files.read_bytes(self.folder.path(f"offsets/{epoch}"))
        return "\n".join(data.decode().splitlines()[2:])  # after the version and Spark's settings

    def source_begin(self, epoch: int) -> Offsets:
        """The begin of an epoch; partitions that it has met first are missing."""
        if epoch:
            found: Offsets = json.loads(self.source_end(epoch - 1))
            return found
        text = self.folder.files.read_bytes(self.folder.path("sources/0/0")).decode()
        first: Offsets = json.loads(text[text.index("{") :])  # after the version
        return first

    def is_done(self, epoch: int) -> bool:
        """Whether Spark goes on behind the epoch."""
        return self.folder.files.exists(self.folder.path(f"commits/{epoch}"))
