"""What all tests share: the same examples in every run, however busy the machine is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("lsbench", deadline=None, derandomize=True)
settings.load_profile("lsbench")
