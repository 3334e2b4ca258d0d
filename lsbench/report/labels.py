"""Names that fit a column: cut where they are long, and still told apart."""

from __future__ import annotations

from collections.abc import Iterable


def cut(names: Iterable[str], width: int) -> dict[str, str]:
    """A label of at most ``width`` characters, 12 or more, for each name; no two are the same.

    A long name keeps its prefix and its end, where paths and functions have their own names.

    >>> list(cut(["exact", "acl:/opt/one/libnn.so"], 16).values())
    ['exact', 'acl:…ne/libnn.so']
    >>> list(cut(["acl:/a/one/lib/libnn.so", "acl:/a/two/lib/libnn.so"], 16).values())
    ['acl:…ib/libnn.~1', 'acl:…ib/libnn.~2']
    """
    names = list(dict.fromkeys(names))
    labels = {name: shortened(name, width) for name in names}
    for label in set(labels.values()):
        alike = [name for name in names if labels[name] == label]
        if len(alike) > 1:
            for i, name in enumerate(alike, 1):
                labels[name] = f"{shortened(name, width)[: width - 1 - len(str(i))]}~{i}"
    return labels


def shortened(name: str, width: int) -> str:
    """One name in at most ``width`` characters."""
    if len(name) <= width:
        return name
    prefix = name.partition(":")[0] + ":"
    head = prefix if len(prefix) <= width // 2 else name[: width // 2]
    return head + "…" + name[len(name) - (width - len(head) - 1) :]
