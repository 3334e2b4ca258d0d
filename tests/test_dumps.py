"""Tensors in files: every form reads back its bits, and every damaged one is one clear line."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from lsbench import dumps
from lsbench.errors import TensorError, UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32, Format


def patterns(fmt: Format, shape=(3, 5)):
    """Random bit patterns, NaNs of any payload among them."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64).astype(fmt.bits_dtype)
    bits.reshape(-1)[:2] = fmt.nan_bits | 1, fmt.sign_bit
    return fmt.values(bits)


def same(fmt, a, b):
    assert a.dtype == fmt.dtype
    assert a.shape == b.shape
    assert np.array_equal(
        fmt.pattern(np.ascontiguousarray(a)), fmt.pattern(np.ascontiguousarray(b))
    )


def needs(form):
    package = {"pt": "torch", "safetensors": "safetensors"}.get(form)
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.parametrize("form", dumps.FORMS)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (4,), ()])
def test_every_form_reads_back_its_bits(tmp_path, form, fmt, shape):
    needs(form)
    array = patterns(fmt, (20,))[2 : 2 + int(np.prod(shape))].reshape(shape)
    path = tmp_path / f"t.{form}"
    dumps.write(path, fmt, {"self": array})
    same(fmt, dumps.read(path, fmt=fmt, shape=shape), array)


@pytest.mark.parametrize("form", ["npz", "safetensors", "pt"])
def test_a_tensor_among_several_is_chosen_by_key_or_name(tmp_path, form):
    needs(form)
    a, b = patterns(FP32), patterns(FP32)[::-1]
    path = tmp_path / f"t.{form}"
    dumps.write(path, FP32, {"self": a, "grad_output": b})
    same(FP32, dumps.read(f"{path}:self"), a)
    same(FP32, dumps.read(path, name="grad_output"), b)
    with pytest.raises(TensorError, match=r"holds the tensors .*: expected .*:KEY"):
        dumps.read(path, name="grad_input")
    with pytest.raises(TensorError, match=r"has no tensor 'x', expected one of "):
        dumps.read(f"{path}:x")


def test_what_numpy_makes_of_bfloat16_is_read(tmp_path):
    array = patterns(BF16)
    np.save(tmp_path / "v2.npy", array)
    same(BF16, dumps.read(tmp_path / "v2.npy"), array)
    np.save(tmp_path / "bits.npy", array.view(np.int16))
    same(BF16, dumps.read(tmp_path / "bits.npy", fmt=BF16), array)
    numbers = np.float32([1.5, -0.0, np.inf, 2.0**-130, np.nan])
    np.save(tmp_path / "wide.npy", numbers)
    read = dumps.read(tmp_path / "wide.npy", fmt=BF16)
    assert np.array_equal(read.astype(np.float32), numbers, equal_nan=True)
    np.save(tmp_path / "lossy.npy", np.float32([1.5, 1.001]))
    with pytest.raises(
        TensorError, match=r"float32 with 1\.00\d* at element 1, expected values of bf16"
    ):
        dumps.read(tmp_path / "lossy.npy", fmt=BF16)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_byte_order_and_column_order_are_undone(tmp_path, fmt):
    array = patterns(fmt)
    kind = np.dtype(np.uint16) if fmt is BF16 else fmt.dtype
    swapped = array.view(kind).astype(kind.newbyteorder(">"))
    np.save(tmp_path / "t.npy", np.asfortranarray(swapped))
    read = dumps.read(tmp_path / "t.npy", fmt=fmt)
    finite = fmt.pattern(array) & (fmt.sign_bit - 1) <= fmt.inf_bits
    assert np.array_equal(fmt.pattern(read)[finite], fmt.pattern(array)[finite])
    assert np.isnan(read.astype(np.float64)[~finite]).all()


def test_a_storage_is_seen_through_strides_and_an_offset(tmp_path):
    storage = np.arange(40, dtype=np.float32)
    (tmp_path / "s.bin").write_bytes(storage.tobytes())
    read = dumps.read(tmp_path / "s.bin", fmt=FP32, shape=(3, 4), strides=(2, 8), offset=1)
    expected = [[1 + 2 * i + 8 * j for j in range(4)] for i in range(3)]
    assert read.tolist() == expected
    with pytest.raises(TensorError, match=r"elements lie at 1\.\.53, expected them inside"):
        dumps.read(tmp_path / "s.bin", fmt=FP32, shape=(3, 4), strides=(2, 16), offset=1)
    with pytest.raises(UsageError, match="strides or an offset without a shape"):
        dumps.read(tmp_path / "s.bin", fmt=FP32, strides=(2, 16))


def damaged(tmp_path):
    """Name → (file, what its error must say)."""
    np.save(tmp_path / "good.npy", np.zeros(100, np.float32))
    good = (tmp_path / "good.npy").read_bytes()
    np.savez(tmp_path / "good.npz", self=np.zeros(100, np.float32))
    archive = bytearray((tmp_path / "good.npz").read_bytes())
    archive[200] ^= 0xFF
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        huge, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    )
    objects = io.BytesIO()
    np.save(objects, np.array([{}], object), allow_pickle=True)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w") as z:
        z.writestr("self.npy", b"")
    return {
        "missing.npy": (None, "no such file"),
        "odd.xyz": (b"x", "found suffix '.xyz', expected one of .npy, .npz, "),
        "empty.npy": (b"", "damaged: "),
        "text.npy": (b"1.0 2.0\n", "damaged: "),
        "short.npy": (good[:-5], "damaged: "),
        "long.npy": (good + b"x", "damaged: bytes after the array's end"),
        "huge.npy": (huge.getvalue(), "damaged: shape"),
        "objects.npy": (objects.getvalue(), "never unpickled"),
        "int.npy": (_saved(np.zeros(3, np.int64)), "found dtype int64, expected float32"),
        "complex.npy": (_saved(np.zeros(3, complex)), "found dtype complex128"),
        "flipped.npz": (bytes(archive), "damaged: "),
        "text.npz": (b"PK but no archive", "damaged: "),
        "hollow.npz": (bomb.getvalue(), "damaged: "),
        "odd.bin": (b"123", "found 3 bytes, expected a multiple of 4 for fp32"),
    }


def _saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_every_damaged_file_is_one_line_that_names_it(tmp_path):
    for name, (data, said) in damaged(tmp_path).items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(TensorError) as caught:
            dumps.read(tmp_path / name, fmt=FP32 if name.endswith(".bin") else None)
        assert said in str(caught.value), name
        assert name in str(caught.value) or "unpickled" in said
        assert "\n" not in str(caught.value)


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_nothing_is_ever_unpickled(tmp_path):
    mark = tmp_path / "mark"
    np.save(tmp_path / "t.npy", np.array([Trap(mark)], object), allow_pickle=True)
    with pytest.raises(TensorError):
        dumps.read(tmp_path / "t.npy")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "t.pt").write_bytes(pickle.dumps(Trap(mark), protocol=2))
    torch.save({"self": Trap(mark)}, tmp_path / "u.pt")
    mark.unlink(missing_ok=True)
    for name in ("t.pt", "u.pt"):
        with pytest.raises(TensorError, match=name):
            dumps.read(tmp_path / name)
    assert not mark.exists()


def test_raw_files_need_a_dtype_and_a_shape(tmp_path):
    (tmp_path / "t.bin").write_bytes(bytes(24))
    with pytest.raises(UsageError, match="expected --dtype"):
        dumps.read(tmp_path / "t.bin")
    with pytest.raises(UsageError, match="expected --shape"):
        dumps.read(tmp_path / "t.bin", fmt=FP32)
    with pytest.raises(TensorError, match=r"found 6 elements, expected 8 for shape \[2, 4\]"):
        dumps.read(tmp_path / "t.bin", fmt=FP32, shape=(2, 4))
    assert dumps.read(tmp_path / "t.bin", fmt=FP16, shape=(3, 4)).shape == (3, 4)


def test_a_dtype_that_contradicts_the_file_is_refused(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros(3, np.float16))
    with pytest.raises(TensorError, match="found dtype float16, expected fp32"):
        dumps.read(tmp_path / "t.npy", fmt=FP32)


def test_damaged_safetensors_are_one_line(tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    head = json.dumps({"self": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    good = len(head).to_bytes(8, "little") + head + bytes(8)
    for data, said in ((b"", "damaged"), (good[:-3], "damaged"), (good, "found I64, expected F32")):
        (tmp_path / "t.safetensors").write_bytes(data)
        with pytest.raises(TensorError, match=said):
            dumps.read(tmp_path / "t.safetensors")
