"""A user's function: found, given what it takes, and told exactly what is wrong with its result."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from calls import call, computed, drawn, worst_ulp

from lsbench.errors import ProviderError, UsageError
from lsbench.formats import BF16, FORMATS, FP16, FP32
from lsbench.providers.registry import resolve

USERS = Path(__file__).with_name("users.py")


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
def test_a_function_of_a_file_gives_its_result(fmt):
    made = drawn(fmt)
    computed(resolve(f"python:{USERS}:good"), made)
    assert worst_ulp(made) < 3


def test_a_function_may_be_an_attribute():
    made = drawn(FP32)
    computed(resolve(f"python:{USERS}:Holder.method"), made)
    assert worst_ulp(made) < 3


def test_a_module_of_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "mine_of_cwd.py").write_text("def f(g, x):\n    return g * 0\n__version__ = '7'\n")
    monkeypatch.chdir(tmp_path)
    provider = resolve("python:mine_of_cwd:f")
    assert not computed(provider, drawn(FP32)).any()
    digest = hashlib.sha256((tmp_path / "mine_of_cwd.py").read_bytes()).hexdigest()[:12]
    assert provider.version() == f"7, sha256 {digest}"


def test_a_file_may_import_its_neighbour(tmp_path):
    (tmp_path / "neighbour_of_it.py").write_text("half = 0.5\n")
    (tmp_path / "it.py").write_text(
        "from neighbour_of_it import half\ndef f(g, x):\n    return g * type(g[0, 0])(half)\n"
    )
    made = drawn(FP32)
    assert np.array_equal(
        computed(resolve(f"python:{tmp_path}/it.py:f"), made), made.grad_output / 2
    )


def test_strides_reach_the_function(tmp_path):
    (tmp_path / "s.py").write_text(
        "seen = []\ndef f(g, x):\n    seen.append(x.strides)\n    return g\n"
    )
    base = np.zeros((4, 6), np.float32)
    provider = resolve(f"python:{tmp_path}/s.py:f")
    computed(provider, call(FP32, base[:, ::2], base[::-1, ::2]))
    assert provider._load().__globals__["seen"] == [(-24, 8)]


@pytest.mark.parametrize(
    ("name", "verdict", "said"),
    [
        ("raises", "crashed", r"^raises: users.py:\d+: ValueError: no such thing$"),
        ("wrong_shape", "contract", r"returned shape \(3,\), expected \(5, 7\)"),
        ("wrong_dtype", "contract", "returned dtype float64, expected float32"),
        ("returns_nothing", "contract", "returned None, expected a NumPy array"),
        ("exits", "crashed", r"exits called exit\(7\)"),
        ("absent", "crashed", "has no 'absent': expected a function; it has good, raises"),
        ("not_a_function", "crashed", "is a int, expected a function"),
    ],
)
def test_each_way_to_fail_is_one_line_with_its_verdict(name, verdict, said):
    with pytest.raises(ProviderError) as caught:
        computed(resolve(f"python:{USERS}:{name}"), drawn(FP32))
    assert re.search(said, str(caught.value))
    assert caught.value.verdict == verdict
    assert "\n" not in str(caught.value)


def test_the_traceback_is_kept_for_who_asks():
    with pytest.raises(ProviderError) as caught:
        computed(resolve(f"python:{USERS}:raises"), drawn(FP32))
    assert "Traceback" in caught.value.details
    assert 'in raises\n    raise ValueError("no such thing' in caught.value.details


def test_a_file_that_cannot_be_imported_says_where(tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\ny = 1 / 0\n")
    with pytest.raises(ProviderError, match=r"importing .*: broken.py:2: ZeroDivisionError"):
        computed(resolve(f"python:{tmp_path}/broken.py:f"), drawn(FP32))


@pytest.mark.parametrize("name", ["python:", "python:x", "python::f", "python:nowhere.py:f"])
def test_a_name_that_names_nothing_is_refused_before_anything_runs(name):
    with pytest.raises(UsageError, match=r"expected python:MODULE:FUNCTION|no file nowhere.py"):
        resolve(name)


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(ProviderError, match="no module 'surely_not_there'"):
        computed(resolve("python:surely_not_there:f"), drawn(FP32))


def test_options_of_kernels_are_refused_with_the_option():
    provider = resolve(f"python:{USERS}:good")
    made = drawn(FP32)
    asked = call(FP32, made.grad_output, made.self, rounding="rtz")
    assert provider.refuse(asked) == "takes no rounding option, asked for rtz"
    asked = call(FP32, made.grad_output, made.self, threads=2)
    assert provider.refuse(asked) == "takes no threads option, asked for 2"


def test_dlpack_objects_are_given_and_taken(tmp_path):
    (tmp_path / "d.py").write_text(
        "import numpy as np\n"
        "class Only:\n"
        "    def __init__(self, a): self.a = a\n"
        "    def __dlpack__(self, **k): return self.a.__dlpack__()\n"
        "    def __dlpack_device__(self): return self.a.__dlpack_device__()\n"
        "def f(g, x):\n"
        "    g, x = np.from_dlpack(g), np.from_dlpack(x)\n"
        "    return Only((g / (1 + np.exp(x))).astype(g.dtype))\n"
        "def bad(g, x):\n"
        "    return 3\n"
    )
    for fmt in (FP32, FP16):
        made = drawn(fmt)
        computed(resolve(f"python+dlpack:{tmp_path}/d.py:f"), made)
        assert worst_ulp(made) < 4
    with pytest.raises(ProviderError, match="returned a int, expected an object with __dlpack__"):
        computed(resolve(f"python+dlpack:{tmp_path}/d.py:bad"), drawn(FP32))


def test_torch_tensors_are_given_where_the_annotation_or_the_prefix_asks(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "t.py").write_text(
        "import torch\n"
        "def annotated(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:\n"
        "    assert isinstance(x, torch.Tensor)\n"
        "    return g * torch.sigmoid(-x)\n"
        "def plain(g, x):\n"
        "    return annotated(g, x)\n"
        "def wrong(g: torch.Tensor, x):\n"
        "    return g.numpy()\n"
        "def eighth(g: torch.Tensor, x):\n"
        "    return g.to(torch.float8_e5m2)\n"
    )
    file = tmp_path / "t.py"
    for name in (f"python:{file}:annotated", f"python+torch:{file}:plain"):
        for fmt in (FP32, BF16):
            made = drawn(fmt)
            computed(resolve(name), made)
            assert worst_ulp(made) < 4
    with pytest.raises(ProviderError, match="returned a ndarray, expected a torch tensor"):
        computed(resolve(f"python:{file}:wrong"), drawn(FP32))
    with pytest.raises(ProviderError, match=r"returned dtype .*float8_e5m2.*, expected float32"):
        computed(resolve(f"python:{file}:eighth"), drawn(FP32))
    flipped = drawn(FP32)
    asked = call(FP32, flipped.grad_output[::-1], flipped.self)
    refusal = resolve(f"python:{file}:annotated").refuse(asked)
    assert refusal == "torch has no negative strides, found them in grad_output"
