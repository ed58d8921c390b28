"""Chooses between the compiled decoder and the array decoder, for formats that have both.

The extra `compiled` has the compiled decoder. Both decoders produce the same rows, and tests run
with both.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from stream_app.errors import UsageError
from stream_app.machine_code.loaded_code import loaded_code
from stream_app.model.options.option import TEXT, Option
from stream_app.version import install_command

if TYPE_CHECKING:
    from stream_app.cdc.compiled.compiled_layouts import CompiledLayouts

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
_MODULE = "stream_app.cdc.compiled.compiled_layouts"


def compiled_layouts(decoder: str) -> type[CompiledLayouts] | None:
    """Return the compiled decoders, or None if NumPy and Arrow decode instead.

    Args:
        decoder: value of the option `DECODER`.

    Raises:
        UsageError: the option requires the compiled decoder, which is not available.
    """
    if decoder == ARRAYS:
        return None
    module, problem = loaded_code(_MODULE)
    if module is None and decoder == COMPILED:
        raise UsageError(
            f"{DECODER} = {COMPILED}: {problem}",
            fix=f"install it with {install_command('compiled')}, or take decoder = auto",
        )
    return None if module is None else module.CompiledLayouts


def decoder_in_use(decoder: str) -> str:
    """Return the decoder that runs, as a part of a log line.

    If it is not the compiled one, the text includes the reason.

    Raises:
        UsageError: as `compiled_layouts` does.
    """
    if compiled_layouts(decoder) is not None:
        return f"machine code (Numba {version('numba')})"
    return "arrays" if decoder == ARRAYS else f"arrays ({loaded_code(_MODULE)[1]})"


def compile_ahead() -> None:
    """Compile or load the machine code, if it is available."""
    layouts = compiled_layouts(AUTO)
    if layouts is not None:
        layouts.compile()
