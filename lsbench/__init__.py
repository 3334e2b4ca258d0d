"""lsbench: verify and benchmark implementations of LogSigmoid backward, every element judged."""

from __future__ import annotations

__version__ = "0.1.0"
