"""One case × one provider → one row."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from lsbench import accuracy, determinism, environment, gates, standards, throughput, verdicts
from lsbench.cases import Case, Tensors, described, first_phase, tensors
from lsbench.errors import LsbenchError, ProviderError, UsageError
from lsbench.formats import by_name
from lsbench.operator import FirstPhase
from lsbench.providers.base import Array, Call, Prepared, Provider
from lsbench.providers.isolation import Limits
from lsbench.records import Accuracy, Gate, Row
from lsbench.rotation import Sets

Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """What a run measures, and how long it may take over a row."""

    reference: str = "certified"
    determinism: bool = True
    repeats: int = 3
    """Repetitions whose bits are compared."""
    fresh_process: bool = False
    """Compare bits with those of a fresh process too; a gate on that axis asks for it as well."""
    throughput: bool = True
    budget: float = 0.25
    """Seconds of timing per row."""
    limits: Limits = field(default_factory=Limits)
    """Of the providers' child processes."""
    second: Provider | None = None
    """Another implementation, whose errors the standard cann-ratio compares with."""
    words: tuple[str, ...] = ()
    """Options of the command line that change a row, for the line that repeats it."""
    tracebacks: bool = False
    """Put a provider's own traceback into the row's notes."""


def run_row(case: Case, provider: Provider, settings: Settings, step: Step) -> Row:
    """Run, judge and time one case with one provider; a failure becomes the row's verdict."""
    row = _blank(case, provider, settings)
    try:
        return _positive(row, case, provider, settings, step)
    except ProviderError as error:
        notes = (*row.notes, error.details) if settings.tracebacks and error.details else row.notes
        row = replace(row, reason=str(error), notes=notes)
        if error.verdict == "contract":
            row = replace(row, gates=(*row.gates, _contract(case, str(error))))
        return _closed(row, case, {error.verdict})
    except (LsbenchError, MemoryError) as error:
        reason = str(error) or "out of memory"
        return _closed(replace(row, reason=reason), case, {"crashed"})
    except Exception as error:
        # A third party's provider may raise anything: its row is lost, the others are not.
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        notes = (*row.notes, traceback.format_exc()) if settings.tracebacks else row.notes
        return _closed(replace(row, reason=reason, notes=notes), case, {"crashed"})


def _blank(case: Case, provider: Provider, settings: Settings) -> Row:
    return Row(
        case=case.name,
        dtype=case.dtype,
        shape=case.shape,
        layout=dict(case.layout),
        product=case.product,
        tags=case.tags,
        source=case.source,
        seed=case.seed,
        provider=provider.name,
        provider_version="",
        options=case.options,
        input_hash="",
        output_hash="",
        verdicts=(),
        reason="",
        notes=(),
        status=None,
        expected_status=case.expect,
        accuracy=None,
        standards=(),
        determinism=None,
        throughput=None,
        gates=(),
        reproduce=reproduce(case, provider.name, settings.words),
    )


def reproduce(case: Case, provider: str, words: tuple[str, ...] = ()) -> str:
    """The command line that runs this row alone; ``words`` are the options of the run."""
    path = case.source.rsplit(":", 1)[0]
    path = f"./{path}" if path.startswith("-") else path
    return shlex.join(["lsbench", "run", path, "-k", case.name, "--provider", provider, *words])


def _positive(row: Row, case: Case, provider: Provider, settings: Settings, step: Step) -> Row:
    reason = provider.unavailable()
    if reason is not None:
        return _closed(replace(row, reason=reason), case, {"skipped"})
    row = replace(row, provider_version=provider.version())
    phase = _first_phase(case, provider)
    row = replace(row, status=phase.status, notes=phase.notes)
    expected = case.expect or 0
    status = Gate(
        "status", f"== {expected}", str(phase.status), phase.status == expected, case.source
    )
    row = replace(row, gates=(status,))
    if not status.passed or expected:
        return _closed(
            replace(row, reason=phase.message), case, set() if status.passed else {"contract"}
        )
    return _computed(row, case, provider, settings, step)


def _first_phase(case: Case, provider: Provider) -> FirstPhase:
    """The provider's own first phase where it has one, and the operator's otherwise."""
    said = None
    if case.operator:
        said = provider.first_phase(described(case), case.product, case.null)
    return said or first_phase(case)


def _computed(row: Row, case: Case, provider: Provider, settings: Settings, step: Step) -> Row:
    fmt = by_name(case.dtype)
    held = tensors(case)
    call = Call(
        fmt, held.grad_output, held.self, held.buffer, held.grad_input, case.options, case.views
    )
    row = replace(row, input_hash=determinism.input_hash(fmt, held.grad_output, held.self))
    refusal = provider.refuse(call)
    if refusal is not None:
        return _closed(replace(row, reason=refusal), case, {"unsupported"})
    prepared = provider.prepare(call)
    try:
        prepared.run()
        try:
            prepared.fetch()
        except ProviderError as error:
            if error.brought:
                return _broken(row, case, call, settings, step, str(error))
            raise
        breaches = _breaches(row, call, held)
        settings = replace(settings, reference=case.reference or settings.reference)
        # The first result is what is judged: whatever computes again comes after it.
        row = _judged(row, call, settings, step)
        breaches += _later_breaches(call, prepared)
        if settings.throughput and case.throughput and call.self.size:
            step("timing", 0, 1)
            row = _timed(row, case, provider, prepared, call, settings)
    finally:
        prepared.close()
    if settings.determinism:
        step("determinism", 0, 1)
        asked = any(rule.name == "deterministic.process" for rule in case.gates)
        axes = determinism.AXES if settings.fresh_process or asked else determinism.IN_PROCESS
        stable = determinism.check(provider, call, axes=axes, repeats=settings.repeats)
        row = replace(row, determinism=stable)
    row = replace(row, reason="; ".join(breaches))
    contract = _contract(case, row.reason)
    row = replace(row, gates=(*row.gates, contract, *gates.evaluate(case.gates, row)))
    return replace(row, verdicts=_verdicts(row, provider, call, settings))


def _contract(case: Case, breach: str) -> Gate:
    """The gate that every computed row has: the operator's contract, and what broke it."""
    return Gate("contract", "no breach", breach or "none", not breach, case.source)


def _broken(row: Row, case: Case, call: Call, settings: Settings, step: Step, breach: str) -> Row:
    """A result that came with a breach: judged, and no more is asked of its provider."""
    row = _judged(row, call, replace(settings, second=None), step)
    row = replace(row, reason=breach)
    gated = (*row.gates, _contract(case, breach), *gates.evaluate(case.gates, row))
    assert row.accuracy is not None
    found = verdicts.of_accuracy(row.accuracy, gated, flushes=False, reads_zero=False)
    return replace(row, gates=gated, verdicts=verdicts.order(found | {"contract"}))


def _timed(
    row: Row, case: Case, provider: Provider, prepared: Prepared, call: Call, settings: Settings
) -> Row:
    plan = throughput.Plan(budget=case.budget or settings.budget, seed=case.seed)
    try:
        sets = Sets(call, cold=case.cold, cache=environment.last_level_cache())
    except UsageError as error:
        return replace(row, notes=(*row.notes, f"not timed: {error}"))
    return replace(row, throughput=throughput.measure_row(provider, prepared, sets, plan))


def _breaches(row: Row, call: Call, held: Tensors) -> list[str]:
    """What the contract forbids and this computation did."""
    fmt, found = call.fmt, []
    if held.gaps_touched():
        found.append("wrote outside gradInput's elements")
    if determinism.input_hash(fmt, call.grad_output, call.self) != row.input_hash:
        found.append("changed an input")
    return found


def _later_breaches(call: Call, prepared: Prepared) -> list[str]:
    """What the contract forbids and shows when the computation is done again."""
    if call.buffer is None or not call.buffer.size:
        return []
    try:
        reads = _reads_buffer(call, prepared)
    except ProviderError as error:
        if error.brought:
            return [str(error)]
        raise
    return ["read buffer: its values change the result"] if reads else []


def _reads_buffer(call: Call, prepared: Prepared) -> bool:
    """Whether other values in the buffer change the result, and its own ones bring it back."""
    buffer = call.buffer
    assert buffer is not None
    kept = buffer.copy()

    def output(content: Array | float) -> str:
        buffer[...] = content
        prepared.run()
        prepared.fetch()
        return determinism.output_hash(call.fmt, call.grad_input)

    # Another number, then NaN: a formula that cancels the one lets the other through.
    before = determinism.output_hash(call.fmt, call.grad_input)
    moved = any(output(content) != before for content in (2 if np.all(kept == 1) else 1, np.nan))
    # Where the result does not come back it moves by itself: that is for determinism to say.
    return output(kept) == before and moved


def _judged(row: Row, call: Call, settings: Settings, step: Step) -> Row:
    options = call.options

    def progress(done: int, total: int) -> None:
        step("judging", done, total)

    errors = accuracy.judge(
        call.fmt,
        options.rounding,
        options.seed,
        call.grad_output,
        call.self,
        call.grad_input,
        reference=settings.reference,
        ftz=options.ftz,
        progress=progress,
    )
    second, notes = None, row.notes
    try:
        second = _second_result(settings.second, call)
    except ProviderError as error:
        assert settings.second is not None
        notes = (*notes, f"no cann-ratio: {settings.second.name}: {error}")
    return replace(
        row,
        notes=notes,
        accuracy=errors,
        output_hash=determinism.output_hash(call.fmt, call.grad_input),
        standards=standards.evaluate(
            call.fmt,
            errors,
            call.grad_output,
            call.self,
            call.grad_input,
            second,
        ),
    )


def _second_result(second: Provider | None, call: Call) -> Array | None:
    """What the second implementation makes of the same inputs; None where it cannot."""
    if second is None or second.refuse(call) is not None:
        return None
    return verdicts.compute(second, call.fmt, call.grad_output, call.self, call.options)


def _verdicts(row: Row, provider: Provider, call: Call, settings: Settings) -> tuple[str, ...]:
    errors = row.accuracy
    assert errors is not None
    lost = errors.flushed > errors.spurious_zero and not call.options.ftz
    flushes, reads_zero = (
        verdicts.probe_subnormals(provider, call.fmt, call.options) if lost else (False, False)
    )
    found = verdicts.of_accuracy(errors, row.gates, flushes=flushes, reads_zero=reads_zero)
    if found and any(words != "contiguous" for words in row.layout.values()):
        plain = _contiguous_errors(provider, call, settings)
        if not verdicts.of_accuracy(plain, (), flushes=flushes, reads_zero=reads_zero):
            found = {"stride"}
    found |= verdicts.of_determinism(row.determinism)
    found |= verdicts.of_throughput([row.throughput] if row.throughput else [])
    if any(not gate.passed for gate in row.gates if gate.name in ("contract", "status")):
        found.add("contract")
    return verdicts.order(found)


def _contiguous_errors(provider: Provider, call: Call, settings: Settings) -> Accuracy:
    """The errors of the same values laid out without strides."""
    y = verdicts.compute(provider, call.fmt, call.grad_output, call.self, call.options)
    return accuracy.judge(
        call.fmt,
        call.options.rounding,
        call.options.seed,
        call.grad_output,
        call.self,
        y,
        reference=settings.reference,
        ftz=call.options.ftz,
    )


def _closed(row: Row, case: Case, found: set[str]) -> Row:
    """A row that ends before its figures: its gates are there, unexercised ones are left out."""
    evaluated = gates.evaluate(case.gates, row) if case.gates else ()
    return replace(row, gates=(*row.gates, *evaluated), verdicts=verdicts.order(found))
