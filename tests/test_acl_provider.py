"""The provider of C interfaces: the project's own library, and wrong ones that it must catch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import acl_builds
import numpy as np
import pytest
from acl_builds import needs_c
from calls import call, computed, drawn, worst_ulp

import lsbench.cases
from lsbench.errors import ProviderError
from lsbench.formats import FORMATS, FP32
from lsbench.providers.isolation import Limits, isolate
from lsbench.providers.registry import resolve
from lsbench.row import Settings
from lsbench.runner import run, select

HERE = str(Path(__file__).parent)

CASES = """
schema: 1
defaults: {seed: 5, dtype: fp32, shape: [6, 5], gates: {max_ulp: 0.5, nonfinite: 0}}
cases:
  - name: plain
  - name: strided
    layout: {self: transposed, grad_output: {sliced: 2}, grad_input: {padded: 3}}
  - {name: empty, shape: [0, 5]}
  - {name: null-buffer, buffer: null, expect: 161001}
  - {name: dtypes, dtypes: {self: fp16}, expect: 161002}
  - {name: shapes, shapes: {self: [5, 6]}, expect: 161002}
  - {name: product, product: Atlas training, dtype: bf16, expect: 161002}
"""


def rows(provider, tmp_path, text=CASES, **settings):
    """Run the cases with one provider; name → row."""
    path = tmp_path / "cases.yaml"
    path.write_text(text)
    cases = lsbench.cases.load([path])
    settings = {"throughput": False, "determinism": False, **settings}
    made = run(select(cases, [provider]), Settings(**settings))
    return {row.case: row for row in made.rows}


def verdicts(row):
    """Verdicts of a row, but for how steady the machine was."""
    return set(row.verdicts) - {"timing-unstable"} or {"pass"}


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (0, 3), (1,)])
def test_every_dtype_is_computed(fmt, shape):
    made = drawn(fmt, shape)
    computed(resolve("acl"), made)
    assert worst_ulp(made) <= 0.5


def test_the_project_own_library_passes_every_case(tmp_path):
    found = rows("acl", tmp_path, determinism=True, throughput=True)
    assert all(verdicts(row) == {"pass"} for row in found.values())
    assert found["null-buffer"].status == 161001
    assert "buffer is null" in found["null-buffer"].reason
    assert found["product"].status == 161002
    timed = found["plain"].throughput
    assert timed is not None
    assert timed.arms[0].median > 0


def test_strides_and_offsets_reach_the_library_as_they_are(tmp_path):
    """The library is shown the case's views: it is asked back for them."""
    from lsbench.providers import acl_run

    seen = []

    class Watched(acl_run.AclRun):
        def _described(self, name, array):
            handle = super()._described(name, array)
            create = self._library.find("aclGetViewOffset")
            import ctypes

            create.argtypes, create.restype = (ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int
            offset = ctypes.c_int64()
            assert create(handle, ctypes.addressof(offset)) == 0
            seen.append((name, offset.value))
            return handle

    path = tmp_path / "cases.yaml"
    path.write_text(
        "schema: 1\ncases:\n  - {name: a, dtype: fp32, shape: [3, 4], "
        "layout: {self: {strides: [1, 9], offset: 4}, grad_input: {offset: 3}}}\n"
    )
    (case,) = lsbench.cases.load([path])
    held = lsbench.cases.tensors(case)
    made = call(FP32, held.grad_output, held.self, out=held.grad_input)
    made = type(made)(**{**vars(made), "views": case.views})
    provider = resolve("acl")
    prepared = Watched(provider._session, made)
    prepared.run()
    prepared.fetch()
    prepared.close()
    assert dict(seen) == {"grad_output": 0, "self": 4, "buffer": 4, "grad_input": 3}
    assert worst_ulp(made) <= 0.5
    assert held.gaps_touched() == 0


def test_tensors_that_overlap_stay_overlapped():
    base = np.linspace(-3, 3, 12, dtype=np.float32)
    in_place = call(FP32, np.ones(12, np.float32), base, out=base)
    right = call(FP32, np.ones(12, np.float32), base.copy())
    computed(resolve("acl"), in_place)
    computed(resolve("exact"), right)
    assert np.array_equal(base, right.grad_input)
    partial = call(FP32, np.ones(8, np.float32), base[:8], out=base[2:10])
    with pytest.raises(ProviderError, match="overlaps self in part") as caught:
        computed(resolve("acl"), partial)
    assert caught.value.verdict == "contract"


def test_options_and_negative_strides_are_refused():
    provider, made = resolve("acl"), drawn(FP32)
    asked = call(FP32, made.grad_output, made.self, rounding="rtz")
    assert "takes no rounding option" in provider.refuse(asked)
    flipped = call(FP32, made.grad_output[::-1], made.self)
    assert "no negative strides, found them in grad_output" in provider.refuse(flipped)


def test_a_library_that_is_none_is_told_in_one_line(tmp_path):
    assert "cannot be loaded" in resolve("acl:surely-not-there.so").unavailable()
    libm = next((p for p in Path("/lib").rglob("libm.so.6")), None)
    if libm is None:
        pytest.skip("no libm.so.6 under /lib")
    assert "expected a function aclInit, found none" in resolve(f"acl:{libm}").unavailable()


@needs_c
def test_a_library_that_dies_when_it_is_loaded_is_unavailable(tmp_path):
    source, built = tmp_path / "dies.c", tmp_path / "libdies.so"
    source.write_text("#include <stdlib.h>\nint aclInit(const char *path) { abort(); }\n")
    acl_builds.run("cc", "-shared", "-fPIC", source, "-o", built)
    assert "died of SIGABRT" in resolve(f"acl:{built}").unavailable()
    (row,) = rows(
        f"acl:{built}", tmp_path, "schema: 1\ncases: [{name: a, shape: [2], dtype: fp32}]"
    ).values()
    assert row.verdicts == ("skipped",)


# One fault each, planted in the library's own sources: (what stands there, what is put there).
DRIVE = "computation->drive(&computation->views, &computation->job);"
VIEWS = "    const ls_views *views = &computation->views;\n"
LAST = "+".join(f"(views->shape[{d}] - 1) * views->strides[LS_Y][{d}]" for d in (0, 1))
NULLS = "i < LS_ARGUMENTS; i++)\n        if (handles[IN"
PHASE = "status = prepare(handles, made);"
LAUNCH = 'close_executor(executor, found, "has run already");'
STEP = "ls_tensor_step(&tensors[t], d) * itemsize;"
FAULTS = {
    "status off": (PHASE, f"{PHASE[:-1]} ? ACLNN_ERR_RUNTIME_ERROR : ACLNN_SUCCESS;"),
    "null not seen": (NULLS, NULLS.replace("LS_ARGUMENTS", "2")),
    "an element off": (DRIVE, f"{VIEWS}{DRIVE}\n    views->base[LS_Y][0] ^= 2;"),
    "stride ignored": (STEP, "(t == LS_Y ? tensors[t].strides[d] : d == 0 ? 5 : 1) * itemsize;"),
    "writes past the end": (DRIVE, f"{VIEWS}{DRIVE}\n    views->base[LS_Y][{LAST} + 4] = 0;"),
    "changes an input": (DRIVE, f"{VIEWS}{DRIVE}\n    views->base[LS_X][0] ^= 1;"),
    "second phase fails": (LAUNCH, f"{LAUNCH[:-1]}, status = ACLNN_ERR_RUNTIME_ERROR;"),
    "no executor": ("*executor = handle;", "*executor = NULL;"),
    "no tensor": (
        "    void *handle = ls_handle_open(LS_TENSOR, made);",
        "    void *handle = NULL;",
    ),
    "synchronize fails": ("wait_for(found);", "{ wait_for(found); status = 507011; }"),
    "endless workspace": ("*workspaceSize = made->workspace;", "*workspaceSize = 1ull << 62;"),
    "first run writes nothing": (DRIVE, f"static int runs;\n    if (runs++ > 0)\n        {DRIVE}"),
    "breaks later": (
        DRIVE,
        f"{VIEWS}{DRIVE}\n    static int runs;\n    views->base[LS_X][0] ^= runs++;",
    ),
    "dies": (DRIVE, "*(volatile int *)8 = 1;"),
}

ELSEWHERE = {"no tensor": "tensor.c", "synchronize fails": "stream.c"}
"""Faults that are not in operator.c."""

EXPECTED = {
    "status off": {"shapes": ("contract", "361001")},
    "null not seen": {"null-buffer": ("contract", "161002")},
    "an element off": {"plain": ("accuracy", "")},
    "stride ignored": {"strided": ("stride", "")},
    "writes past the end": {"strided": ("contract", "wrote outside")},
    "changes an input": {"plain": ("contract", "changed self")},
    "second phase fails": {"plain": ("contract", "second phase returned 361001")},
    "no executor": {"plain": ("contract", "the first phase returned no executor")},
    "no tensor": {"plain": ("contract", "aclCreateTensor returned no tensor")},
    "endless workspace": {"plain": ("contract", "asked for a workspace of 4611686018427387904 b")},
    "synchronize fails": {"plain": ("contract", "aclrtSynchronizeStream returned 507011")},
    "first run writes nothing": {"plain": ("nonfinite", ""), "strided": ("pass", "")},
    "breaks later": {"plain": ("contract", "changed self")},
    "dies": {"plain": ("crashed", "SIGSEGV")},
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The kernels of the libraries that are built here."""
    return acl_builds.kernels(tmp_path_factory.mktemp("kernels"), "-O0")


@needs_c
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_library_is_caught_and_its_fault_named(fault, kernels, tmp_path):
    source = ELSEWHERE.get(fault, "operator.c")
    built = acl_builds.library(tmp_path, "-O0", compute=kernels, faults={source: FAULTS[fault]})
    found = rows(f"acl:{built}", tmp_path)
    for name, (verdict, said) in EXPECTED[fault].items():
        row = found[name]
        assert verdict in row.verdicts, (row.verdicts, row.reason)
        assert said in f"{row.status} {row.reason}"
        assert not row.passed or verdict not in ("contract", "accuracy")
    assert fault != "breaks later" or found["plain"].accuracy is not None
    if EXPECTED[fault].get("plain", ("",))[0] != "contract":
        assert found["empty"].verdicts == ("pass",)


@needs_c
@pytest.mark.parametrize("isolated", [False, True])
def test_a_result_that_comes_with_a_breach_is_judged(isolated, kernels, tmp_path):
    both = f"{VIEWS}{DRIVE}\n    views->base[LS_X][0] ^= 1; views->base[LS_Y][3] ^= 64;"
    built = acl_builds.library(
        tmp_path, "-O0", compute=kernels, faults={"operator.c": (DRIVE, both)}
    )
    row = rows(f"acl:{built}", tmp_path, limits=Limits(isolate=isolated))["plain"]
    assert "contract" in row.verdicts
    assert row.accuracy.max_ulp > 4
    assert "changed self" in row.reason
    assert next(gate.name for gate in row.gates if not gate.passed) == "contract"


@needs_c
def test_another_makers_library_drives_one_product(kernels, tmp_path, monkeypatch):
    """Without the project's own extensions: one product, executors that run once."""
    hidden = {
        "settings.c": ("aclError lsbenchAclSetProduct(", "static aclError unused("),
        "operator.c": ("aclnnStatus aclSetAclOpExecutorRepeatable(", "static aclnnStatus unused("),
    }
    built = acl_builds.library(tmp_path, "-O0", compute=kernels, faults=hidden)
    monkeypatch.setenv("LSBENCH_ACL_PRODUCT", "Atlas A3")
    text = CASES.replace("defaults: {", "defaults: {product: Atlas A3, ")
    found = rows(f"acl:{built}", tmp_path, text, throughput=True)
    assert found["product"].verdicts == ("unsupported",)
    assert "the case is for Atlas training" in found["product"].reason
    others = set(found) - {"product"}
    assert all(verdicts(found[name]) == {"pass"} for name in others)
    assert found["plain"].throughput is not None


FORKS = """
import os, sys
from calls import computed, drawn, worst_ulp
from lsbench.formats import FP32
from lsbench.providers.registry import resolve
for forked in (False, True):
    if forked and (child := os.fork()):
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    made = drawn(FP32, (300, 500))
    computed(resolve("acl"), made)
    assert worst_ulp(made) <= 0.5
"""


def test_the_provider_works_in_a_forked_process():
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.append({HERE!r})\n{FORKS}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_provider_runs_isolated_too():
    made = drawn(FP32, (6, 4))
    provider = isolate(resolve("acl"))
    try:
        computed(provider, made)
    finally:
        provider.close()
    assert worst_ulp(made) <= 0.5
