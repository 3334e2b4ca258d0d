"""What a sweep is to do: one provider over one space, cut into shards that can run anywhere."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from lsbench import spaces
from lsbench.errors import ResultsError, UsageError
from lsbench.formats import Format, by_name
from lsbench.records import Options
from lsbench.reference import NAMES as REFERENCES
from lsbench.reference import Declared
from lsbench.rounding import Rounding
from lsbench.spaces import Space

CHUNK = 1 << 16
"""Elements of one tensor: what the provider is called with. Its bits stay in the second cache."""
SHARD = {"certified": CHUNK << 10, "mpmath": CHUNK, "arb": CHUNK}
"""Elements of a shard by reference: about a second of work, and what an interruption loses."""
TENSORS = ("grad_output", "self", "grad_input")


@dataclass(frozen=True)
class Plan:
    """One row of a sweep; plain values, so that it travels to other machines and to JSON."""

    space: str
    dtype: str
    provider: str
    options: Options = field(default_factory=Options)
    """Its seed is that of stochastic rounding, of the space random and of the audit."""
    g: int | None = None
    """Bit pattern of g: space unary."""
    count: int | None = None
    """Elements: space random."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Bit patterns of (g, x): space hard."""
    layout: Mapping[str, str] = field(default_factory=dict)
    """Tensor → name of its layout, over tensors of 256 x 256; contiguous where absent."""
    reference: str = "certified"
    shard: int = 0
    """Elements of a shard, a multiple of CHUNK; 0: as the reference wants it."""

    def __post_init__(self) -> None:
        fmt = self.fmt
        if self.space not in spaces.NAMES:
            known = ", ".join(spaces.NAMES)
            raise UsageError(f"unknown space {self.space!r}: expected one of {known}")
        if self.reference not in REFERENCES:
            known = ", ".join(REFERENCES)
            raise UsageError(f"unknown reference {self.reference!r}: expected one of {known}")
        if (self.g is None) == (self.space == "unary"):
            raise UsageError(f"space {self.space} takes {'a' if self.g is None else 'no'} g")
        if (self.count is None) == (self.space == "random"):
            raise UsageError(f"space {self.space} takes {'a' if not self.count else 'no'} count")
        if bool(self.pairs) != (self.space == "hard"):
            raise UsageError(f"space {self.space} takes {'no' if self.pairs else 'some'} pairs")
        if self.count is not None and not 0 < self.count <= 1 << 62:
            raise UsageError(f"count is {self.count}: expected 1 to 2^62")
        if self.g is not None and not 0 <= self.g < 1 << fmt.bits:
            raise UsageError(f"g is {self.g:#x}: expected {fmt.bits} bits")
        if self.shard % CHUNK or self.shard < 0:
            raise UsageError(f"shard is {self.shard}: expected a multiple of {CHUNK}")
        Rounding(self.options.rounding)

    @property
    def fmt(self) -> Format:
        """The format of the tensors."""
        return by_name(self.dtype)

    @property
    def declared(self) -> Declared:
        """What the provider's results claim; each chunk is a tensor of its own."""
        mode, seed = Rounding(self.options.rounding), self.options.seed
        return Declared(self.fmt, mode, seed, self.options.ftz, period=CHUNK)

    @property
    def shard_size(self) -> int:
        """Elements of every shard but perhaps the last."""
        return self.shard or SHARD[self.reference]

    def open_space(self) -> Space:
        """The space; raises UsageError where the format has none of that name."""
        if self.space == "pairs":
            return spaces.Pairs(self.fmt)
        if self.space == "unary":
            assert self.g is not None
            return spaces.Unary(self.fmt, self.g)
        if self.space == "hard":
            return spaces.Hard(self.fmt, self.pairs)
        assert self.count is not None
        return spaces.Random(self.fmt, self.count, self.options.seed)

    def shards(self, size: int) -> int:
        """How many shards a space of that size has."""
        return -(-size // self.shard_size)

    def part(self, size: int, number: int, of: int) -> range:
        """The shards of part ``number`` of ``of``, from 1 on: neighbours, all parts alike."""
        total = self.shards(size)
        return range((number - 1) * total // of, number * total // of)

    def command(self) -> str:
        """The command line that sweeps this plan alone."""
        options, words = self.options, ["lsbench", "sweep", "--space", self.space]
        words += ["--dtype", self.dtype, "--provider", self.provider]
        words += [] if self.g is None else ["--g", f"bits:{self.fmt.hex(self.g)}"]
        words += [] if self.count is None else ["--count", str(self.count)]
        words += ["--arithmetic", options.arithmetic, "--rounding", options.rounding]
        words += ["--ftz"] if options.ftz else []
        words += ["--block", str(options.block)] if options.block else []
        words += ["--seed", str(options.seed)] if options.seed else []
        for tensor, layout in self.layout.items():
            words += ["--layout", f"{tensor}={layout}"]
        words += [] if self.reference == "certified" else ["--reference", self.reference]
        return shlex.join(words)

    def to_plain(self) -> dict[str, Any]:
        """The plan as JSON takes it."""
        pairs = [list(pair) for pair in self.pairs]
        return {**asdict(self), "layout": dict(self.layout), "pairs": pairs}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Plan:
        """Read :meth:`to_plain` back; raises ResultsError for anything else."""
        try:
            known = {f.name: plain[f.name] for f in fields(cls)}
            known["options"] = Options(**known["options"])
            known["pairs"] = tuple((int(g), int(x)) for g, x in known["pairs"])
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"damaged plan of a sweep: {error}") from None
