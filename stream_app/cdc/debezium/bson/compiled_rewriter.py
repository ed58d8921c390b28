"""Messages of MongoDB → messages of a relational table, by machine code.

`plain_messages` calls it first. Slower ways rewrite the messages that machine code declines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools
from stream_app.cdc.debezium.bson.typed_values import TypedColumn
from stream_app.cdc.json_records.decoder import SAMPLE_ROW_COUNT
from stream_app.cdc.json_records.layout_chooser import objects_in

if TYPE_CHECKING:
    from stream_app.cdc.compiled.document_layout import DocumentLayout

_IMAGES = ("after", "before")
_SLICE_ROWS_MAX = 32_768


@dataclass(slots=True)
class CompiledRewriter:
    """A rewriter that uses machine code, for documents in the field order of the first documents.

    Attributes:
        typed_columns: the table's columns that are not STRING, by name.
    """

    layout_class: type[DocumentLayout]
    typed_columns: Mapping[str, TypedColumn]
    _layout: DocumentLayout | None = field(default=None, init=False)

    def rewrite(self, values: pa.Array) -> tuple[list[pa.Array], Bools]:
        """Rewrite the values that machine code accepts.

        Args:
            values: binary [n] without nulls.

        Returns:
            The rewritten values in parts, and their mask: bool [n].
        """
        if self._layout is None:
            order = _names_in(values.slice(0, SAMPLE_ROW_COUNT).to_pylist())
            self._layout = self.layout_class.for_columns(self._forms(), order) if order else None
        parts, masks = [], []
        for start in range(0, len(values), _SLICE_ROWS_MAX):
            part = values.slice(start, _SLICE_ROWS_MAX)
            texts_and_mask = None if self._layout is None else self._layout.rewrite(part)
            texts, is_rewritten = texts_and_mask or (
                pa.array([], pa.binary()),
                np.zeros(len(part), np.bool_),
            )
            parts.append(texts)
            masks.append(is_rewritten)
        return parts, np.concatenate([np.zeros(0, np.bool_), *masks])

    def _forms(self) -> dict[str, Sequence[str]]:
        usual_forms = {name: column.usual_forms() for name, column in self.typed_columns.items()}
        return {
            name: sorted(form.value for form in forms if form.value in self.layout_class.FORMS)
            for name, forms in usual_forms.items()
            if forms is not None
        }


def _names_in(values: Sequence[bytes]) -> list[str]:
    """Return the names of fields in the documents of messages, in their order."""
    documents = objects_in(values)
    documents += [
        document["payload"] for document in documents if isinstance(document.get("payload"), dict)
    ]
    texts = [document.get(name) for document in documents for name in _IMAGES]
    images = objects_in([text.encode() for text in texts if isinstance(text, str)])
    return list(dict.fromkeys(name for image in images for name in image))
