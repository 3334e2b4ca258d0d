"""External commands: the documented protocol, and each way to fail it."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from calls import call, computed, drawn, worst_ulp

from lsbench.errors import ProviderError, UsageError
from lsbench.formats import FORMATS, FP32
from lsbench.providers.isolation import isolate
from lsbench.providers.registry import resolve

PROGRAM = """
import sys
import numpy as np
g_path, x_path, y_path, dtype = sys.argv[1:5]
g, x = np.load(g_path), np.load(x_path)
if dtype == "bf16":
    assert g.dtype == np.uint16
    g, x = ((a.astype(np.uint32) << 16).view(np.float32) for a in (g, x))
with np.errstate(all="ignore"):
    y = (g.astype(np.float64) / (1 + np.exp(x.astype(np.float64)))).astype(np.float32)
if dtype == "bf16":
    bits = y.view(np.uint32)
    y = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
np.save(y_path, y.astype(np.float16) if dtype == "fp16" else y)
"""


@pytest.fixture
def program(tmp_path):
    """Makes a command that runs a Python program on the four placeholders."""

    def make(text: str, arguments: str = "{grad_output} {self} {grad_input} {dtype}"):
        path = tmp_path / "program.py"
        path.write_text(text)
        return resolve(f"command:{sys.executable} {path} {arguments}")

    return make


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (0, 3), ()])
def test_the_protocol_carries_every_dtype_and_shape(program, fmt, shape):
    made = drawn(fmt, shape)
    computed(program(PROGRAM), made)
    assert worst_ulp(made) < 0.6


def test_strided_tensors_are_packed_for_the_files(program):
    plain = drawn(FP32, (6, 4))
    made = call(FP32, plain.grad_output.T[::-1], plain.self.T)
    computed(program(PROGRAM), made)
    assert worst_ulp(made) < 0.6


def test_paths_are_appended_where_the_command_names_none(program):
    text = "import sys, numpy as np\ng, x, y = sys.argv[1:]\nnp.save(y, np.load(g))\n"
    made = drawn(FP32)
    computed(program(text, ""), made)
    assert np.array_equal(made.grad_input, made.grad_output)


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        ("", "contract", r"^wrote no gradInput$"),
        (
            "import sys\nprint('first', file=sys.stderr)\nsys.exit('the reason')",
            "crashed",
            r"^ended with exit status 1: the reason$",
        ),
        ("import os\nos.abort()", "crashed", r"^died of SIGABRT"),
        (
            "import sys\nopen(sys.argv[3], 'w').write('nonsense')",
            "contract",
            r"^its gradInput: damaged: ",
        ),
        (
            "import sys, numpy as np\nnp.save(sys.argv[3], np.zeros(3, 'f4'))",
            "contract",
            r"^wrote shape \[3\], expected \[5, 7\]$",
        ),
        (
            "import sys, numpy as np\nnp.save(sys.argv[3], np.zeros((5, 7), 'i8'))",
            "contract",
            r"^its gradInput: found dtype int64, expected fp32$",
        ),
        (
            "import sys, numpy as np\nnp.save(sys.argv[3], np.array([{}]), allow_pickle=True)",
            "contract",
            r"holds Python objects, expected numbers",
        ),
    ],
)
def test_each_failure_is_one_line_with_its_verdict(program, text, verdict, said):
    with pytest.raises(ProviderError, match=said) as caught:
        computed(program(text), drawn(FP32))
    assert caught.value.verdict == verdict


def test_a_command_is_held_to_timeout_and_memory(program):
    began = time.monotonic()
    slow = isolate(program("import time\ntime.sleep(60)"), timeout=0.5)
    with pytest.raises(ProviderError, match=r"not done within 0.5 s, killed"):
        computed(slow, drawn(FP32))
    assert time.monotonic() - began < 10
    hungry = isolate(program("a = []\nwhile True: a.append(bytearray(1 << 22))"), memory=100 << 20)
    with pytest.raises(ProviderError, match=r"used \d+ MiB of memory, expected at most 100 MiB"):
        computed(hungry, drawn(FP32))


def test_what_a_command_leaves_behind_is_ended_with_it(program, tmp_path):
    text = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "sys.exit(3)"
    )
    with pytest.raises(ProviderError, match="exit status 3"):
        computed(program(text), drawn(FP32))
    pid = int((tmp_path / "pid").read_text())
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as status:
                if status.read().split()[2] == "Z":
                    break
        except FileNotFoundError:
            break
        time.sleep(0.01)
    else:
        pytest.fail("the command's own child lives on")


def test_a_missing_program_makes_the_provider_unavailable():
    assert resolve("command:surely-not-there x").unavailable() == (
        "no program 'surely-not-there' that can be run"
    )


@pytest.mark.parametrize("name", ["command:", "command:   ", "command:'open"])
def test_a_command_that_is_none_is_refused(name):
    with pytest.raises(UsageError, match="provider"):
        resolve(name)


def test_threads_are_handed_on_where_the_command_takes_them(program):
    text = (
        "import sys, numpy as np\n"
        "np.save(sys.argv[3], np.full_like(np.load(sys.argv[1]), int(sys.argv[4])))"
    )
    taking = program(text, "{grad_output} {self} {grad_input} {threads}")
    assert taking.axes == {"threads"}
    made = drawn(FP32)
    computed(taking, call(FP32, made.grad_output, made.self, out=made.grad_input, threads=3))
    assert (made.grad_input == 3).all()
    refusing = program(text)
    asked = call(FP32, made.grad_output, made.self, threads=3)
    assert refusing.refuse(asked) == "takes no threads option, asked for 3"
