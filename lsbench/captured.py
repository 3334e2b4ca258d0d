"""Arrays of .npy and .npz files: headers checked first, numbers only, never unpickled."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from lsbench.errors import TensorError

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
"""What is taken; a value is rounded to the case's dtype once."""

T = TypeVar("T")


def header(path: Path, key: str | None) -> tuple[int, ...]:
    """The shape of a stored array, after its dtype was checked; nothing of its data is read.

    Raises TensorError with one line for a file that is missing, damaged, or holds anything but
    float16, float32 or float64.
    """
    return _opened(path, key, lambda file: _header(file, _where(path, key))[0])


def read(
    path: Path, key: str | None, wanted: tuple[int, ...], repeat: bool = False
) -> npt.NDArray[Any]:
    """The elements of a stored array in row-major order, as a 1-d array in native byte order.

    Raises TensorError as :func:`header` does, and where :func:`check_shape` does.
    """
    check_shape(path, key, header(path, key), wanted, repeat)
    return _opened(path, key, lambda file: _data(file, _where(path, key)))


def check_shape(
    path: Path, key: str | None, stored: tuple[int, ...], wanted: tuple[int, ...], repeat: bool
) -> None:
    """Raise TensorError unless an array of shape ``stored`` fills one of shape ``wanted``.

    The shapes are equal, or the stored array is 1-d of the same size, or ``repeat`` cycles it.
    """
    if stored == wanted or stored == (prod(wanted),):
        return
    if repeat and (prod(stored) > 0 or prod(wanted) == 0):
        return
    raise TensorError(
        f"{_where(path, key)}: shape {list(stored)}, expected {list(wanted)} or [{prod(wanted)}]"
    )


def _where(path: Path, key: str | None) -> str:
    return f"{path}[{key}]" if key else str(path)


def _opened(path: Path, key: str | None, take: Callable[[IO[bytes]], T]) -> T:
    """Hand the stream of an array to ``take``; every foreign error becomes one line."""
    try:
        with path.open("rb") as file:
            magic = file.read(6)
            file.seek(0)
            if magic == b"\x93NUMPY":
                if key is not None:
                    raise TensorError(f"{path}: holds one array, expected no 'key:' for it")
                return take(file)
            if magic[:2] != b"PK":
                raise TensorError(f"{path}: neither .npy nor .npz, expected an array file")
            with zipfile.ZipFile(file) as archive, archive.open(_member(archive, path, key)) as f:
                return take(f)
    except TensorError:
        raise
    except FileNotFoundError:
        raise TensorError(f"{path}: no such file, expected an .npy or .npz file") from None
    except OSError as error:
        reason = error.strerror or error
        raise TensorError(f"{_where(path, key)}: cannot be read: {reason}") from None
    except (
        ValueError,
        EOFError,
        KeyError,
        RuntimeError,
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise TensorError(f"{_where(path, key)}: damaged: {reason}") from None


def _member(archive: zipfile.ZipFile, path: Path, key: str | None) -> str:
    names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    listed = ", ".join(names[:20]) or "no array"
    if key is None:
        raise TensorError(f"{path}: holds {listed}, expected 'key:' with one of them")
    if key not in names:
        raise TensorError(f"{path}: has no {key!r}, expected one of {listed}")
    return f"{key}.npy"


def _header(file: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"format version {version}, expected 1.0 or 2.0")
    reader = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = reader(file)
    if dtype.newbyteorder("=") not in FLOATS:
        raise TensorError(f"{where}: dtype {dtype}, expected float16, float32 or float64")
    if any(n < 0 for n in shape):
        raise ValueError(f"shape {list(shape)}")
    return shape, fortran, dtype


def _data(file: IO[bytes], where: str) -> npt.NDArray[Any]:
    shape, fortran, dtype = _header(file, where)
    needed = prod(shape) * dtype.itemsize
    data = file.read(needed)
    if len(data) < needed:
        raise ValueError(f"truncated: {len(data)} bytes of data, expected {needed}")
    file.read(1)  # at its end a zip member's checksum is verified
    stored = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
    return stored.reshape(shape, order="F").ravel() if fortran else stored
