"""Names of libraries, the environment and foreign words: a slip is one line and exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys

import acl_builds
import pytest
from acl_builds import needs_c

from lsbench.errors import UsageError
from lsbench.providers.acl import AclProvider, libraries
from lsbench.providers.acl_library import Library, plain
from lsbench.providers.isolation import Limits, open_provider
from lsbench.report.labels import cut

CASE = "schema: 1\ncases: [{name: a, shape: [2], dtype: fp32}]\n"


def lsbench(folder, *words, **environment):
    """Run the command line in a folder; its exit status and what it said on each stream."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lsbench", *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def cases(tmp_path):
    """A folder with a case file."""
    (tmp_path / "cases.yaml").write_text(CASE)
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The library from its sources."""
    return acl_builds.library(tmp_path_factory.mktemp("built"), "-O0")


def test_a_list_is_cut_at_its_commas_but_for_those_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a,b.so", "c.so", "x", "x,y,z.so"):
        (tmp_path / name).write_text("")
    assert libraries("a,b.so") == ("a,b.so",)
    assert libraries("./a,b.so,c.so") == ("./a,b.so", "c.so")
    assert libraries("c.so,x,y,z.so,other.so") == ("c.so", "x,y,z.so", "other.so")
    assert libraries("~/c.so,~/a,b.so") == (f"{tmp_path}/c.so", f"{tmp_path}/a,b.so")
    for name in ("acl:a.so,,b.so", "acl:,", "acl:a.so,"):
        with pytest.raises(UsageError, match=r"expected acl:LIBRARY\[,LIBRARY"):
            AclProvider(name)


@needs_c
def test_a_file_with_a_comma_and_one_at_home_are_loaded(built, tmp_path, monkeypatch):
    odd = tmp_path / "one,two.so"
    odd.write_bytes(built.read_bytes())
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (f"acl:{odd}", "acl:~/one,two.so"):
        provider = AclProvider(name)
        provider.check()
        assert provider.unavailable() is None


@needs_c
@pytest.mark.parametrize("isolated", [None, True, False])
def test_a_library_that_cannot_be_loaded_is_refused_before_anything_runs(isolated, tmp_path):
    limits = Limits(isolate=isolated)
    with pytest.raises(UsageError, match=r"surely-not-there\.so cannot be loaded: cannot open"):
        open_provider("acl:surely-not-there.so", limits)


@needs_c
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("acl:.", ". is a directory: expected a shared library in it, acl:DIR/LIB.so"),
        ("acl:liblsbench_acl.so", "for the file in this directory write ./liblsbench_acl.so"),
        ("acl:./cases.yaml", "./cases.yaml cannot be loaded: file too short"),
        ("acl:./no.so", "./no.so cannot be loaded: cannot open shared object file"),
    ],
)
def test_a_name_that_is_no_library_is_one_line_and_exit_2(name, said, built, cases):
    (cases / built.name).write_bytes(built.read_bytes())
    words = ("--provider", "exact", "--provider", name)
    status, shown, errors = lsbench(cases, "run", "cases.yaml", *words)
    assert (status, shown) == (2, "")
    assert said in errors
    assert errors.count("\n") == 1
    assert not list(cases.rglob("*.json"))


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LSBENCH_ACL_KERNEL", "nonsense", "LSBENCH_ACL_KERNEL is nonsense: expected one of"),
        ("LSBENCH_ACL_THREADS", "0", "LSBENCH_ACL_THREADS is 0: expected a number from 1 to 256"),
        ("LSBENCH_ACL_PRODUCT", "A9", "LSBENCH_ACL_PRODUCT is A9: expected one of Atlas A2"),
        ("LSBENCH_ACL_DEVICE", "one", "LSBENCH_ACL_DEVICE is one: expected the number of a device"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
@needs_c
def test_a_variable_that_makes_no_sense_is_one_line_and_exit_2(
    variable, value, said, own, built, cases
):
    name = "acl" if own else f"acl:{built}"
    words = ("run", "cases.yaml", "--provider", name)
    status, shown, errors = lsbench(cases, *words, **{variable: value})
    assert (status, shown) == (2, "")
    assert said in errors
    assert errors.count("\n") == 1


def test_the_command_says_what_is_wrong_with_the_environment(tmp_path):
    status, shown, errors = lsbench(tmp_path, "acl", LSBENCH_ACL_KERNEL="nonsense")
    assert (status, shown) == (2, "")
    assert "LSBENCH_ACL_KERNEL is nonsense: expected one of" in errors
    assert errors.count("\n") == 1
    assert lsbench(tmp_path, "acl", "--cflags", LSBENCH_ACL_KERNEL="nonsense")[0] == 0


CHATTY = """
#include <stdio.h>
int aclInit(const char *path) { puts("hello from \\033[31mhere"); return 5; }
const char *aclGetRecentErrMsg(void) { return "no \\033[31mdevice\\007\\n at \\302\\233 all"; }
"""


@needs_c
def test_a_foreign_librarys_words_reach_no_terminal_as_codes(cases):
    source, chatty = cases / "chatty.c", cases / "libchatty.so"
    source.write_text(CHATTY)
    acl_builds.run("cc", "-shared", "-fPIC", source, "-o", chatty)
    reason = AclProvider(f"acl:{chatty}").unavailable()
    assert reason == r"aclInit returned 5: no \x1b[31mdevice\x07 at \x9b all"
    assert Library([str(chatty)]).message().isprintable()
    _, shown, errors = lsbench(cases, "run", "cases.yaml", "--provider", "acl:./libchatty.so")
    assert r"\x1b[31mdevice" in shown
    assert "\x1b" not in shown + errors
    assert plain("ünïcode\tstays".encode()) == "ünïcode stays"


def test_names_of_two_libraries_stay_apart_in_a_column():
    same = [f"acl:/home/user/builds/{n}/lib/liblsbench_acl.so" for n in range(12)]
    names = ["exact", "torch", *same, "acl:./libmine.so", "python:path/to/file.py:my_function"]
    labels = cut(names, 18)
    assert list(labels) == names
    assert len(set(labels.values())) == len(names)
    assert all(len(label) <= 18 for label in labels.values())
    assert labels["exact"] == "exact"
    assert labels["python:path/to/file.py:my_function"].endswith("y_function")
