"""C++ programs against the C interface: the page's, the example, one for the sanitizers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import acl_builds
import pytest
from acl_builds import COMPILERS, needs_cpp

from lsbench import _acl

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
PAGE = os.environ.get("LSBENCH_PAGE", "")


def flags_of_command():
    """What `lsbench acl` tells a compiler."""
    words = [sys.executable, "-P", "-m", "lsbench", "acl", "--cflags", "--libs", "--rpath"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


@needs_cpp
@pytest.mark.skipif(not PAGE, reason="LSBENCH_PAGE does not name the operator's page")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_pages_own_program_compiles_unchanged_and_prints_its_results(compiler, tmp_path):
    page = Path(PAGE).read_text()
    source = tmp_path / "page.cpp"
    source.write_text(page[page.index("#include <iostream>") :] + "\n")
    built = tmp_path / "page"
    acl_builds.run(compiler, *WARNINGS, source, *flags_of_command(), "-o", built)
    shown = acl_builds.run(built, env={**os.environ, "LSBENCH_ACL_CHECK": "1"})
    for index, value in enumerate(("0.268941", "0.119203", "0.047426", "0.017986")):
        assert f"result[{index}] is: {value}" in shown
    assert "0 leaks" in shown


@needs_cpp
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_example_compiles_without_a_warning_and_is_right(compiler, tmp_path):
    built = tmp_path / "example"
    strict = [*WARNINGS, "-Wpedantic", "-Wconversion", "-std=c++11"]
    acl_builds.run(compiler, *strict, _acl.EXAMPLE, *flags_of_command(), "-o", built)
    shown = acl_builds.run(built, env={**os.environ, "LSBENCH_ACL_CHECK": "1"})
    assert shown.count(": right") == 12
    assert "0 leaks" in shown


def test_the_headers_are_c(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler cc on the path")
    source = tmp_path / "program.c"
    names = [path.relative_to(_acl.INCLUDE) for path in sorted(_acl.INCLUDE.rglob("*.h"))]
    assert len(names) == 7
    includes = "".join(f'#include "{name}"\n' for name in [*names, *reversed(names)])
    source.write_text(includes + "int main(void) { return aclFinalize() == ACL_SUCCESS; }\n")
    built = tmp_path / "program"
    strict = [*WARNINGS, "-Wpedantic", "-Wstrict-prototypes", "-std=c11"]
    acl_builds.run(compiler, *strict, source, *flags_of_command(), "-o", built)
    acl_builds.run(built)


def can_sanitize(flag, folder):
    """Whether a program with this sanitizer runs here."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    try:
        acl_builds.run("cc", flag, source, "-o", folder / "empty")
        acl_builds.run(folder / "empty")
    except AssertionError:
        return False
    return True


@needs_cpp
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_streams_threads_and_misuse_are_clean_under(sanitizers, tmp_path):
    flag = f"-fsanitize={sanitizers}"
    if not can_sanitize(flag, tmp_path):
        pytest.skip(f"programs with {flag} do not run here")
    acl_builds.library(tmp_path, flag, "-fno-sanitize-recover=undefined", "-O0")
    source = Path(__file__).with_name("acl_program.cpp")
    built = acl_builds.program(
        "g++" if "g++" in COMPILERS else COMPILERS[0],
        source, tmp_path, *WARNINGS, "-Wpedantic", "-g", flag, "-fno-sanitize-recover=undefined",
    )  # fmt: skip
    shown = acl_builds.run(built, env={**os.environ, "LSBENCH_ACL_CHECK": "1"})
    assert "0 failures" in shown
    assert shown.count("0 leaks") == 2
    assert "WARNING: ThreadSanitizer" not in shown


@needs_cpp
def test_a_forked_child_is_told_what_it_has_lost(tmp_path):
    """Without sanitizers: a child inherits the locks of their allocators as they stand."""
    acl_builds.library(tmp_path, "-O1")
    source = Path(__file__).with_name("acl_fork.cpp")
    built = acl_builds.program(COMPILERS[0], source, tmp_path, *WARNINGS, "-Wpedantic")
    assert "0 failures" in acl_builds.run(built)


@needs_cpp
def test_a_lock_that_was_held_at_a_fork_is_missed(tmp_path):
    """The planted fault: without its handlers the child waits for threads that it does not have."""
    fault = ("pthread_atfork(before_fork, after_fork, begin_child)", "(void)begin_child")
    acl_builds.library(tmp_path, "-O1", faults={"state.c": fault})
    source = tmp_path / "acl_fork.cpp"
    text = Path(__file__).with_name("acl_fork.cpp").read_text()
    source.write_text(text.replace("alarm(60)", "alarm(2)"))
    built = acl_builds.program(COMPILERS[0], source, tmp_path)
    shown = subprocess.run([built], capture_output=True, text=True, timeout=120)
    assert shown.returncode == 1
    assert f"signal {signal.SIGALRM.value}" in shown.stdout


LEAKY = """
#include "acl/acl.h"
#include "aclnnop/aclnn_logsigmoid_backward.h"
int main() {
  aclrtStream stream;
  aclrtEvent event;
  void *data, *host;
  const int64_t n = 4;
  uint64_t size;
  aclOpExecutor *executor;
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtCreateStream(&stream);
  aclrtCreateEvent(&event);
  aclrtMalloc(&data, 16, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMallocHost(&host, 7);
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &n, 1, data);
  aclnnLogSigmoidBackwardGetWorkspaceSize(t, t, t, t, &size, &executor);
  return aclFinalize();
}
"""


@needs_cpp
def test_leaks_are_listed_at_the_end_when_asked_for(tmp_path):
    source = tmp_path / "leaky.cpp"
    source.write_text(LEAKY)
    built = tmp_path / "leaky"
    acl_builds.run(COMPILERS[0], source, *flags_of_command(), "-o", built)
    shown = acl_builds.run(built, env={**os.environ, "LSBENCH_ACL_CHECK": "1"})
    for said in (
        ", FLOAT of shape [4]\n",
        "not destroyed: tensor",
        "not destroyed: executor",
        "not destroyed: stream",
        "not destroyed: event",
        "not freed: 16 bytes of device memory",
        "not freed: 7 bytes of host memory",
        "6 leaks",
    ):
        assert said in shown
    silent = {k: v for k, v in os.environ.items() if k != "LSBENCH_ACL_CHECK"}
    assert acl_builds.run(built, env=silent) == ""


EARLY = """
#include <cstdio>
#include <vector>
#include "acl/acl.h"
#include "aclnnop/aclnn_logsigmoid_backward.h"
int main() {
  const int64_t n = 1 << 22;
  const size_t bytes = n * 4;
  void *data;
  uint64_t size;
  aclOpExecutor *executor;
  aclrtStream stream;
  std::vector<float> before(n, 1), early(n), late(n);
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtCreateStream(&stream);
  aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemcpy(data, bytes, before.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  aclTensor *t = aclCreateTensor(&n, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &n, 1, data);
  aclnnLogSigmoidBackwardGetWorkspaceSize(t, t, t, t, &size, &executor);
  aclnnLogSigmoidBackward(nullptr, 0, executor, stream);
  aclrtMemcpy(early.data(), bytes, data, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
  aclrtSynchronizeStream(stream);
  aclrtMemcpy(late.data(), bytes, data, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
  std::printf("%s %g\\n", early.back() == late.back() ? "same" : "old", late.back());
  aclDestroyTensor(t);
  aclrtFree(data);
  aclrtDestroyStream(stream);
  return aclFinalize();
}
"""


@needs_cpp
def test_a_read_before_the_synchronize_is_told(tmp_path):
    source = tmp_path / "early.cpp"
    source.write_text(EARLY)
    built = tmp_path / "early"
    acl_builds.run(COMPILERS[0], source, *flags_of_command(), "-o", built)
    one = {"LSBENCH_ACL_CHECK": "1", "LSBENCH_ACL_THREADS": "1", "LSBENCH_ACL_KERNEL": "textbook"}
    shown = acl_builds.run(built, env={**os.environ, **one})
    assert "is read before the stream that writes it was synchronized" in shown
    assert shown.count("lsbench acl:") == 2
    assert "0.268941" in shown
