"""The one place that writes files: whole or not at all.

A file is written under a temporary name beside its target, flushed to the disk and renamed, so
that a reader never sees half a document and a full disk never costs the old one. A target that is
no regular file (a terminal, a pipe, ``/dev/null``) is written directly.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from pathlib import Path

from lsbench.codec import encode
from lsbench.errors import OutputError


def write(path: str | Path, text: str) -> None:
    """Write text as UTF-8, replacing the file; missing folders are made.

    A new file gets the permissions of the umask, a replaced one keeps its own; through a symbolic
    link the file it points to is replaced. Raises OutputError with the reason of the system.
    """
    data = text.encode("utf-8", "backslashreplace")
    target = _target(path)
    try:
        if _special(target):
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise _failure(path, error) from None


def write_json(path: str | Path, value: object) -> None:
    """Write records (:func:`lsbench.codec.encode`) as JSON; raises OutputError as :func:`write`."""
    write(path, json.dumps(encode(value), ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def append(path: str | Path, text: str) -> None:
    """Append text to a file that several writers share, such as a CI step's summary.

    Raises OutputError with the reason of the system.
    """
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        raise _failure(path, error) from None


def check_writable(path: str | Path) -> None:
    """Find out before the work whether :func:`write` will be able to write there.

    Raises OutputError; leaves nothing behind but the folders.
    """
    target = _target(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "Is a directory")
        if _special(target):
            return
        temporary = _temporary(target)
        os.close(_create(temporary))
        temporary.unlink()
    except OSError as error:
        raise _failure(path, error) from None


def _target(path: str | Path) -> Path:
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _failure(path, error) from None
    return target


def _special(target: Path) -> bool:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _temporary(target: Path) -> Path:
    # Short, so that a target's name of the greatest length still has a temporary one.
    return target.with_name(f".{target.name[:32]}.{secrets.token_hex(4)}.tmp")


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def _replace(target: Path, data: bytes) -> None:
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory")
    temporary = _temporary(target)
    descriptor = _create(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _failure(path: str | Path, error: OSError | ValueError) -> OutputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OutputError(f"cannot write {os.fspath(path)}: {reason}")
