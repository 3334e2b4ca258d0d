"""Gates: bounds on figures, the nearest rule for each row, and the rules that nothing exercised.

A rule is written as a figure and a value. The value is a bound on the figure's worse side
(``max_ulp: 1.0`` is at most 1, ``of_roof: 0.5`` at least a half), a truth value
(``deterministic: true``), or text with an operator of its own (``misrounded: "== 0"``).

Which rule decides, where several name the same figure, furthest first:

1. a rule for every row;
2. a rule for a dtype;
3. a rule for a provider;
4. a rule for a provider and a dtype;
5. a rule of the command line.

Among rules of one rank the later wins: rules come in the order of their nearness, those of a file's
``defaults`` before those of the case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lsbench.errors import UsageError
from lsbench.figures import Figure, Scalar, figure, text
from lsbench.records import Gate, Row

COMMAND_LINE = "--gate"
"""Source of a rule that was given on the command line."""

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": lambda found, bound: found <= bound,
    ">=": lambda found, bound: found >= bound,
    "==": lambda found, bound: found == bound,
    "<": lambda found, bound: found < bound,
    ">": lambda found, bound: found > bound,
}
_BOUNDED = re.compile(r"\s*(<=|>=|==|<|>)\s*([^\s<>=]\S*)\s*")
_WRITTEN = re.compile(r"\s*([A-Za-z][\w.-]*?)\s*(?:(<=|>=|==|<|>|=|:)\s*([^\s<>=:]\S*)\s*)?")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class GateRule:
    """One bound on one figure, and the rows that it is meant for."""

    name: str
    """The figure."""
    value: Scalar | str
    """A bound, a truth value, or text with an operator: "<= 1.0"."""
    provider: str | None = None
    """Only for rows of this provider; None: for all."""
    dtype: str | None = None
    """Only for rows of this dtype; None: for all."""
    source: str = COMMAND_LINE
    """Where it is written: "file:line", or ``--gate``."""

    def __post_init__(self) -> None:
        self.bound()

    def bound(self) -> tuple[str, Scalar]:
        """The operator and the value; raises UsageError for what cannot be a bound."""
        try:
            known = figure(self.name)
        except UsageError as error:
            raise UsageError(f"{self.source}: {error}") from None
        operator, value = _parse(known, self.value, self.source)
        if known.better == "true" and not (isinstance(value, bool) and operator == "=="):
            raise UsageError(
                f"{self.source}: gate {self.name}: found {self.value!r}: expected true or false"
            )
        return operator, value

    @property
    def text(self) -> str:
        """The rule without its figure: "<= 1.0"."""
        operator, value = self.bound()
        return f"{operator} {text(value)}"

    @property
    def rank(self) -> int:
        """Nearness: of two rules for one figure the one of the higher rank decides."""
        if self.source == COMMAND_LINE:
            return 4
        return 2 * (self.provider is not None) + (self.dtype is not None)

    def applies(self, row: Row) -> bool:
        """Whether the rule is meant for a row."""
        return self.provider in (None, row.provider) and self.dtype in (None, row.dtype)

    def judge(self, found: Scalar) -> bool:
        """Whether a figure meets the bound; NaN meets none."""
        operator, value = self.bound()
        return COMPARE[operator](found, value)


def _parse(known: Figure, value: Scalar | str, source: str) -> tuple[str, Scalar]:
    if isinstance(value, bool):
        if known.better == "true":
            return "==", value
        raise UsageError(f"{source}: gate {known.name}: found {text(value)}: expected a number")
    if isinstance(value, str):
        match = _BOUNDED.fullmatch(value)
        if match is None:
            operator, written = "", value.strip()
        else:
            operator, written = match[1], match[2]
        if written in _TRUTH:
            if not operator or operator == "==":
                return _parse(known, _TRUTH[written], source)
            raise UsageError(f"{source}: gate {known.name}: {operator} {written} has no meaning")
        number = _number(written)
    else:
        operator, number = "", value if isinstance(value, int | float) else None
    if number is None or not abs(number) < math.inf:
        raise UsageError(
            f"{source}: gate {known.name}: found {value!r}: expected "
            + ("true or false" if known.better == "true" else "a finite number")
        )
    return operator or {"lower": "<=", "higher": ">=", "true": "=="}[known.better], number


def _number(written: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(written)
        except ValueError:
            continue
    return None


def parse(written: str, source: str = COMMAND_LINE) -> GateRule:
    """A rule as the command line takes it: ``max_ulp<=1``, ``max_ulp=1``, ``deterministic``.

    Raises UsageError that says what was found and what was expected.

    >>> parse("max_ulp <= 1").text, parse("of_roof=0.5").text, parse("deterministic").text
    ('<= 1', '>= 0.5', '== true')
    """
    match = _WRITTEN.fullmatch(written)
    if match is None:
        raise UsageError(
            f"{source}: cannot read gate {written!r}: expected FIGURE<=NUMBER, such as max_ulp<=1"
        )
    name, operator, value = match.groups()
    if value is None:
        value = "true"
    return GateRule(
        name, value if operator in (None, "=", ":") else f"{operator} {value}", source=source
    )


def nearest(rules: Iterable[GateRule], row: Row) -> tuple[GateRule, ...]:
    """The rules that decide about a row: the nearest for each figure, in the order written."""
    chosen: dict[str, GateRule] = {}
    for rule in rules:
        if rule.applies(row) and (rule.name not in chosen or rule.rank >= chosen[rule.name].rank):
            chosen[rule.name] = rule
    return tuple(chosen.values())


def evaluate(rules: Iterable[GateRule], row: Row) -> tuple[Gate, ...]:
    """The verdicts of the rules on a row.

    A gate whose figure the row does not have (it was skipped, or refused as expected) neither
    passes nor fails: ``exercised`` is False and ``found`` says why.
    """
    return tuple(_evaluated(rule, row) for rule in nearest(rules, row))


def _evaluated(rule: GateRule, row: Row) -> Gate:
    found = figure(rule.name).read(row)
    if found is None:
        reason = f"not exercised: {row.reason or 'this row has no such figure'}"
        return Gate(rule.name, rule.text, reason, True, rule.source, exercised=False)
    return Gate(rule.name, rule.text, _shown(rule, found), rule.judge(found), rule.source)


def _shown(rule: GateRule, found: Scalar) -> str:
    """A figure to six digits, or in full where six digits would hide why the gate decided so."""
    if isinstance(found, float):
        short = f"{found:.6g}"
        bound = rule.bound()[1]
        if rule.judge(float(short)) == rule.judge(found) and (
            float(short) != bound or found == bound
        ):
            return short
    return text(found)


def unused(pairs: Iterable[tuple[Sequence[GateRule], Row]]) -> tuple[Gate, ...]:
    """The rules that no row exercised, as failed gates: a gate that cannot fail is worse than none.

    ``pairs`` holds every row with the rules of its case. A rule that is overruled by a nearer one
    wherever it applies is not reported: that is what nearness is for.
    """
    waiting: dict[GateRule, str] = {}
    done: set[GateRule] = set()
    for rules, row in pairs:
        deciding = nearest(rules, row)
        for rule in rules:
            if not rule.applies(row):
                waiting.setdefault(rule, _never(rule))
            elif rule not in deciding or figure(rule.name).read(row) is not None:
                done.add(rule)
            else:
                waiting[rule] = f"no row has the figure: {row.reason or 'it was not measured'}"
    return tuple(
        Gate(rule.name, rule.text, f"not exercised: {why}", False, rule.source, exercised=False)
        for rule, why in waiting.items()
        if rule not in done
    )


def _never(rule: GateRule) -> str:
    wanted = [f"provider {rule.provider}"] if rule.provider is not None else []
    wanted += [f"dtype {rule.dtype}"] if rule.dtype is not None else []
    return f"no row has {' and '.join(wanted)}"
