"""Lists the layouts of the compiled decoders, by what they read.

`decoder_choice` loads it for every format. A new layout is a line in the class and in `compile`.
"""

from __future__ import annotations

from typing import ClassVar

from stream_app.cdc.compiled.avro_layout import AvroLayout
from stream_app.cdc.compiled.document_layout import DocumentLayout
from stream_app.cdc.compiled.image_columns import ImageLayout


class CompiledLayouts:
    """The compiled decoders.

    Attributes:
        images: decodes row images as JSON.
        avro: decodes Avro messages.
        documents: decodes messages with MongoDB's documents.
    """

    images: ClassVar[type[ImageLayout]] = ImageLayout
    avro: ClassVar[type[AvroLayout]] = AvroLayout
    documents: ClassVar[type[DocumentLayout]] = DocumentLayout

    @classmethod
    def compile(cls) -> None:
        """Compile or load all machine code, so that the first messages need not wait for it."""
        cls.images.compile()
        cls.avro.compile()
        cls.documents.compile()
