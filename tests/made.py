"""Rows and runs made by hand: what tests of gates, results, compare and reports start from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lsbench.records import (
    Accuracy,
    Arm,
    Axis,
    Determinism,
    Difference,
    Element,
    Environment,
    Options,
    Ratio,
    Reference,
    Row,
    Run,
    Standard,
    Throughput,
    Value,
)

ONE = Value("0x3c00", "1")
HALF = Value("0x3800", "0.5")
WORST = Element(3, ONE, Value("0x0000", "0"), Value("0x3801", "0.50048828125"), HALF, "0.5", 1.0)
ACCURACY = Accuracy(
    elements=1000,
    measured=990,
    max_ulp=0.75,
    mean_ulp=0.25,
    rms_ulp=0.3,
    p50_ulp=0.24,
    p99_ulp=0.5,
    p999_ulp=0.7,
    bias_ulp=-0.0125,
    max_ulp_ftz=0.7,
    misrounded=20,
    nonfinite=0,
    nan_lost=0,
    zero_sign=0,
    flushed=0,
    spurious_zero=0,
    daz=0,
    misrounded_share=0.02,
    worst=WORST,
    reference=Reference("certified", 1000, 3, 40, 0),
)
DETERMINISM = Determinism(
    (
        Axis("repeats", ("3 runs",), True),
        Axis("threads", ("1", "2"), True),
        Axis("process", (), None, "not asked for"),
    )
)
MOVED = Difference(7, ONE, HALF, ("1 thread", "2 threads"))


def arm(name: str, *seconds: float) -> Arm:
    """An arm of the given samples, two a block."""
    ordered = sorted(seconds)
    return Arm(
        name,
        seconds,
        tuple(i // 2 for i in range(len(seconds))),
        loops=8,
        median=ordered[len(ordered) // 2],
        minimum=ordered[0],
        iqr=ordered[-1] - ordered[0],
    )


THROUGHPUT = Throughput(
    state="hot",
    threads=2,
    bytes_per_call=12000,
    arms=(
        arm("fast", 1.0e-6, 1.1e-6, 1.05e-6, 1.02e-6),
        arm("A/A", 1.01e-6, 1.1e-6, 1.0e-6, 1.03e-6),
        arm("roof", 0.5e-6, 0.55e-6, 0.52e-6, 0.5e-6),
    ),
    gb_per_s=11.5,
    gelem_per_s=0.96,
    of_roof=Ratio(0.5, 0.48, 0.52),
    noise=Ratio(1.0, 0.99, 1.01),
    empty_call=1e-8,
    stopped="width",
)
STANDARDS = (
    Standard("torch", True, {"share": 1.0}),
    Standard("exact", False, {"misrounded": 20.0}, "note"),
)


def row(case: str = "plain", **changes: Any) -> Row:
    """A row that was judged, checked and timed; ``changes`` replace its fields."""
    made = Row(
        case=case,
        dtype="fp16",
        shape=(10, 100),
        layout={"self": "contiguous", "grad_output": "contiguous"},
        product="atlas-a2",
        tags=("quick",),
        source="cases/made.yaml:4",
        seed=7,
        provider="fast",
        provider_version="0.1.0",
        options=Options(),
        input_hash="a" * 64,
        output_hash="b" * 64,
        verdicts=("pass",),
        reason="",
        notes=(),
        status=0,
        expected_status=None,
        accuracy=ACCURACY,
        standards=STANDARDS,
        determinism=DETERMINISM,
        throughput=THROUGHPUT,
        gates=(),
        reproduce=f"lsbench run cases/made.yaml -k {case} --provider fast",
    )
    return replace(made, **changes)


def skipped(case: str = "plain", **changes: Any) -> Row:
    """A row that was not run."""
    return row(
        case,
        **{
            "accuracy": None,
            "standards": (),
            "determinism": None,
            "throughput": None,
            "status": None,
            "output_hash": "",
            "verdicts": ("skipped",),
            "reason": "torch is not installed",
            **changes,
        },
    )


def accuracy(**changes: Any) -> Accuracy:
    """The usual accuracy with some of its fields replaced."""
    return replace(ACCURACY, **changes)


ENVIRONMENT = Environment(
    cpu="Some CPU",
    caches={"L1d": 32768, "L2": 1048576},
    cores=2,
    memory=1 << 33,
    os="Linux 6.1",
    python="CPython 3.12.1",
    isa="x86_64_v3",
    compiler="gcc 13.2.0",
    flags="-O3 -ffp-contract=off",
    libraries={"numpy": "2.1.0"},
    fp_control="round to nearest, subnormals kept",
)


def run(*rows: Row, **changes: Any) -> Run:
    """A complete run of the rows."""
    made = Run(
        kind="run",
        lsbench="0.1.0",
        git_commit="0123abcd",
        command="lsbench run cases/made.yaml",
        seed=7,
        started="2026-01-02T03:04:05+00:00",
        duration=1.5,
        environment=ENVIRONMENT,
        rows=rows,
        complete=True,
        exit_code=0,
    )
    return replace(made, **changes)
