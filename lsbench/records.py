"""What a run knows, as plain frozen records: the only thing that reports, gates and compare see.

The tree goes to JSON and back without loss (:mod:`lsbench.results`). Counts are integers, figures
are floats, and a value of a tensor is a :class:`Value`: bits and shortest decimal side by side.
An absent measure is None, never a made-up number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = 3
"""Version of the results format; it grows when a field is added, or changes its meaning or place.

A field that a later schema added has a default, which is what older documents get for it.

1. The first.
2. ``Gate.exercised``, ``Run.gates`` and ``Run.verdict``.
"""

VERDICTS = (
    "nonfinite",
    "nan_lost",
    "spurious_zero",
    "accuracy",
    "ftz",
    "daz",
    "stride",
    "tail",
    "nondeterministic",
    "contract",
    "unsupported",
    "skipped",
    "crashed",
    "timing-unstable",
    "pass",
)
"""Every verdict, worst first. A row carries those that apply."""


@dataclass(frozen=True)
class Value:
    """One value of a tensor."""

    hex: str
    """Bit pattern, all digits."""
    decimal: str
    """Shortest decimal that reads back to it; nan, inf and -inf as words."""


@dataclass(frozen=True)
class Element:
    """One element that a report names."""

    index: int
    """Row-major position in the tensor."""
    g: Value
    x: Value
    computed: Value
    correct: Value
    """The correctly rounded result under the declared mode."""
    exact: str
    """The exact value to 20 significant decimal digits."""
    ulp: float | None
    """Signed error in ulp; None where none is defined (a NaN or an infinity on one side)."""


@dataclass(frozen=True)
class Reference:
    """Who judged, and how the judge was audited."""

    name: str
    """certified, mpmath or arb."""
    judged: int
    """Elements judged."""
    undecided: int = 0
    """Elements that the fast reference passed on to mpmath."""
    audited: int = 0
    """Elements judged a second time by mpmath: the seeded sample and every worst element."""
    differed: int = 0
    """Audited elements on which the two disagreed; anything but 0 voids the run."""


@dataclass(frozen=True)
class Accuracy:
    """Errors of one result, every element counted. Unit: ulp of the exact value."""

    elements: int
    measured: int
    """Elements with a defined error: all but those where a NaN or an infinity is involved."""
    max_ulp: float
    mean_ulp: float
    rms_ulp: float
    p50_ulp: float
    p99_ulp: float
    p999_ulp: float
    bias_ulp: float
    """Mean of the signed errors."""
    max_ulp_ftz: float
    """The maximum with subnormal results excused."""
    misrounded: int
    nonfinite: int
    nan_lost: int
    """Part of nonfinite: a number where NaN is right."""
    zero_sign: int
    flushed: int
    """Zeros where the correctly rounded result is not zero."""
    spurious_zero: int
    """Part of flushed: the correctly rounded result is a normal number."""
    daz: int
    """Results that are right if subnormal inputs are read as zeros, and wrong otherwise."""
    misrounded_share: float
    """misrounded / elements; 0 for an empty tensor."""
    worst: Element | None
    """The element of the largest error, or of the first nonfinite one where there are any."""
    reference: Reference
    sampled: int | None = None
    """Number of elements judged, where not all were; None means every one."""


@dataclass(frozen=True)
class Standard:
    """One acceptance standard applied to one result."""

    name: str
    passed: bool
    figures: dict[str, float]
    """The numbers the rule compares, by name."""
    note: str = ""
    """Said where the tolerance is larger than the signal or smaller than half an ulp."""


@dataclass(frozen=True)
class Difference:
    """The first element that differs between two variants of one computation."""

    index: int
    first: Value
    second: Value
    variants: tuple[str, str]


@dataclass(frozen=True)
class Axis:
    """One axis of determinism: what was varied, and whether any bit moved."""

    name: str
    """repeats, threads, blocks, alignment, layout, position, isa, process."""
    tried: tuple[str, ...]
    """The variants compared with the first run, in words."""
    stable: bool | None
    """None: not tried, see reason."""
    reason: str = ""
    difference: Difference | None = None


@dataclass(frozen=True)
class Determinism:
    """Whether the bits of gradInput depend on anything but the inputs."""

    axes: tuple[Axis, ...]

    @property
    def stable(self) -> bool:
        """Whether no axis that was tried moved a bit."""
        return all(axis.stable is not False for axis in self.axes)


@dataclass(frozen=True)
class Arm:
    """The timing samples of one contestant of an interleaved measurement."""

    name: str
    """The provider, "A/A" for the repeated baseline, or "roof"."""
    seconds: tuple[float, ...]
    """Seconds per call, one figure per sample, in the order taken."""
    blocks: tuple[int, ...]
    """The ABBA block of each sample."""
    loops: int
    """Calls per sample, frozen at calibration."""
    median: float
    minimum: float
    iqr: float
    order: tuple[int, ...] = ()
    """The turn of each sample among those of all arms: which arm ran before which."""


@dataclass(frozen=True)
class Ratio:
    """A paired ratio of speeds with its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Throughput:
    """Time and bandwidth of one provider on one case."""

    state: str
    """hot or cold."""
    threads: int
    bytes_per_call: int
    arms: tuple[Arm, ...]
    """The provider first, then A/A, then roof, then peers."""
    gb_per_s: float
    gelem_per_s: float
    of_roof: Ratio | None
    """Speed as a share of the measured roof, taken pair by pair."""
    noise: Ratio | None
    """The A/A arm against the provider: the noise floor."""
    empty_call: float
    """Seconds of a call that does nothing."""
    stopped: str
    """Why sampling ended: "width" or "budget"."""
    flags: tuple[str, ...] = ()
    """unstable, contaminated, above-roof."""


@dataclass(frozen=True)
class Gate:
    """The verdict of one gate on one row."""

    name: str
    """The figure: max_ulp, nonfinite, deterministic, torch, of_roof, ..."""
    rule: str
    """The rule as text: "<= 1.0"."""
    found: str
    passed: bool
    source: str
    """Where the rule stands: file:line, or the command line."""
    exercised: bool = True
    """False where the row lacks the figure, and ``found`` says why; it counts as passed then,
    unless no row of the run exercised the rule."""


@dataclass(frozen=True)
class Options:
    """How a kernel computes and stores; what a provider cannot follow it declares unsupported."""

    arithmetic: str = "fp32"
    rounding: str = "rne"
    ftz: bool = False
    block: int | None = None
    """Elements per block; None: the provider's own."""
    threads: int | None = None
    """None: the provider's own choice."""
    seed: int = 0
    """Seed of stochastic rounding."""


@dataclass(frozen=True)
class Row:
    """One case × one provider."""

    case: str
    dtype: str
    shape: tuple[int, ...]
    layout: dict[str, str]
    """Layout of each tensor, in words."""
    product: str
    tags: tuple[str, ...]
    source: str
    """file:line of the case."""
    seed: int
    provider: str
    provider_version: str
    options: Options
    input_hash: str
    """SHA-256 over shapes, dtype and logical bits of grad_output and self."""
    output_hash: str
    """SHA-256 over the logical bits of grad_input; empty where none was computed."""
    verdicts: tuple[str, ...]
    reason: str
    """One line: why skipped, unsupported or crashed, or which status was found."""
    notes: tuple[str, ...]
    status: int | None
    """Status code of the operator's first phase."""
    expected_status: int | None
    accuracy: Accuracy | None
    standards: tuple[Standard, ...]
    determinism: Determinism | None
    throughput: Throughput | None
    gates: tuple[Gate, ...]
    reproduce: str
    """A command line that runs this row alone."""

    @property
    def passed(self) -> bool:
        """Whether every gate of the row passed."""
        return all(gate.passed for gate in self.gates)

    @property
    def identity(self) -> tuple[str, ...]:
        """What compare matches rows by, inputs aside."""
        options = self.options
        return (
            self.case,
            self.dtype,
            "x".join(map(str, self.shape)),
            ",".join(f"{k}={v}" for k, v in sorted(self.layout.items())),
            self.provider,
            options.arithmetic,
            options.rounding,
            "ftz" if options.ftz else "",
        )


@dataclass(frozen=True)
class Environment:
    """Machine, compiler and libraries of a run; nothing that names a person or a host."""

    cpu: str
    caches: dict[str, int]
    """Bytes by name: L1d, L2, L3."""
    cores: int
    memory: int
    os: str
    python: str
    isa: str
    compiler: str
    flags: str
    libraries: dict[str, str]
    fp_control: str
    """State of FTZ, DAZ and rounding when the run began."""


@dataclass(frozen=True)
class Run:
    """One results document."""

    kind: str
    """run, sweep or check."""
    lsbench: str
    git_commit: str
    command: str
    seed: int
    started: str
    """UTC, ISO 8601."""
    duration: float
    environment: Environment
    rows: tuple[Row, ...]
    complete: bool
    """False for a run that was interrupted."""
    exit_code: int
    schema: int = SCHEMA
    gates: tuple[Gate, ...] = ()
    """Gates on the run as a whole: rules that no row exercised."""
    verdict: str = ""
    """One line: what the exit code means here."""
    extra: dict[str, object] = field(default_factory=dict)
    """What one kind adds: a sweep's per-binade tables and shards."""
