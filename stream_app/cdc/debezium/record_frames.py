"""The bytes around the images of many records, compared with those of a few: images are cut out.

Of a record only the images tell of a row. All else of it, its frame, is the same in most records of
a table but for digits, and often the larger part. So a frame is learnt from one record by a parser,
and other records are compared with it by bytes. What is left for the columnar parser are images:

    {"before":{…},"after":{…},"source":{"version":"3.7.0.Final",…,"lsn":22330072},"op":"u",…}
    ╰ start ╯ ╰─╯╰ middle ╯╰─╯╰──────────── tail: a pattern of bytes, with an op and digits ────────╯

Nothing is taken on trust. When the tail is members of a JSON object, and the parser finds each
image to be one object, then the record is one object with these fields, each once.

Called by `debezium_json`. A record without a known frame, say with blanks or with other fields, is
decoded as a whole.

Source: Debezium `data/Envelope.java` and `connector/AbstractSourceInfo.java` for the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from stream_app.cdc.columns.arrow_buffers import (
    Bools,
    Bytes,
    Int64s,
    bytes_of,
    lengths_of,
    offsets_of,
)
from stream_app.cdc.columns.byte_patterns import BytePattern, byte_pattern
from stream_app.cdc.columns.nesting import nests_too_deeply
from stream_app.cdc.debezium.record_reader import ROW_OPS, TABLE_FIELDS, no_constant
from stream_app.cdc.record_images import UnreadableRecordError
from stream_app.cdc.row_assembly import Ops

_START, _MIDDLE, _TAIL = b'{"before":', b',"after":', b',"source":{'
_NULL = b"null"
_HEAD_MIN = len(_START + _NULL + _MIDDLE + _NULL)
_LITERAL_FIELDS = frozenset({"op", "connector", *TABLE_FIELDS})
_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?|-?[0-9][-+.0-9eE]*')
_FRAMES_KEPT = 32
_MISSES_MAX = 8
_RARE_SHARE = 64
_ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class RecordFrame:
    """What follows the images of a record.

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
        """Of each record the position of its first image, and at the end s: int64 [m + 1]."""
        firsts = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum(self.has_before.astype(np.int8) + self.has_after, out=firsts[1:])
        return firsts

    def image_places(self) -> tuple[Int64s, Int64s]:
        """The positions of each record's images before and after, -1 without one: int64 [m]."""
        firsts = self.first_images[:-1]
        before = np.where(self.has_before, firsts, -1)
        return before, np.where(self.has_after, firsts + self.has_before, -1)

    def told(self, name: str) -> pa.Array:
        """What the source of each record says by this name: string [m]."""
        texts = pa.array([frame.source[name] for frame in self.frames], pa.string())
        return texts.take(pa.array(self.codes))

    def joined_images(self) -> pa.Array:
        """The bytes of each record's images, one behind the other: binary [m], copies nothing."""
        offsets = offsets_of(self.images)[self.first_images].astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), self.images.buffers()[2]]
        return pa.Array.from_buffers(pa.binary(), len(self.rows), buffers)

    def without(self, images: Bools) -> FramedRecords:
        """Those records of which no image is marked: bool [s]."""
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


@dataclass(slots=True)
class KnownFrames:
    """Frames from earlier records, those of the most records first."""

    _frames: list[RecordFrame] = field(default_factory=list)

    def framed(self, values: pa.Array) -> FramedRecords | None:
        """The records with a frame that is known, or learnt now; None: too few to be worth it.

        Args:
            values: binary [n] without nulls.
        """
        data, offsets = bytes_of(values), offsets_of(values).astype(np.int64)
        codes = self._codes(values, data, offsets[1:])
        if 2 * np.count_nonzero(codes >= 0) < len(values):
            return None
        tails = offsets[1:] - np.array([len(frame.tail) for frame in self._frames])[codes]
        tails[codes < 0] = offsets[1:][codes < 0]
        heads = _heads_of(data, offsets[:-1], tails, codes >= 0)
        rows = np.flatnonzero(heads.known)
        if 2 * len(rows) < len(values) or not heads.is_image.any():
            return None
        codes = codes[rows]
        ops = np.array([frame.op_place for frame in self._frames])[codes]
        found = FramedRecords(
            rows=rows,
            images=_images(values, offsets, heads),
            has_before=heads.is_image[rows, 0],
            has_after=heads.is_image[rows, 1],
            ops=data[tails[rows] + ops],
            codes=codes,
            frames=tuple(self._frames),
        )
        self._keep_the_commonest(codes)
        return found

    def _codes(self, values: pa.Array, data: Bytes, ends: Int64s) -> Int64s:
        """For each value the position of its frame; -1: none."""
        codes: Int64s = np.full(len(values), -1, np.int64)
        lengths = lengths_of(values)
        left = np.flatnonzero(lengths > _HEAD_MIN)
        for code, frame in enumerate(self._frames):
            left = _match(frame, code, data, ends, lengths, left, codes)
        misses = 0
        while len(left) and misses < _MISSES_MAX and len(self._frames) < 2 * _FRAMES_KEPT:
            frame_learnt, before = frame_of(values[int(left[0])].as_py()), len(left)
            if frame_learnt is not None:
                code = len(self._frames)
                left = _match(frame_learnt, code, data, ends, lengths, left, codes)
            if len(left) == before:
                left = left[1:]
            else:
                assert frame_learnt is not None
                self._frames.append(frame_learnt)
            misses += before - len(left) <= len(values) // _RARE_SHARE
        return codes

    def _keep_the_commonest(self, codes: Int64s) -> None:
        counts = np.bincount(codes, minlength=len(self._frames))
        order = np.argsort(-counts, kind="stable")[:_FRAMES_KEPT]
        self._frames = [self._frames[at] for at in order.tolist()]


def frame_of(value: bytes) -> RecordFrame | None:
    """The frame of one record; None where others cannot be compared with it."""
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
    if not isinstance(op, str) or op not in ROW_OPS:
        return None
    if not fields.keys().isdisjoint({"before", "after"}):
        return None
    source = fields["source"]
    told = {name: source.get(name) for name in ("connector", *TABLE_FIELDS)}
    if not all(name is None or isinstance(name, str) for name in told.values()):
        return None
    ranges, ops = _ranges(tail)
    if len(ops) != 1:
        return None
    return RecordFrame(byte_pattern(tail, ranges), ops[0], told)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("has a field twice")
    return found


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
    lengths: npt.NDArray[np.int32],
    left: Int64s,
    codes: Int64s,
) -> Int64s:
    """Give the code to the values that have the frame; returns those that are left."""
    if not len(left):
        return left
    size = len(frame.tail)
    may = lengths[left] >= size + _HEAD_MIN
    starts = np.where(may, ends[left] - size, 0)
    # Few bytes tell most of the others: each tail has the comma and the op at its own distance.
    may &= (data[starts] == ord(",")) & (data[starts + 9] == ord(":"))
    rows = left if may.all() else left[may]
    fits = frame.tail.fits(data, ends[rows] - size)
    codes[rows[fits]] = code
    return left[codes[left] < 0]


@dataclass(frozen=True, slots=True)
class _Heads:
    """Where the images of n values lie.

    Attributes:
        known: bool [n]; whether all bytes before the tail are known or an image's.
        bounds: int64 [n, 4]; start and end of each image.
        is_image: bool [n, 2]; else it is null.
    """

    known: Bools
    bounds: Int64s
    is_image: Bools


@dataclass(frozen=True, slots=True)
class _Words:
    """Eight bytes at any places of some data."""

    data: Bytes

    def at(self, places: Int64s, word: bytes) -> Bools:
        """Where the word stands; each place is one of the data's, eight bytes before its end."""
        words: npt.NDArray[np.uint64] = np.ndarray(
            (len(self.data) - 7,), "<u8", self.data.data, 0, (1,)
        )
        found: Bools = words[places] == int.from_bytes(word, "little")
        return found


def _heads_of(data: Bytes, starts: Int64s, tails: Int64s, known: Bools) -> _Heads:
    """
    Args:
        starts, tails: where each value and its tail begin.
        known: which values have a known tail; at others nothing is looked for.
    """
    word = _Words(data)
    rows = np.flatnonzero(known)
    start, last = starts[rows], tails[rows]
    first = start + len(_START)
    begins = word.at(start, b'{"before') & word.at(start + 2, b'before":')
    no_before = word.at(start + 8, b'":null,"') & word.at(start + 15, b'"after":')
    ends_null = word.at(last - 8, b'er":null') & word.at(last - 13, b',"after"')
    middle = np.where(no_before, first + len(_NULL), last - len(_MIDDLE + _NULL))
    both = np.flatnonzero(begins & ~no_before & ~ends_null)
    middle[both] = _middles(word, first[both], last[both])
    found = begins & (middle >= first)
    middle = np.where(found, middle, first)
    behind = np.minimum(middle + len(_MIDDLE), last)
    no_after = ends_null & (last - behind == len(_NULL))
    found &= no_before | _is_braced(data, first, middle)
    found &= no_after | _is_braced(data, behind, last)
    heads = _Heads(
        known=np.zeros(len(starts), np.bool_),
        bounds=np.repeat(starts, 4).reshape(-1, 4),
        is_image=np.zeros((len(starts), 2), np.bool_),
    )
    rows = rows[found]
    heads.known[rows] = True
    heads.bounds[rows] = np.stack([first, middle, behind, last], axis=1)[found]
    heads.is_image[rows] = np.stack([~no_before, ~no_after], axis=1)[found]
    return heads


def _is_braced(data: Bytes, starts: Int64s, ends: Int64s) -> Bools:
    found: Bools = (data[starts] == ord("{")) & (data[ends - 1] == ord("}"))
    return found & (ends >= starts + 2)


def _middles(word: _Words, firsts: Int64s, lasts: Int64s) -> Int64s:
    """Where `_MIDDLE` stands between two objects; -1: nowhere, or at several places."""
    data = word.data
    # Images of one row are often of one length.
    middles = (firsts + lasts - len(_MIDDLE)) // 2
    left = np.flatnonzero(~_is_middle(word, middles))
    for rows in np.array_split(left, len(left) // _ROWS_AT_ONCE + 1):
        middles[rows] = -1
        if len(rows):
            start, end = int(firsts[rows[0]]), int(lasts[rows[-1]])
            places = start + _pairs_in(data[start:end], b"},") + 1
            places = places[places < end - len(_MIDDLE)]
            places = places[_is_middle(word, places)]
            owners = np.searchsorted(firsts[rows], places, side="right") - 1
            inside = places < lasts[rows][owners]
            owners, places = owners[inside], places[inside]
            single = np.bincount(owners, minlength=len(rows))[owners] == 1
            middles[rows[owners[single]]] = places[single]
    return middles


def _is_middle(word: _Words, places: Int64s) -> Bools:
    data = word.data
    found: Bools = word.at(places, b',"after"') & word.at(places + 1, b'"after":')
    found &= (data[places - 1] == ord("}")) & (data[places + len(_MIDDLE)] == ord("{"))
    return found


def _pairs_in(data: Bytes, pair: bytes) -> Int64s:
    """Where two bytes stand, ascending."""
    wanted = np.frombuffer(pair, np.uint16)[0]
    found = [
        2
        * np.flatnonzero(
            data[shift : shift + (len(data) - shift) // 2 * 2].view(np.uint16) == wanted
        )
        + shift
        for shift in (0, 1)
    ]
    return np.sort(np.concatenate(found))


def _images(values: pa.Array, offsets: Int64s, heads: _Heads) -> pa.Array:
    """The bytes of all images; copies them once."""
    bounds = np.empty((len(values), 5), np.int32)
    bounds[:, 0] = offsets[:-1]
    bounds[:, 1:] = heads.bounds
    ends = np.append(bounds.reshape(-1), np.int32(offsets[-1]))
    wanted = np.zeros((len(values), 5), np.bool_)
    wanted[:, 1], wanted[:, 3] = heads.is_image[:, 0], heads.is_image[:, 1]
    pieces = pa.Array.from_buffers(
        pa.binary(), 5 * len(values), [None, pa.py_buffer(ends), values.buffers()[2]]
    )
    return pieces.filter(pa.array(wanted.reshape(-1)))
