"""Messages between a process and its child: JSON with a length before it, at times a descriptor.

JSON, because a reply comes from a process that runs foreign code: nothing in it may be executed.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("<I")
LIMIT = 1 << 24
"""Longest message in bytes."""

Message = dict[str, Any]


class Closed(Exception):
    """The other side is gone."""


def send(link: socket.socket, message: Message, descriptor: int | None = None) -> None:
    """Send a message, and a file descriptor with it; raises Closed if nobody is there."""
    data = json.dumps(message).encode()
    head = _LENGTH.pack(len(data))
    try:
        if descriptor is None:
            link.sendall(head)
        else:
            socket.send_fds(link, [head], [descriptor])
        link.sendall(data)
    except OSError:
        raise Closed from None


def receive(link: socket.socket) -> tuple[Message, int | None]:
    """Wait for a message and its descriptor, if any; raises Closed where there is none to come."""
    try:
        head, descriptors, _, _ = socket.recv_fds(link, _LENGTH.size, 1)
        head += _exactly(link, _LENGTH.size - len(head))
        (length,) = _LENGTH.unpack(head)
        if length > LIMIT:
            raise Closed
        message = json.loads(_exactly(link, length))
    except (OSError, ValueError):
        raise Closed from None
    if not isinstance(message, dict):
        raise Closed
    for extra in descriptors[1:]:
        os.close(extra)
    return message, descriptors[0] if descriptors else None


def _exactly(link: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = link.recv(count)
        if not part:
            raise Closed
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
