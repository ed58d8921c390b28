"""MySQL's geometries as Canal sends them → GeoJSON, the text that Paimon stores.

The bytes are a number for the reference system, and then the well-known binary form (WKB).

Source: OGC "Simple Features", well-known binary; Paimon `mysql/MySqlTypeUtils.java`.
"""

from __future__ import annotations

import json
import struct
from typing import Any

_NAMES = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_DEPTH_MAX = 32


def geometry_json(text: str) -> str:
    """The GeoJSON of a geometry's bytes, which are text of ISO 8859-1.

    Raises:
        ValueError: they are no geometry.
    """
    try:
        data = text.encode("latin-1")
        (srid,) = struct.unpack_from("<I", data)
        reader = _Reader(data, 4)
        name, inner = reader.geometry(0)
    except (UnicodeEncodeError, struct.error, KeyError, RecursionError):
        raise ValueError("is not a geometry as MySQL stores it") from None
    if reader.at != len(data):
        raise ValueError("is not a geometry as MySQL stores it")
    field = "geometries" if name == _NAMES[7] else "coordinates"
    return json.dumps({field: inner, "type": name, "srid": srid}, separators=(",", ":"))


class _Reader:
    """Reads well-known binary from a place on."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def geometry(self, depth: int) -> tuple[str, Any]:
        """A geometry's name and coordinates; for a collection, its geometries."""
        if depth > _DEPTH_MAX:
            raise RecursionError
        (order,) = self._take("<B")
        end = ">" if order == 0 else "<"
        (kind,) = self._take(f"{end}I")
        name = _NAMES[kind]
        match kind:
            case 1:
                return name, self._point(end)
            case 2:
                return name, self._points(end)
            case 3:
                return name, [self._points(end) for _ in range(self._count(end))]
            case _:
                parts = [self.geometry(depth + 1) for _ in range(self._count(end))]
                if kind == 7:
                    return name, [{"type": of, "coordinates": inner} for of, inner in parts]
                return name, [inner for _, inner in parts]

    def _point(self, end: str) -> list[float]:
        return [int(one) if one.is_integer() else one for one in self._take(f"{end}2d")]

    def _points(self, end: str) -> list[list[float]]:
        return [self._point(end) for _ in range(self._count(end))]

    def _count(self, end: str) -> int:
        (count,) = self._take(f"{end}I")
        if count > len(self._data):
            raise struct.error
        return int(count)

    def _take(self, form: str) -> tuple[Any, ...]:
        numbers = struct.unpack_from(form, self._data, self.at)
        self.at += struct.calcsize(form)
        return numbers
