"""Plant a regression in a recorded run, so that a user can see that a gate can fail."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from lsbench.records import Accuracy, Arm, Ratio, Row, Run, Standard, Throughput


def plant(run: Run, share: float, ulps: float) -> Run:
    """The run with both planted; 0 plants nothing."""
    run = slowdown(run, share) if share else run
    return ulp(run, ulps) if ulps else run


def slowdown(run: Run, share: float) -> Run:
    """The run as if every provider took ``share`` longer: 0.05 is 5 %. The roof stays."""
    rows = (
        replace(row, throughput=_slower(row.throughput, 1 + share)) if row.throughput else row
        for row in run.rows
    )
    return replace(run, rows=tuple(rows))


def _slower(timed: Throughput, factor: float) -> Throughput:
    # The first arm is the provider, and A/A is the provider again.
    arms = (
        _stretched(arm, factor) if i == 0 or arm.name == "A/A" else arm
        for i, arm in enumerate(timed.arms)
    )
    roof = timed.of_roof
    return replace(
        timed,
        arms=tuple(arms),
        gb_per_s=timed.gb_per_s / factor,
        gelem_per_s=timed.gelem_per_s / factor,
        of_roof=roof and Ratio(roof.value / factor, roof.low / factor, roof.high / factor),
    )


def _stretched(arm: Arm, factor: float) -> Arm:
    return replace(
        arm,
        seconds=tuple(s * factor for s in arm.seconds),
        median=arm.median * factor,
        minimum=arm.minimum * factor,
        iqr=arm.iqr * factor,
    )


def ulp(run: Run, ulps: float) -> Run:
    """The run as if the worst element of every judged row were ``ulps`` further off."""
    return replace(run, rows=tuple(_off(row, ulps) if row.accuracy else row for row in run.rows))


def _off(row: Row, ulps: float) -> Row:
    errors = row.accuracy
    if errors is None or not errors.measured:
        return row
    moved = _moved(errors, ulps)
    return replace(
        row,
        accuracy=moved,
        output_hash=hashlib.sha256(row.output_hash.encode()).hexdigest(),
        standards=tuple(_judged(standard, moved) for standard in row.standards),
    )


def _moved(errors: Accuracy, ulps: float) -> Accuracy:
    misrounded = min(errors.misrounded + 1, errors.elements)
    return replace(
        errors,
        max_ulp=errors.max_ulp + ulps,
        max_ulp_ftz=errors.max_ulp_ftz + ulps,
        mean_ulp=errors.mean_ulp + ulps / errors.measured,
        misrounded=misrounded,
        misrounded_share=misrounded / errors.elements,
    )


def _judged(standard: Standard, errors: Accuracy) -> Standard:
    if standard.name == "exact":
        return replace(standard, passed=False, figures={"misrounded": float(errors.misrounded)})
    if standard.name == "faithful":
        passed = standard.passed and errors.max_ulp < 1
        return replace(standard, passed=passed, figures={"max_ulp": errors.max_ulp})
    return standard
