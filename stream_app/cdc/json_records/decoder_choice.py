"""Chooses between the compiled decoder and the array decoder, for formats that have both.

The extra `compiled` has the compiled decoder. Both decoders produce the same
rows, and tests run with both. Run as a program, it compiles the code in advance, and prints which
decoder runs:

    python -m stream_app.cdc.json_records.decoder_choice
"""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.model.options.option import TEXT, Option
from stream_app.variants.json_column import variants_of

if TYPE_CHECKING:
    from stream_app.cdc.compiled.compiled_forms import CompiledForms

DECODER = "decoder"
AUTO, COMPILED, ARRAYS = "auto", "compiled", "arrays"
DECODER_OPTION: Option[Any] = Option(
    DECODER,
    TEXT,
    AUTO,
    "How usual messages are decoded: by machine code, which the extra `compiled` brings, or by "
    "NumPy and Arrow. `auto` takes machine code where the extra is installed. The rows are equal.",
    only=(AUTO, COMPILED, ARRAYS),
)
_MODULE = "stream_app.cdc.compiled.compiled_forms"


def compiled_forms(wanted: str) -> type[CompiledForms] | None:
    """The compiled decoders, or None if NumPy and Arrow decode instead.

    Args:
        wanted: value of the option `DECODER`.

    Raises:
        UsageError: the option requires the compiled decoder, which is not available.
    """
    if wanted == ARRAYS:
        return None
    forms, problem = _imported()
    if forms is None and wanted == COMPILED:
        raise UsageError(
            f"{DECODER} = {COMPILED}: {problem}",
            fix="install it with pip install 'stream_app[compiled]', or take decoder = auto",
        )
    return forms


def decoder_in_use(wanted: str) -> str:
    """The decoder that runs and, if it is not the compiled one, the reason: a part of a log line.

    Raises:
        UsageError: as `compiled_forms` does.
    """
    if compiled_forms(wanted) is not None:
        return f"machine code ({_imported()[1]})"
    return "arrays" if wanted == ARRAYS else f"arrays ({_imported()[1]})"


def compile_ahead() -> None:
    """Compile or load the machine code, if it is available."""
    forms = compiled_forms(AUTO)
    if forms is not None:
        forms.compile()


@functools.cache
def _imported() -> tuple[type[CompiledForms] | None, str]:
    """The decoders and Numba's version, or the reason why they are missing."""
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        missing = f"the package {error.name} is missing" if error.name else str(error)
        return None, missing
    return module.CompiledForms, f"Numba {version('numba')}"


if __name__ == "__main__":
    compile_ahead()
    variants_of(pa.array(["{}"]))
    sys.stdout.write(f"messages are decoded by {decoder_in_use(AUTO)}\n")
