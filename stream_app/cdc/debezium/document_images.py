"""Which objects of a Debezium message are images of its row; for the searches of `cdc.alike`."""

from __future__ import annotations

from typing import Any

from stream_app.cdc.alike.document_images import DocumentImages
from stream_app.cdc.debezium.record_reader import ADDED_PREFIX, DELETED_FIELD, OP_FIELD


def images_of(document: dict[str, Any]) -> DocumentImages | None:
    """See `document_images.ImagesOf`."""
    if not ("op" in document and ("after" in document or "before" in document)):
        is_delete = document.get(DELETED_FIELD) in ("true", True) or document.get(OP_FIELD) == "d"
        befores, afters = ((document,), ()) if is_delete else ((), (document,))
        return DocumentImages(befores, afters, len(document), is_flat=True, ignored=ADDED_PREFIX)
    before, after = document.get("before"), document.get("after")
    if not all(image is None or isinstance(image, dict) for image in (before, after)):
        return None
    return DocumentImages(
        () if before is None else (before,),
        () if after is None else (after,),
        len(document) + len(before or ()) + len(after or ()),
    )
