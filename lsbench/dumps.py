"""Tensors in files, as devices and frameworks dump them: .npy, .npz, raw .bin, safetensors, .pt.

A tensor is named ``file`` or, in a file of several, ``file:key``; without a key the only tensor is
taken, or the one of the name that is asked for. Files are data: nothing in them is executed.

NumPy's formats have no bfloat16. What NumPy then writes is read all the same: ml_dtypes' own
``|V2``, or bit patterns in (u)int16; and so are values widened to float32 or float64, if each is a
value of the format. lsbench itself writes bit patterns in uint16.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lsbench.errors import OutputError, TensorError, UsageError
from lsbench.formats import BF16, FORMATS, Format
from lsbench.views import View

Array = npt.NDArray[Any]

RAW = (".bin", ".raw", ".dat")
"""Suffixes of files that hold elements and nothing else."""


def read(
    path: str | Path,
    *,
    fmt: Format | None = None,
    shape: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    name: str | None = None,
) -> Array:
    """The tensor of a file, as an array in a format's NumPy dtype.

    ``fmt`` is needed for raw files and bit patterns, and checked elsewhere; ``shape`` is needed for
    raw files, and elsewhere may order the same elements anew. With ``strides`` or ``offset``
    (counted in elements) the file's elements are a storage, and the result a view of it. ``name``
    chooses among several tensors.

    Raises TensorError, one line, for a file that is missing, damaged, or does not hold such a
    tensor, and UsageError where a package that reads it is missing.
    """
    file, key = _split(path)
    reader = next((r for suffix, r in _READERS.items() if file.suffix == suffix), None)
    if reader is None and file.suffix not in RAW:
        known = ", ".join([*_READERS, *RAW])
        raise TensorError(f"{file}: found suffix {file.suffix!r}, expected one of {known}")
    if not file.exists():
        raise TensorError(f"{file}: no such file")
    if file.is_dir():
        raise TensorError(f"{file}: is a folder, expected a file")
    stored = _raw(file, fmt) if reader is None else _guarded(reader, file, key, name)
    array = _as_format(str(path), stored, fmt)
    if strides is not None or offset:
        return _strided(str(path), array, shape, strides, offset)
    return _shaped(str(path), array, shape, needed=reader is None)


def _split(path: str | Path) -> tuple[Path, str | None]:
    file = Path(path)
    if file.exists() or ":" not in file.name:
        return file, None
    head, _, key = str(path).rpartition(":")
    return Path(head), key


def _guarded(
    reader: Callable[[Path, str | None, str | None], Array],
    file: Path,
    key: str | None,
    name: str | None,
) -> Array:
    """Every foreign error as one line."""
    try:
        return reader(file, key, name)
    except (TensorError, UsageError):
        raise
    except OSError as error:
        raise TensorError(f"{file}: cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise TensorError(f"{file}: too large for this machine's memory") from None
    except Exception as error:  # zipfile, zlib, json, safetensors and torch each have their own
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise TensorError(f"{file}: damaged: {said or type(error).__name__}") from None


def _npy(file: Path, key: str | None, name: str | None) -> Array:
    if key is not None:
        raise TensorError(f"{file}: holds one tensor, found the key {key!r}")
    with file.open("rb") as stream:
        array = _npy_stream(stream, file.stat().st_size)
        if stream.read(1):
            raise ValueError("bytes after the array's end")
    return array


def _npy_stream(stream: Any, size: int) -> Array:
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"format version {version}, expected 1.0 or 2.0")
    shape, fortran, dtype = readers[version](stream)
    if dtype.hasobject:
        raise TensorError("holds Python objects, expected numbers: it is never unpickled")
    needed = prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or needed > size:
        raise ValueError(f"shape {list(shape)} of {dtype} needs {needed} bytes, found {size}")
    data = stream.read(needed)
    if len(data) < needed:
        raise ValueError(f"truncated: {len(data)} bytes of data, expected {needed}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _npz(file: Path, key: str | None, name: str | None) -> Array:
    with zipfile.ZipFile(file) as archive:
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        member = f"{_chosen(file, names, key, name)}.npy"
        with archive.open(member) as stream:
            array = _npy_stream(stream, archive.getinfo(member).file_size)
            stream.read()  # at the member's end its checksum is verified
    return array


def _chosen(file: Path, names: list[str], key: str | None, name: str | None) -> str:
    """Which of several tensors is meant."""
    listed = ", ".join(names[:20]) or "none"
    if key is not None:
        if key not in names:
            raise TensorError(f"{file}: has no tensor {key!r}, expected one of {listed}")
        return key
    if name in names:
        return str(name)
    if len(names) != 1:
        raise TensorError(f"{file}: holds the tensors {listed}: expected {file}:KEY")
    return names[0]


def _safetensors(file: Path, key: str | None, name: str | None) -> Array:
    if find_spec("safetensors") is None:
        raise UsageError(
            f"{file}: safetensors is not installed: pip install 'lsbench[safetensors]'"
        )
    safetensors: Any = import_module("safetensors")
    held = dict(safetensors.deserialize(file.read_bytes()))
    tensor = held[_chosen(file, list(held), key, name)]
    kinds: dict[str, Any] = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "BF16": BF16.dtype}
    if tensor["dtype"] not in kinds:
        raise TensorError(f"{file}: found {tensor['dtype']}, expected F32, F16 or BF16")
    return np.frombuffer(tensor["data"], kinds[tensor["dtype"]]).reshape(tensor["shape"])


def _torch(file: Path, key: str | None, name: str | None) -> Array:
    if find_spec("torch") is None:
        raise UsageError(f"{file}: torch is not installed: pip install 'lsbench[torch]'")
    torch: Any = import_module("torch")
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        if "weights" in str(error).lower():
            raise TensorError(
                f"{file}: holds more than tensors, expected a tensor or a dict of tensors: "
                "it is never unpickled"
            ) from None
        raise
    if isinstance(held, Mapping):
        tensors = {str(k): v for k, v in held.items() if isinstance(v, torch.Tensor)}
        held = tensors[_chosen(file, list(tensors), key, name)]
    elif key is not None:
        raise TensorError(f"{file}: holds one tensor, found the key {key!r}")
    if not isinstance(held, torch.Tensor):
        raise TensorError(f"{file}: found a {type(held).__name__}, expected a tensor")
    held = held.detach().contiguous()
    if held.dtype == torch.bfloat16:
        return BF16.values(held.view(torch.int16).numpy().view(np.uint16))
    array: Array = held.numpy()
    return array


_READERS: dict[str, Callable[[Path, str | None, str | None], Array]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": _torch,
    ".pth": _torch,
}


def _raw(file: Path, fmt: Format | None) -> Array:
    if fmt is None:
        raise UsageError(f"{file}: a raw file says no dtype, expected --dtype")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise TensorError(f"{file}: cannot be read: {error.strerror}") from None
    if len(data) % fmt.itemsize:
        raise TensorError(
            f"{file}: found {len(data)} bytes, expected a multiple of {fmt.itemsize} for {fmt.name}"
        )
    return fmt.values(np.frombuffer(data, fmt.bits_dtype.newbyteorder("<")).astype(fmt.bits_dtype))


def _as_format(where: str, stored: Array, fmt: Format | None) -> Array:
    """The array in a format's dtype and native byte order, without a change of any value."""
    dtype = stored.dtype.newbyteorder("=")
    own = next((f for f in FORMATS.values() if f.dtype == dtype), None)
    if own is None and dtype == np.dtype("V2"):
        own = BF16
    if own is not None and fmt in (None, own):
        bits = stored.view(own.bits_dtype.newbyteorder(_order(stored.dtype)))
        return own.values(np.asarray(bits.astype(own.bits_dtype), order="C"))
    if fmt is None:
        raise TensorError(
            f"{where}: found dtype {dtype}, expected float32, float16 or bfloat16, "
            "or --dtype for bit patterns"
        )
    if dtype.kind in "iu" and dtype.itemsize == fmt.itemsize:
        native = np.asarray(stored.astype(dtype), order="C")
        return fmt.values(native.view(fmt.bits_dtype))
    if dtype in (np.dtype(np.float32), np.dtype(np.float64)) and own is not fmt:
        return _narrowed(where, stored.astype(dtype), fmt)
    raise TensorError(f"{where}: found dtype {dtype}, expected {fmt.name}")


def _order(dtype: np.dtype[Any]) -> Any:
    return ">" if dtype.byteorder == ">" else "="


def _narrowed(where: str, wide: Array, fmt: Format) -> Array:
    with np.errstate(all="ignore"):
        narrow = wide.astype(fmt.dtype)
        back = narrow.astype(wide.dtype)
    wrong = np.flatnonzero(((back != wide) & ~(np.isnan(wide) & np.isnan(back))).reshape(-1))
    if wrong.size:
        value = wide.reshape(-1)[wrong[0]]
        raise TensorError(
            f"{where}: found dtype {wide.dtype} with {value} at element {wrong[0]}, "
            f"expected values of {fmt.name}"
        )
    return np.asarray(narrow, order="C")


def _shaped(where: str, array: Array, shape: tuple[int, ...] | None, *, needed: bool) -> Array:
    if shape is None:
        if needed:
            raise UsageError(f"{where}: a raw file says no shape, expected --shape")
        return array
    if prod(shape) != array.size or min(shape, default=0) < 0:
        raise TensorError(
            f"{where}: found {array.size} elements, expected {prod(shape)} for shape {list(shape)}"
        )
    return array.reshape(shape)


def _strided(
    where: str,
    array: Array,
    shape: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    offset: int,
) -> Array:
    if shape is None:
        raise UsageError(f"{where}: strides or an offset without a shape, expected --shape")
    plain = View.contiguous(shape).strides
    view = View(shape, plain if strides is None else strides, offset, array.size)
    view.check(where)
    return view.array(array.reshape(-1))


def write_npy(path: Path, fmt: Format, array: Array) -> None:
    """Write an array's values row-major as .npy; bf16 as bit patterns in uint16."""
    np.save(path, _portable(fmt, array), allow_pickle=False)


def _portable(fmt: Format, array: Array) -> Array:
    packed = np.asarray(array, order="C")
    return fmt.pattern(packed) if fmt is BF16 else packed


def write(path: Path, fmt: Format, tensors: Mapping[str, Array]) -> None:
    """Write tensors in the form of the path's suffix; raises OutputError where that fails.

    .npy and raw files hold one tensor, the others name theirs. bf16 is bfloat16 where the form has
    it, and bit patterns in uint16 where not.
    """
    try:
        _WRITERS[path.suffix](path, fmt, tensors)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


def _write_npy(path: Path, fmt: Format, tensors: Mapping[str, Array]) -> None:
    (array,) = tensors.values()
    write_npy(path, fmt, array)


def _write_raw(path: Path, fmt: Format, tensors: Mapping[str, Array]) -> None:
    (array,) = tensors.values()
    bits = fmt.pattern(np.asarray(array, order="C"))
    path.write_bytes(bits.astype(bits.dtype.newbyteorder("<")).tobytes())


def _write_npz(path: Path, fmt: Format, tensors: Mapping[str, Array]) -> None:
    portable = {name: _portable(fmt, array) for name, array in tensors.items()}
    np.savez(path, allow_pickle=False, **portable)


def _write_safetensors(path: Path, fmt: Format, tensors: Mapping[str, Array]) -> None:
    if find_spec("safetensors") is None:
        raise UsageError("safetensors is not installed: pip install 'lsbench[safetensors]'")
    save = import_module("safetensors.numpy").save
    path.write_bytes(save({name: np.array(a, order="C") for name, a in tensors.items()}))


def _write_torch(path: Path, fmt: Format, tensors: Mapping[str, Array]) -> None:
    if find_spec("torch") is None:
        raise UsageError("torch is not installed: pip install 'lsbench[torch]'")
    torch: Any = import_module("torch")
    held = {}
    for name, array in tensors.items():
        packed = np.array(array).reshape(array.shape)
        made = torch.from_numpy(packed.view(np.int16) if fmt is BF16 else packed)
        held[name] = made.view(torch.bfloat16) if fmt is BF16 else made
    torch.save(held, path)


_WRITERS: dict[str, Callable[[Path, Format, Mapping[str, Array]], None]] = {
    ".npy": _write_npy,
    ".bin": _write_raw,
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
    ".pt": _write_torch,
}
FORMS = tuple(suffix[1:] for suffix in _WRITERS)
"""What :func:`write` can write, by suffix without its dot."""
SINGLE = frozenset({".npy", ".bin"})
"""Suffixes of files that hold one tensor."""
