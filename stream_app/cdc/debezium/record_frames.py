"""Cuts images out of many records, by comparing the bytes around them with known ones.

Only the images of a record describe a row. The rest is its frame, often the larger part; most
frames of a table differ only in digits. So a frame is learnt from one record by a parser, and other
records are compared with it by bytes. Only images remain for the columnar parser:

    {"before":{…},"after":{…},"source":{"version":"3.7.0.Final",…,"lsn":22330072},"op":"u",…}
    ╰ start ╯ ╰─╯╰ middle ╯╰─╯╰────────── tail: a pattern of bytes, with an op and digits ────────╯

Nothing is taken on trust. The tail must be members of a JSON object, and the parser must find each
image to be one object. Then the record is one object with these fields, each once. Called by
`debezium_json`. A record without a known frame, say with blanks or with other fields, is decoded as
a whole.

Source: Debezium `data/Envelope.java` and `connector/AbstractSourceInfo.java` for the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stream_app.cdc.columns.arrow_buffers import (
    Bools,
    Bytes,
    Int64s,
    bytes_of,
    offsets_of,
    slices_of,
)
from stream_app.cdc.columns.byte_patterns import BytePattern, byte_pattern
from stream_app.cdc.columns.nesting import nests_too_deeply
from stream_app.cdc.debezium.image_heads import HEAD_MIN, Heads
from stream_app.cdc.debezium.record_reader import ROW_OPS, TABLE_FIELDS
from stream_app.cdc.json_records.documents import no_constant
from stream_app.cdc.rows.record_images import UnreadableRecordError
from stream_app.cdc.rows.row_assembly import Ops

_TAIL = b',"source":{'
_LITERAL_FIELDS = frozenset({"op", "connector", *TABLE_FIELDS})
_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?|-?[0-9][-+.0-9eE]*')
_FRAMES_KEPT = 32
_MISSES_MAX = 8
_RARE_SHARE = 64
_BLOCK_ROWS = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class RecordFrame:
    """The text that follows the images of a record.

    Attributes:
        tail: from the comma before `source` to the end.
        op_place: of the op's letter in the tail.
        source: what the source says of connector and table, by `TABLE_FIELDS`.
    """

    tail: BytePattern
    op_place: int
    source: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedRecords:
    """The m records among n values that have a known frame, and their s images.

    Attributes:
        rows: int64 [m]; the positions of their values, ascending.
        images: binary [s]; an object each to be, in the order of the records, before and after.
        has_before, has_after: bool [m].
        ops: uint8 [m]; a small letter each.
        codes: int64 [m]; of each record's frame among `frames`.
    """

    rows: Int64s
    images: pa.Array
    has_before: Bools
    has_after: Bools
    ops: Ops
    codes: Int64s
    frames: Sequence[RecordFrame]

    @property
    def first_images(self) -> Int64s:
        """The position of each record's first image, and s at the end: int64 [m + 1]."""
        firsts = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum(self.has_before.astype(np.int8) + self.has_after, out=firsts[1:])
        return firsts

    def image_places(self) -> tuple[Int64s, Int64s]:
        """The positions of each record's images before and after, -1 without one: int64 [m]."""
        firsts = self.first_images[:-1]
        before = np.where(self.has_before, firsts, -1)
        return before, np.where(self.has_after, firsts + self.has_before, -1)

    def texts(self, name: str) -> pa.DictionaryArray:
        """What the source of each record says by this name: dictionary of strings [m]."""
        return texts_of(self.frames, self.codes, name)

    def joined_images(self) -> pa.Array:
        """The bytes of each record's images, concatenated: binary [m], copies nothing."""
        offsets = offsets_of(self.images)[self.first_images].astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), self.images.buffers()[2]]
        return pa.Array.from_buffers(pa.binary(), len(self.rows), buffers)

    def without(self, images: Bools) -> FramedRecords:
        """The mask of records without a marked image: bool [s]."""
        marks = np.concatenate([[0], np.cumsum(images)])[self.first_images]
        kept = marks[1:] == marks[:-1]
        firsts = self.first_images
        return FramedRecords(
            rows=self.rows[kept],
            images=self.images.filter(pa.array(np.repeat(kept, np.diff(firsts)))),
            has_before=self.has_before[kept],
            has_after=self.has_after[kept],
            ops=self.ops[kept],
            codes=self.codes[kept],
            frames=self.frames,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedTails:
    """The m records among n values that end as a known frame does.

    Attributes:
        rows, ops, codes, frames: those of `FramedRecords`.
        lasts: int64 [m]; where each tail begins in the bytes of the values.
    """

    rows: Int64s
    lasts: Int64s
    ops: Ops
    codes: Int64s
    frames: Sequence[RecordFrame]


def texts_of(frames: Sequence[RecordFrame], codes: Int64s, name: str) -> pa.DictionaryArray:
    """What the source of each record says by this name: dictionary of strings [m]."""
    texts = pa.array([frame.source[name] for frame in frames], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts)


@dataclass(slots=True)
class KnownFrames:
    """Frames of earlier records, the most frequent first."""

    _frames: list[RecordFrame] = field(default_factory=list)

    def framed(self, values: pa.Array) -> FramedRecords | None:
        """The records whose frame is known or learnt here; None: too few to be worth it.

        Four values, of which three have a tail T such as ``,"source":{"db":"d"},"op":"u"}``::

            values       [{"before":null,"after":{"k":1}T, {"before":{"k":1},"after":{"k":2}T,
                          {"before":{"k":2},"after":nullT, {"after":{"k":3}}]
            rows         [0, 1, 2]
            images       [{"k":1}, {"k":1}, {"k":2}, {"k":2}]
            has_before   [F, T, T]
            has_after    [T, T, F]

        Args:
            values: binary [n] without nulls.
        """
        data, offsets = bytes_of(values), offsets_of(values).astype(np.int64)
        codes: Int64s = np.full(len(values), -1, np.int64)
        heads = Heads(
            np.repeat(offsets[:-1], 4).reshape(-1, 4), np.zeros((len(values), 2), np.bool_)
        )
        ops: Ops = np.zeros(len(values), np.uint8)
        # In blocks that stay in the processor's cache: what counts is how often memory is read.
        for at in range(0, len(values), _BLOCK_ROWS):
            block = slice(at, at + _BLOCK_ROWS)
            part = Heads(heads.bounds[block], heads.is_image[block])
            ends = offsets[at : at + _BLOCK_ROWS + 1]
            self._find_block(data, ends, codes[block], part, ops[block])
            if 2 * np.count_nonzero(codes[: block.stop] >= 0) < min(block.stop, len(values)):
                self._keep_the_commonest(codes[codes >= 0])
                return None
        rows = np.flatnonzero(codes >= 0)
        if not heads.is_image.any():
            return None
        records = FramedRecords(
            rows=rows,
            images=_images(values, heads),
            has_before=heads.is_image[rows, 0],
            has_after=heads.is_image[rows, 1],
            ops=ops[rows],
            codes=codes[rows],
            frames=tuple(self._frames),
        )
        self._keep_the_commonest(records.codes)
        return records

    def tails(self, values: pa.Array) -> FramedTails | None:
        """The records whose tail is known or learnt here; None: too few to be worth it.

        What stands before a tail is not looked at.

        Args:
            values: binary [n] without nulls.
        """
        data, offsets = bytes_of(values), offsets_of(values).astype(np.int64)
        codes: Int64s = np.full(len(values), -1, np.int64)
        for at in range(0, len(values), _BLOCK_ROWS):
            part = codes[at : at + _BLOCK_ROWS]
            self._match_tails(data, offsets[at : at + _BLOCK_ROWS + 1], part)
            if 2 * np.count_nonzero(part >= 0) < len(part):
                self._keep_the_commonest(codes[codes >= 0])
                return None
        rows = np.flatnonzero(codes >= 0)
        known = codes[rows]
        lasts = offsets[1:][rows] - np.array([len(frame.tail) for frame in self._frames])[known]
        ops = data[lasts + np.array([frame.op_place for frame in self._frames])[known]]
        frames = tuple(self._frames)
        self._keep_the_commonest(known)
        return FramedTails(rows=rows, lasts=lasts, ops=ops, codes=known, frames=frames)

    def _find_block(
        self, data: Bytes, offsets: Int64s, codes: Int64s, heads: Heads, ops: Ops
    ) -> None:
        """Find frames and images of some values, and fill in what is found."""
        ends = offsets[1:]
        self._match_tails(data, offsets, codes)
        rows = np.flatnonzero(codes >= 0)
        if len(rows):
            known = codes[rows]
            tails = ends[rows] - np.array([len(frame.tail) for frame in self._frames])[known]
            is_known = heads.find(data, rows, tails)
            codes[rows[~is_known]] = -1
            ops[rows] = data[tails + np.array([frame.op_place for frame in self._frames])[known]]

    def _match_tails(self, data: Bytes, offsets: Int64s, codes: Int64s) -> None:
        """Give each value the position of its frame; learn new ones."""
        lengths, ends = np.diff(offsets), offsets[1:]
        left = np.flatnonzero(lengths > HEAD_MIN)
        for code, frame in enumerate(self._frames):
            left = _match(frame, code, data, ends, lengths, left, codes)
        misses = 0
        while len(left) and misses < _MISSES_MAX and len(self._frames) < 2 * _FRAMES_KEPT:
            row, before = int(left[0]), len(left)
            learnt = frame_of(data[offsets[row] : offsets[row + 1]].tobytes())
            if learnt is not None:
                left = _match(learnt, len(self._frames), data, ends, lengths, left, codes)
            if learnt is None or len(left) == before:
                left = left[1:]
            else:
                self._frames.append(learnt)
            misses += before - len(left) <= len(codes) // _RARE_SHARE

    def _keep_the_commonest(self, codes: Int64s) -> None:
        counts = np.bincount(codes, minlength=len(self._frames))
        order = np.argsort(-counts, kind="stable")[:_FRAMES_KEPT]
        self._frames = [self._frames[at] for at in order.tolist()]


def frame_of(value: bytes) -> RecordFrame | None:
    """The frame of one record; None when others cannot be compared with it."""
    start = value.rfind(_TAIL)
    if start < 0 or nests_too_deeply(value):
        return None
    tail = value[start:]
    # With a brace for its comma the tail is an object. If it is one, it ends any object as well.
    as_object = b"{" + tail[1:]
    try:
        orjson.loads(as_object)  # which is strict about UTF-8, halves of characters and constants
        fields = json.loads(as_object, object_pairs_hook=_once, parse_constant=no_constant)
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("has a field twice")
    return members


def _ranges(tail: bytes) -> tuple[dict[int, bytes], list[int]]:
    """The places of a tail where other bytes mean a valid tail too; and where an op's letter is."""
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
        for place, byte in enumerate(text, start):
            if ord("0") <= byte <= ord("9"):
                ranges[place] = b"09"
        if not token[1] and len(digits) > 1:
            ranges[start + len(text) - len(digits)] = b"19"
    return ranges, ops


def _match(
    frame: RecordFrame,
    code: int,
    data: Bytes,
    ends: Int64s,
    lengths: Int64s,
    left: Int64s,
    codes: Int64s,
) -> Int64s:
    """Give the code to the values that have the frame; returns those that are left."""
    if not len(left):
        return left
    size = len(frame.tail)
    may = lengths[left] >= size + HEAD_MIN
    starts = np.where(may, ends[left] - size, 0)
    # Few bytes tell most of the others: each tail has the comma and the op at its own distance.
    may &= (data[starts] == ord(",")) & (data[starts + 9] == ord(":"))
    rows = left if may.all() else left[may]
    fits = frame.tail.fits(data, ends[rows] - size)
    codes[rows[fits]] = code
    return left[codes[left] < 0]


def _images(values: pa.Array, heads: Heads) -> pa.Array:
    """The bytes of all images; copies them once."""
    starts, ends = heads.bounds[:, 0::2], heads.bounds[:, 1::2]
    return slices_of(bytes_of(values), starts[heads.is_image], ends[heads.is_image])
