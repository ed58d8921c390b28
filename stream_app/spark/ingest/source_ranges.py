"""The ranges of offsets of each epoch, as Spark's source has planned them.

Spark chooses where an epoch ends and notes it in the checkpoint before it calls the job; the epoch
begins where the one before ended, the first one where the source began. Made on the driver.

Source: Spark `KafkaSourceInitialOffsetWriter.scala`, `OffsetSeqLog.scala`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from stream_app.errors import WrongSourceError
from stream_app.kafka.offset_ranges import EpochRanges, Offsets, epoch_ranges, read_offsets
from stream_app.spark.ingest.checkpoint_state import source_begin, source_end
from stream_app.spark.job_folder import Folder

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceRanges:
    """Of the epochs of a checkpoint.

    Attributes:
        fails_on_loss: whether a partition that is gone is an error; else a line in the log.
    """

    checkpoint: Folder
    fails_on_loss: bool

    def of_epoch(self, epoch: int) -> EpochRanges:
        """What the epoch reads.

        Raises:
            WrongSourceError: a partition is gone, or has become shorter.
        """
        found = epoch_ranges(self._begins(epoch), read_offsets(source_end(self.checkpoint, epoch)))
        if found.losses:
            told = "; ".join(found.losses)
            if self.fails_on_loss:
                raise WrongSourceError(
                    f"records were lost before they were read: {told}",
                    where="source.topics",
                    fix="was the topic deleted or made anew? source.fail-on-data-loss = false goes "
                    "on with what is left",
                )
            _LOG.warning("records were lost before they were read: %s; going on", told)
        return found

    def _begins(self, epoch: int) -> Offsets:
        if epoch == 0:
            return read_offsets(source_begin(self.checkpoint))
        return read_offsets(source_end(self.checkpoint, epoch - 1))
