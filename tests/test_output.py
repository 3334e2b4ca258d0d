"""Writing files: whole or not at all, with the right permissions, and one line where it fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lsbench import output
from lsbench.errors import OutputError

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    target = tmp_path / "made" / "for" / "it.json"
    output.write(target, "one")
    output.write(target, "two\n")
    assert target.read_bytes() == b"two\n"
    assert os.listdir(target.parent) == ["it.json"]


def test_permissions_follow_the_umask_and_are_kept(tmp_path):
    target = tmp_path / "a.json"
    before = os.umask(0o027)
    try:
        output.write(target, "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    output.write(target, "y")
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    output.write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_failure_keeps_the_old_file_and_leaves_no_temporary(tmp_path, monkeypatch):
    target = tmp_path / "a.json"
    output.write(target, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot write .*a\.json: No space left on device"):
        output.write(target, "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_an_interruption_leaves_no_temporary(tmp_path, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output.write(tmp_path / "a.json", "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("act", [lambda p: output.write(p, "x"), output.check_writable])
def test_what_cannot_be_written_is_one_line(tmp_path, act):
    (tmp_path / "file").write_text("")
    wrong = {
        tmp_path: "Is a directory",
        tmp_path / "file" / "below.json": "Not a directory|File exists",
        tmp_path / ("n" * 300): "File name too long",
        tmp_path / "nul\0byte": "null|embedded",
    }
    for path, reason in wrong.items():
        with pytest.raises(OutputError, match=rf"^cannot write .*: .*({reason})"):
            act(path)


@pytest.mark.skipif(ROOT, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        output.check_writable(tmp_path / "a.json")
    tmp_path.chmod(0o700)


def test_checking_leaves_nothing_behind(tmp_path):
    target = tmp_path / "a.json"
    output.check_writable(target)
    assert os.listdir(tmp_path) == []
    target.write_text("kept")
    output.check_writable(target)
    assert target.read_text() == "kept"


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="this system has no /dev/null")
def test_a_device_is_written_directly():
    output.check_writable("/dev/null")
    output.write("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    target = tmp_path / ("n" * 255)
    output.write(target, "x")
    assert target.read_text() == "x"


def test_half_a_surrogate_pair_is_written_as_its_escape(tmp_path):
    output.write(tmp_path / "a", "\udcff")
    assert (tmp_path / "a").read_bytes() == rb"\udcff"


def test_appending(tmp_path):
    output.append(tmp_path / "summary.md", "one\n")
    output.append(tmp_path / "summary.md", "two\n")
    assert (tmp_path / "summary.md").read_text() == "one\ntwo\n"
    with pytest.raises(OutputError, match="cannot write"):
        output.append(tmp_path, "x")
