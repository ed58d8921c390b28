"""Compiles functions to machine code, and lets them read and write memory by address.

Compiling takes seconds, so Numba caches the code for each processor; loading it takes a fraction of
a second. Numba itself checks only one source file for changes. So the cache folder's name is a
digest of all sources in the function's package and in this one. The folder is in
``NUMBA_CACHE_DIR`` if that is set. Otherwise it is in the package's ``__pycache__``, or, if that
is read-only, in the user's cache folder.

Functions pass addresses, not arrays: for an array Numba counts references at each call, which costs
more than the work of most functions here. Nothing checks an address. So the modules explain why
their functions stay inside the data, and callers of machine code keep its arrays alive.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.cache
def _cache_folder(room: Path) -> str:
    """Return the cache folder for the compiled code of a package.

    Raises:
        ImportError: no folder is writable.
    """
    paths = {path for folder in (room, Path(__file__).parent) for path in folder.glob("*.py")}
    sources = b"".join(path.read_bytes() for path in sorted(paths))
    name = f"numba-{hashlib.sha256(sources).hexdigest()[:16]}"
    package_folder = room / "__pycache__"
    user_folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "stream_app"
    configured_folder = os.environ.get("NUMBA_CACHE_DIR")
    for folder in [Path(configured_folder)] if configured_folder else [package_folder, user_folder]:
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder / name):
                pass
            if folder is not package_folder and (package_folder / name).is_dir():
                # The code was compiled at installation, in a folder that this user cannot write.
                shutil.copytree(package_folder / name, folder / name, dirs_exist_ok=True)
        except OSError:
            continue
        return str(folder / name)
    raise ImportError("Numba has no folder for its code: set NUMBA_CACHE_DIR to a writable folder")


def compiled(function: Function) -> Function:
    """Compile a function at its first call, and keep the result for later processes."""
    config: Any = numba.config
    room = Path(function.__code__.co_filename).parent
    previous_folder, config.CACHE_DIR = config.CACHE_DIR, _cache_folder(room)
    try:
        compiles = numba.njit(
            cache=True, nogil=True, boundscheck=False, error_model="numpy", forceinline=True
        )
        return cast(Function, compiles(function))
    except RuntimeError as error:  # the sources are in an archive
        raise ImportError(f"Numba cannot keep its code: {error}") from error
    finally:
        config.CACHE_DIR = previous_folder


def _address(builder: Any, arguments: Any, bits: int) -> Any:
    """Return a pointer to a value of `bits` bits, at an address or in the table there."""
    address, *index = arguments
    if index:
        size = ir.Constant(ir.IntType(64), bits // 8)
        address = builder.add(address, builder.mul(index[0], size))
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _load(number_type: Any, bits: int) -> Callable[..., Any]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = builder.load(_address(builder, arguments, bits), align=1)
        return value if bits == 64 else builder.zext(value, ir.IntType(64))

    def load(_typing_context: Any, address: Any) -> Any:
        del address
        return number_type(types.int64), generate

    return cast(Callable[..., Any], intrinsic(load))


def _store(bits: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = arguments[2]
        if bits < 64:
            value = builder.trunc(value, ir.IntType(bits))
        builder.store(value, _address(builder, arguments[:2], bits), align=1)
        return context.get_dummy_value()

    def store(_typing_context: Any, table: Any, element_index: Any, value: Any) -> Any:
        del table, element_index, value
        return types.none(types.int64, types.int64, types.int64), generate

    return cast(Callable[..., Any], intrinsic(store))


byte_at: Callable[[int], int] = _load(types.int64, 8)
"""The byte at an address."""
word_at: Callable[[int], np.uint64] = _load(types.uint64, 64)
"""Eight bytes from an address on, as a little-endian number."""
number_at: Callable[[int], int] = _load(types.int64, 64)
"""The int64 at an address."""
length_at: Callable[[int], int] = _load(types.int64, 32)
"""The four bytes at an address, as a little-endian number."""
put_number: Callable[[int, int, int], None] = _store(64)
"""Set an element of a table of int64: the table's address, the index, the value."""
put_int32: Callable[[int, int, int], None] = _store(32)
"""Set an element of a table of int32."""
put_byte: Callable[[int, int, int], None] = _store(8)
"""Set an element of a table of bytes."""


def _low_zero_bytes() -> Callable[..., Any]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.lshr(bits, ir.Constant(ir.IntType(64), 3))

    def low_zeros(_typing_context: Any, word: Any) -> Any:
        return types.int64(word), generate

    return cast(Callable[..., Any], intrinsic(low_zeros))


low_zero_bytes: Callable[[np.uint64], int] = _low_zero_bytes()
"""The number of zero bytes below the lowest byte of a word that is not zero."""


def word_of(text: bytes) -> np.uint64:
    """Return the number that `word_at` reads from these eight bytes."""
    return np.uint64(int.from_bytes(text, "little"))
