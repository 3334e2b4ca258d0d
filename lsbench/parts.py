"""What is done of a sweep: kept in its results document, continued from it, merged from several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lsbench import environment
from lsbench.accuracy import element, summarise
from lsbench.binades import Binades
from lsbench.codec import encode
from lsbench.errors import ProviderError, ResultsError
from lsbench.plan import Plan
from lsbench.providers.isolation import Limits
from lsbench.records import Accuracy, Gate, Reference, Row, Run
from lsbench.shards import Lost, Outcome, Worker
from lsbench.tally import Tally

KEY = "sweeps"
"""Where a document's ``extra`` holds the parts, one for each row."""


@dataclass
class Part:
    """The shards of one plan that one document is to hold, and those that it holds."""

    plan: Plan
    size: int
    """Elements of the whole space."""
    label: str
    """Name of the space."""
    part: tuple[int, int] = (1, 1)
    """(I, N): part I of N."""
    provider_version: str = ""
    build: str = ""
    """The lsbench that began it."""
    obstacle: tuple[str, str] | None = None
    """(verdict, reason) where the provider cannot run the plan: then no shard belongs to it."""
    done: set[int] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    audited: int = 0
    differed: int = 0
    lost: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Shard → (verdict, reason) where the provider failed on it: it is still to be done."""

    @classmethod
    def begin(
        cls, plan: Plan, part: tuple[int, int] = (1, 1), limits: Limits | None = None
    ) -> Part:
        """A part of which nothing is done; raises UsageError for a plan that nobody can run."""
        worker, version = Worker(plan, limits), ""
        try:
            obstacle = worker.obstacle()
            if obstacle is None:
                version = worker.provider.version()
        except ProviderError as error:
            obstacle = error.verdict, str(error)
        finally:
            worker.close()
        space, tally = worker.space, Tally(binades=Binades())
        build = environment.package_digest()
        return cls(plan, space.size, space.label, part, version, build, obstacle, tally=tally)

    @property
    def shards(self) -> range:
        """The shards that belong to it."""
        return range(0) if self.obstacle else self.plan.part(self.size, *self.part)

    @property
    def left(self) -> list[int]:
        """The shards still to be done."""
        return [shard for shard in self.shards if shard not in self.done]

    @property
    def elements(self) -> int:
        """How many elements its shards have."""
        return sum(map(self.elements_of, self.shards))

    def elements_of(self, shard: int) -> int:
        """How many elements a shard has."""
        return min(self.plan.shard_size, self.size - shard * self.plan.shard_size)

    def add(self, outcome: Outcome | Lost) -> None:
        """Count a shard's outcome; one that is already counted is left out."""
        if outcome.shard in self.done:
            return
        if isinstance(outcome, Lost):
            self.lost[outcome.shard] = outcome.verdict, outcome.reason
            return
        self.lost.pop(outcome.shard, None)
        self.done.add(outcome.shard)
        self.tally.merge(outcome.tally)
        self.audited += outcome.audited
        self.differed += outcome.differed

    @property
    def is_whole(self) -> bool:
        """Whether every element of the space is counted."""
        return self.part[1] == 1 and not self.left

    def to_plain(self, *, final: bool) -> dict[str, Any]:
        """As JSON takes it; ``final``: without the state to go on from, and with short tables."""
        state = self.tally.to_plain()
        tables = state.pop("binades")
        if final:
            tables = {name: [_shortened(row) for row in rows] for name, rows in tables.items()}
        return {
            "plan": self.plan.to_plain(),
            "size": self.size,
            "label": self.label,
            "part": list(self.part),
            "provider_version": self.provider_version,
            "build": self.build,
            "obstacle": self.obstacle and list(self.obstacle),
            "done": _ranges(self.done),
            "audited": self.audited,
            "differed": self.differed,
            "lost": [[shard, *self.lost[shard]] for shard in sorted(self.lost)],
            "state": None if final else state,
            "largest": self._largest(),
            "binades": tables,
        }

    def _largest(self) -> Any:
        """The element of the largest error, which a row with nonfinite results does not name."""
        worst = self.tally.worst
        return None if worst is None else encode(element(self.plan.declared, worst))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], name: str) -> Part:
        """Read :meth:`to_plain` of an unfinished sweep back; ``name`` is what errors call it.

        Raises ResultsError for a whole sweep, which has no state, and for damage.
        """
        try:
            if plain["state"] is None:
                raise ResultsError(f"{name}: this sweep is whole: expected one with shards left")
            tally = Tally.from_plain({**plain["state"], "binades": plain["binades"]})
            number, of = plain["part"]
            found = cls(
                Plan.from_plain(plain["plan"]),
                int(plain["size"]),
                str(plain["label"]),
                (int(number), int(of)),
                str(plain["provider_version"]),
                str(plain.get("build", "")),
                _obstacle(plain["obstacle"]),
                {shard for first, last in plain["done"] for shard in range(first, last + 1)},
                tally,
                int(plain["audited"]),
                int(plain["differed"]),
                {int(n): (str(verdict), str(why)) for n, verdict, why in plain.get("lost", ())},
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ResultsError):
                raise
            raise ResultsError(f"{name}: damaged sweep: {error}") from None
        counted = sum(map(found.elements_of, found.done))
        if not found.done <= set(found.shards) or counted != tally.counts.elements:
            raise ResultsError(f"{name}: damaged sweep: its shards do not hold what it counted")
        return found

    def accuracy(self) -> Accuracy:
        """The record of what is counted so far."""
        counts = self.tally.counts
        who = self.plan.reference
        judge = Reference(who, counts.elements, counts.undecided, self.audited, self.differed)
        sampled = None if counts.elements == self.size else counts.elements
        return summarise(self.tally, self.plan.declared, judge, sampled=sampled)

    def row(self) -> Row:
        """The results row, without verdicts of its errors and gates but the audit's."""
        plan, differed = self.plan, self.differed
        verdict, reason = self.obstacle or self._failure() or ("pass", "")
        return Row(
            case=self.label,
            dtype=plan.dtype,
            shape=(self.size,),
            layout=dict(plan.layout),
            product="",
            tags=("sweep",),
            source="lsbench sweep",
            seed=plan.options.seed,
            provider=plan.provider,
            provider_version=self.provider_version,
            options=plan.options,
            input_hash="",
            output_hash="",
            verdicts=(verdict,),
            reason=reason,
            notes=(),
            status=None,
            expected_status=None,
            accuracy=self.accuracy() if self.done else None,
            standards=(),
            determinism=None,
            throughput=None,
            gates=(Gate("audit", "== 0", str(differed), differed == 0, "lsbench sweep"),),
            reproduce=plan.command(),
        )

    def _failure(self) -> tuple[str, str] | None:
        """(verdict, reason) of the shards that were lost: the first one speaks for them."""
        if not self.lost:
            return None
        first = min(self.lost)
        verdict, reason = self.lost[first]
        words = f"{len(self.lost)} of {len(self.shards)} shards lost, {len(self.left)} left to do"
        return verdict, f"{words}: shard {first}: {reason}"


def parts_of(run: Run, name: str) -> list[Part]:
    """The parts that a document holds; raises ResultsError where it is no sweep to go on with."""
    plain = run.extra.get(KEY)
    if run.kind != "sweep" or not isinstance(plain, list):
        raise ResultsError(f"{name}: found a {run.kind}: expected a sweep")
    return [Part.from_plain(entry, name) for entry in plain]


def resumable(part: Part, name: str, limits: Limits | None = None) -> Part:
    """The part as it can go on; one of which nothing is done begins anew.

    Raises ResultsError where what is left would be computed or judged by something else than what
    is done: the provider is gone or of another version, or lsbench is another build.
    """
    if part.done and not part.left:
        return part
    now = Part.begin(part.plan, part.part, limits)
    if not part.done:
        return now
    who, anew = part.plan.provider, "expected the same, or a sweep begun anew"
    if now.obstacle is not None:
        raise ResultsError(f"{name}: {who} did a part of it, and now {now.obstacle[1]}")
    for what, before, after in (
        (who, part.provider_version, now.provider_version),
        ("lsbench", part.build or "an older one", now.build),
    ):
        if before != after:
            raise ResultsError(f"{name}: begun with {what} {before}, found {after}: {anew}")
    return part


def merge(documents: Sequence[tuple[str, Sequence[Part]]]) -> list[Part]:
    """Add the parts of several documents together; the order of documents does not matter.

    Raises ResultsError, naming the document, where parts do not belong together, overlap, are
    unfinished or missing.
    """
    first_name, first = documents[0]
    for name, parts in documents:
        for part in parts:
            if part.left:
                raise ResultsError(
                    f"{name}: unfinished, {len(part.left)} of {len(part.shards)} shards are left: "
                    f"continue it with lsbench sweep --resume {name}"
                )
        if [_identity(p) for p in parts] != [_identity(p) for p in first]:
            raise ResultsError(f"{name}: {_difference(parts, first)} than in {first_name}")
    return [_merged([(name, parts[i]) for name, parts in documents]) for i in range(len(first))]


def _merged(named: Sequence[tuple[str, Part]]) -> Part:
    total = replace(named[0][1], part=(1, 1), done=set(), tally=Tally(), audited=0, differed=0)
    owner: dict[int, str] = {}
    for name, part in named:
        twice = part.done & total.done
        if twice:
            raise ResultsError(f"{name}: overlaps with {owner[min(twice)]}: expected other parts")
        owner.update(dict.fromkeys(part.done, name))
        total.done |= part.done
        total.tally.merge(part.tally)
        total.audited += part.audited
        total.differed += part.differed
    if total.left:
        of = named[0][1].part[1]
        present = {part.part[0] for _, part in named}
        missing = ", ".join(f"{i}/{of}" for i in range(1, of + 1) if i not in present)
        raise ResultsError(f"parts are missing: {missing or 'some shards'} of {of}")
    return total


def _identity(part: Part) -> tuple[object, ...]:
    return part.plan.to_plain(), part.size, part.part[1], part.provider_version, part.obstacle


def _difference(parts: Sequence[Part], first: Sequence[Part]) -> str:
    """In words, how the parts of a document differ from the first one's."""
    if len(parts) != len(first):
        return f"{len(parts)} rows, not {len(first)}: it is another sweep"
    for mine, other in zip(parts, first, strict=True):
        a, b = mine.plan.to_plain(), other.plan.to_plain()
        for key in a:
            if a[key] != b[key]:
                return f"{key} is {a[key]!r}, not {b[key]!r}: it is another sweep"
        if mine.part[1] != other.part[1]:
            return f"one of {mine.part[1]} parts, not of {other.part[1]}: it is cut otherwise"
    return "the provider was of another version"


def _shortened(row: list[Any]) -> list[Any]:
    # Digits beyond the seventh are below the reference's bound; what goes on needs them all.
    return [*row[:-1], float(f"{row[-1]:.7g}")]


def _obstacle(plain: Any) -> tuple[str, str] | None:
    if plain is None:
        return None
    verdict, reason = map(str, plain)
    return verdict, reason


def _ranges(numbers: set[int]) -> list[list[int]]:
    """Sorted numbers as [first, last] pairs of runs."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
