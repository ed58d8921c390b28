"""Cuts images out of many records, by comparing the bytes around them with known bytes.

Only the images of a record describe a row. The rest is its frame, often the larger part; most
frames of a table differ only in digits. So a frame is learnt from one record by a parser, and other
records are compared with it by bytes. Only images remain for the columnar parser:

    {"before":{…},"after":{…},"source":{"version":"3.7.0.Final",…,"lsn":22330072},"op":"u",…}
    ╰ start ╯ ╰─╯╰ middle ╯╰─╯╰────────── tail: a pattern of bytes, with an op and digits ────────╯

Both parts are verified. The tail must be members of a JSON object, and the parser must accept each
image as one object. Then the record is one object with these fields, each once.
`fast_decoding` calls it. `whole_decoding` decodes a record without a known frame, say with blanks
or with other fields.

Source: Debezium `data/Envelope.java` and `connector/AbstractSourceInfo.java` for the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Bytes, Int64s, bytes_of, offsets_of, slices_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.byte_patterns import BytePattern, byte_pattern
from stream_app.cdc.columns.nesting_limit import nests_too_deeply
from stream_app.cdc.debezium.decoding.image_heads import HEAD_MIN, ImageHeads, find_heads
from stream_app.cdc.debezium.decoding.one_record import ROW_OPS, TABLE_FIELDS
from stream_app.cdc.json_message import refuse_constant
from stream_app.cdc.rows.row_assembly import Ops

_TAIL = b',"source":{'
_TAIL_COLON = _TAIL.index(b":")
_LITERAL_FIELDS = frozenset({"op", "connector", *TABLE_FIELDS})
_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?|-?[0-9][-+.0-9eE]*')
_FRAMES_MAX = 32
"""The number of frames that are kept, because each costs a comparison with unmatched records."""
_MISSES_MAX = 8
"""Rare or unusable frames of a block after which the search learns no more."""
_RARE_SHARE = 64
"""A frame is rare if it matches at most this share of a block, 1 in 64."""
_BLOCK_ROW_COUNT = 4_096
"""The number of values in a block: so few fit into the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordFrame:
    """The text that follows the images of a record.

    Attributes:
        tail: the bytes from the comma before `source` to the end.
        op_position: the position of the op's letter in the tail.
        source: the connector and the table in the source block, by `TABLE_FIELDS`.
    """

    tail: BytePattern
    op_position: int
    source: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedRecords:
    """The m records among n values that have a known frame, and their s images.

    Attributes:
        indices: int64 [m]; the indices of their values, ascending.
        images: binary [s]; presumably one object each, in the order of the records, before and
            after.
        has_before, has_after: bool [m].
        ops: uint8 [m]; one lower-case letter per record.
        codes: int64 [m]; the index of each record's frame in `frames`.
    """

    indices: Int64s
    images: pa.Array
    has_before: Bools
    has_after: Bools
    ops: Ops
    codes: Int64s
    frames: Sequence[RecordFrame]

    @property
    def first_images(self) -> Int64s:
        """The index of each record's first image, and s at the end: int64 [m + 1]."""
        firsts = np.zeros(len(self.indices) + 1, np.int64)
        np.cumsum(self.has_before.astype(np.int8) + self.has_after, out=firsts[1:])
        return firsts

    def image_indices(self) -> tuple[Int64s, Int64s]:
        """Return the indices of each record's two images, -1 without one: int64 [m] each."""
        firsts = self.first_images[:-1]
        before = np.where(self.has_before, firsts, -1)
        return before, np.where(self.has_after, firsts + self.has_before, -1)

    def joined_images(self) -> pa.Array:
        """Return the bytes of each record's images, concatenated without a copy: binary [m]."""
        offsets = offsets_of(self.images)[self.first_images].astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), self.images.buffers()[2]]
        return pa.Array.from_buffers(pa.binary(), len(self.indices), buffers)

    def without_images(self, is_excluded: Bools) -> FramedRecords:
        """Return the records without excluded images; `is_excluded` is bool [s]."""
        excluded_counts = np.concatenate([[0], np.cumsum(is_excluded)])[self.first_images]
        is_kept = excluded_counts[1:] == excluded_counts[:-1]
        firsts = self.first_images
        return FramedRecords(
            indices=self.indices[is_kept],
            images=self.images.filter(pa.array(np.repeat(is_kept, np.diff(firsts)))),
            has_before=self.has_before[is_kept],
            has_after=self.has_after[is_kept],
            ops=self.ops[is_kept],
            codes=self.codes[is_kept],
            frames=self.frames,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedTails:
    """The m records among n values that end like a known frame.

    Attributes:
        indices: int64 [m]; the indices of their values, ascending.
        ops: uint8 [m]; one lower-case letter per record.
        codes: int64 [m]; the index of each record's frame in `frames`.
        tail_starts: int64 [m]; where each tail begins in the bytes of the values.
    """

    indices: Int64s
    tail_starts: Int64s
    ops: Ops
    codes: Int64s
    frames: Sequence[RecordFrame]


def known_texts(frames: Sequence[RecordFrame], codes: Int64s, name: str) -> pa.DictionaryArray:
    """Return the source's field of this name in each record: dictionary of strings [m]."""
    texts = pa.array([frame.source[name] for frame in frames], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts)


@dataclass(slots=True)
class KnownFrames:
    """Frames of earlier records, the most frequent first."""

    _frames: list[RecordFrame] = field(init=False, default_factory=list)

    def find_framed(self, values: pa.Array) -> FramedRecords | None:
        """Find the records whose frame is known or can be learnt; None if they are too few.

        Four values, of which three have a tail T such as ``,"source":{"db":"d"},"op":"u"}``::

            values       [{"before":null,"after":{"k":1}T, {"before":{"k":1},"after":{"k":2}T,
                          {"before":{"k":2},"after":nullT, {"after":{"k":3}}]
            indices      [0, 1, 2]
            images       [{"k":1}, {"k":1}, {"k":2}, {"k":2}]
            has_before   [F, T, T]
            has_after    [T, T, F]

        Args:
            values: binary [n] without nulls.
        """
        data, offsets = bytes_of(values), offsets_of(values).astype(np.int64)
        framed_blocks: list[_FramedBlock] = []
        framed_count = 0
        for first_index, block_offsets in _blocks(offsets):
            framed_blocks.append(self._framed_block(data, block_offsets, first_index))
            framed_count += len(framed_blocks[-1].tails.indices)
            if 2 * framed_count < first_index + len(block_offsets) - 1:
                self._keep_most_frequent([framed_block.tails for framed_block in framed_blocks])
                return None
        tails = self._join_tails([framed_block.tails for framed_block in framed_blocks])
        bounds = np.concatenate([framed_block.heads.bounds for framed_block in framed_blocks])
        is_image = np.concatenate([framed_block.heads.is_image for framed_block in framed_blocks])
        if not is_image.any():
            return None
        self._keep_most_frequent([tails])
        return FramedRecords(
            indices=tails.indices,
            images=slices_of(data, bounds[:, 0::2][is_image], bounds[:, 1::2][is_image]),
            has_before=is_image[:, 0],
            has_after=is_image[:, 1],
            ops=tails.ops,
            codes=tails.codes,
            frames=tails.frames,
        )

    def tails(self, values: pa.Array) -> FramedTails | None:
        """Find the records whose tail is known or can be learnt; None if they are too few.

        The search ignores the bytes before the tail.

        Args:
            values: binary [n] without nulls.
        """
        data, offsets = bytes_of(values), offsets_of(values).astype(np.int64)
        all_tails: list[FramedTails] = []
        for first_index, block_offsets in _blocks(offsets):
            all_tails.append(self._block_tails(data, block_offsets, first_index))
            if 2 * len(all_tails[-1].indices) < len(block_offsets) - 1:
                self._keep_most_frequent(all_tails)
                return None
        tails = self._join_tails(all_tails)
        self._keep_most_frequent([tails])
        return tails

    def _framed_block(self, data: Bytes, offsets: Int64s, first_index: int) -> _FramedBlock:
        """Find the records with a known tail and images among the values of a block."""
        tails = self._block_tails(data, offsets, first_index)
        heads, has_head = find_heads(data, offsets[tails.indices - first_index], tails.tail_starts)
        if has_head.all():
            return _FramedBlock(tails, heads)
        tails = replace(
            tails,
            indices=tails.indices[has_head],
            tail_starts=tails.tail_starts[has_head],
            ops=tails.ops[has_head],
            codes=tails.codes[has_head],
        )
        return _FramedBlock(tails, ImageHeads(heads.bounds[has_head], heads.is_image[has_head]))

    def _block_tails(self, data: Bytes, offsets: Int64s, first_index: int) -> FramedTails:
        """Find the records with a known tail among the values of a block.

        Args:
            offsets: int64 [n + 1]; of the block's values in the data.
            first_index: the index of the block's first value.
        """
        codes = self._frame_codes(data, offsets)
        indices = np.flatnonzero(codes >= 0)
        codes, frames = codes[indices], tuple(self._frames)
        tail_lengths = np.array([len(frame.tail) for frame in frames], np.int64)
        op_positions = np.array([frame.op_position for frame in frames], np.int64)
        tail_starts = offsets[1:][indices] - tail_lengths[codes]
        return FramedTails(
            indices=indices + first_index,
            tail_starts=tail_starts,
            ops=data[tail_starts + op_positions[codes]],
            codes=codes,
            frames=frames,
        )

    def _frame_codes(self, data: Bytes, offsets: Int64s) -> Int64s:
        """Return the index of each value's frame, or -1: int64 [n]; learn new frames."""
        codes: Int64s = np.full(len(offsets) - 1, -1, np.int64)
        unmatched_indices = np.flatnonzero(np.diff(offsets) > HEAD_MIN)
        for code, frame in enumerate(self._frames):
            codes[_indices_with_tail(frame.tail, data, offsets, unmatched_indices)] = code
            unmatched_indices = unmatched_indices[codes[unmatched_indices] < 0]
        miss_count = 0
        while (
            len(unmatched_indices)
            and miss_count < _MISSES_MAX
            and len(self._frames) < 2 * _FRAMES_MAX
        ):
            index, unmatched_count = int(unmatched_indices[0]), len(unmatched_indices)
            new_frame = frame_of(data[offsets[index] : offsets[index + 1]].tobytes())
            if new_frame is not None:
                codes[_indices_with_tail(new_frame.tail, data, offsets, unmatched_indices)] = len(
                    self._frames
                )
                unmatched_indices = unmatched_indices[codes[unmatched_indices] < 0]
            if new_frame is None or len(unmatched_indices) == unmatched_count:
                unmatched_indices = unmatched_indices[1:]
            else:
                self._frames.append(new_frame)
            miss_count += unmatched_count - len(unmatched_indices) <= len(codes) // _RARE_SHARE
        return codes

    def _join_tails(self, all_tails: Sequence[FramedTails]) -> FramedTails:
        return FramedTails(
            indices=np.concatenate([tails.indices for tails in all_tails]),
            tail_starts=np.concatenate([tails.tail_starts for tails in all_tails]),
            ops=np.concatenate([tails.ops for tails in all_tails]),
            codes=np.concatenate([tails.codes for tails in all_tails]),
            frames=tuple(self._frames),
        )

    def _keep_most_frequent(self, all_tails: Sequence[FramedTails]) -> None:
        codes = np.concatenate([tails.codes for tails in all_tails])
        counts = np.bincount(codes, minlength=len(self._frames))
        order = np.argsort(-counts, kind="stable")[:_FRAMES_MAX]
        self._frames = [self._frames[code] for code in order.tolist()]


@dataclass(frozen=True, slots=True)
class _FramedBlock:
    """The records of a block that have a known tail, and the images of each."""

    tails: FramedTails
    heads: ImageHeads


def _blocks(offsets: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Yield the index of each block's first value and the offsets of its values.

    It yields at least one block.
    """
    for start in range(0, max(len(offsets) - 1, 1), _BLOCK_ROW_COUNT):
        yield start, offsets[start : start + _BLOCK_ROW_COUNT + 1]


def frame_of(value: bytes) -> RecordFrame | None:
    """Return the frame of one record, or None if other records cannot be compared with it."""
    start = value.rfind(_TAIL)
    if start < 0 or nests_too_deeply(value):
        return None
    tail = value[start:]
    # With a brace in place of its comma, the tail must be an object. Then it can end any object.
    as_object = b"{" + tail[1:]
    try:
        orjson.loads(as_object)  # This parser is strict about UTF-8, lone surrogates and constants.
        fields = json.loads(
            as_object, object_pairs_hook=_object_without_repeats, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError, UnreadableRecordError):
        return None
    op = fields.get("op")
    has_images = not fields.keys().isdisjoint({"before", "after"})
    if has_images or not isinstance(op, str) or op not in ROW_OPS:
        return None
    source = fields["source"]
    names = {name: source.get(name) for name in ("connector", *TABLE_FIELDS)}
    if not all(name is None or isinstance(name, str) for name in names.values()):
        return None
    ranges, ops = _ranges(tail)
    if len(ops) != 1:
        return None
    return RecordFrame(byte_pattern(tail, ranges), ops[0], names)


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("has a field twice")
    return members


def _ranges(tail: bytes) -> tuple[dict[int, bytes], list[int]]:
    """Return the bytes of a tail that may differ, with their ranges; and the positions of ops."""
    ranges: dict[int, bytes] = {}
    ops: list[int] = []
    name = ""
    for token in _TOKEN.finditer(tail):
        text, start = token[0], token.start()
        if token[2]:
            name = orjson.loads(token[1])
            continue
        if name == "op" and token[1]:
            ops.append(start + 1)
            ranges[start + 1] = b"az"
        if name in _LITERAL_FIELDS or b"\\u" in text:
            continue
        digits = text.removeprefix(b"-")
        if not (token[1] or digits.isdigit()):
            continue  # a fraction or an exponent
        for position, byte in enumerate(text, start):
            if ord("0") <= byte <= ord("9"):
                ranges[position] = b"09"
        if not token[1] and len(digits) > 1:
            ranges[start + len(text) - len(digits)] = b"19"
    return ranges, ops


def _indices_with_tail(tail: BytePattern, data: Bytes, offsets: Int64s, indices: Int64s) -> Int64s:
    """Return the rows whose value ends with the tail, after at least `HEAD_MIN` bytes."""
    starts = offsets[1:][indices] - len(tail)
    may_have_tail = starts - offsets[indices] >= HEAD_MIN
    starts[~may_have_tail] = 0
    # A few bytes exclude most other tails: the comma and the op are at a distance of their own.
    may_have_tail &= (data[starts] == ord(",")) & (data[starts + _TAIL_COLON] == ord(":"))
    if not may_have_tail.all():
        indices, starts = indices[may_have_tail], starts[may_have_tail]
    return indices[tail.fits(data, starts)]
