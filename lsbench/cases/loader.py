"""Case files → cases: every fault of every file is told before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from pydantic import ValidationError

from lsbench.cases import checks
from lsbench.cases.build import Builder
from lsbench.cases.case import Case
from lsbench.cases.document import Document, Entry, Items, Leaf, Node, Table, found, plain, read
from lsbench.cases.faults import Fault, Mark, error, suggestion
from lsbench.cases.matrix import MAX_CASES, SHALLOW, Expanded, expand, merge
from lsbench.cases.models import KEYS, CaseFields, CaseModel
from lsbench.errors import CaseFileError

SCHEMA = 1
"""Version of the case file format."""
TOP = ("schema", "defaults", "cases")
CASE_ONLY = ("name", "matrix")

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def load(paths: Paths) -> list[Case]:
    """The cases of one file or several, in order, with defaults merged and matrices expanded.

    A folder stands for the .yaml and .yml files in it, in the order of their names.

    Raises CaseFileError that tells all faults of all files, each as
    ``file:line:column: key: what was found, what was expected`` with the line below it.
    """
    listed = [paths] if isinstance(paths, str | PathLike) else list(paths)
    cases: list[Case] = []
    seen: dict[str, Mark] = {}
    messages: list[str] = []
    for given in listed:
        try:
            files = _files(Path(given))
        except CaseFileError as wrong:
            messages.append(str(wrong))
            continue
        for path in files:
            try:
                cases += _File(read(path), seen).load()
            except CaseFileError as wrong:
                messages.append(str(wrong))
    if messages:
        raise CaseFileError("\n".join(messages))
    return cases


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml"))
    except (OSError, ValueError) as wrong:  # ValueError: a name with a null character
        reason = getattr(wrong, "strerror", None) or str(wrong)
        raise CaseFileError(f"{path}: cannot be read: {reason}") from None
    if not files:
        raise CaseFileError(f"{path}: a folder without .yaml files, expected case files")
    return files


class _File:
    """One file on its way to cases."""

    def __init__(self, document: Document, seen: dict[str, Mark]) -> None:
        self.document, self.faults = document, list(document.faults)
        self.seen = seen

    def load(self) -> list[Case]:
        made = self._cases()
        if self.faults:
            raise error(self.faults, self.document.lines)
        return made

    def _fault(self, mark: Mark, key: str, message: str) -> None:
        self.faults.append(Fault(mark, key, message))

    def _cases(self) -> list[Case]:
        root = self.document.root
        if not isinstance(root, Table):
            self._fault(root.mark, "", f"found {found(root)}, expected 'schema: 1' and 'cases:'")
            return []
        for key, entry in root.entries.items():
            if key not in TOP:
                hint = suggestion(key, TOP) or f"; known are {', '.join(TOP)}"
                self._fault(entry.mark, key, f"unknown key {key!r}{hint}")
        self._schema(root)
        defaults = self._defaults(root.get("defaults"))
        listed = root.get("cases")
        if not isinstance(listed, Items) or not listed.nodes:
            what = f"found {found(listed)}" if listed else "key 'cases' is missing"
            self._fault((listed or root).mark, "cases", f"{what}, expected a list of cases")
            return []
        cases: list[Case] = []
        for node in listed.nodes:
            cases += self._case(node, defaults)
            if len(cases) > MAX_CASES:
                self._fault(node.mark, "cases", f"more than {MAX_CASES} cases, expected fewer")
                break
        return cases

    def _schema(self, root: Table) -> None:
        version = root.get("schema")
        if version is None:
            self._fault(
                root.mark, "schema", f"key 'schema' is missing, expected 'schema: {SCHEMA}'"
            )
        elif not isinstance(version, Leaf) or version.value is True or version.value != SCHEMA:
            self._fault(version.mark, "schema", f"found {found(version)}, expected {SCHEMA}")

    def _defaults(self, node: Node | None) -> Table | None:
        if node is None or (isinstance(node, Leaf) and node.value is None):
            return None
        if not isinstance(node, Table):
            self._fault(node.mark, "defaults", f"found {found(node)}, expected a mapping")
            return None
        for key in CASE_ONLY:
            if key in node.entries:
                message = f"{key!r} is for a case, not for defaults"
                self._fault(node.entries[key].mark, key, message)
        kept = Table(node.mark, {k: e for k, e in node.entries.items() if k not in CASE_ONLY})
        try:
            CaseFields.model_validate(plain(kept))
        except ValidationError as wrong:
            self.faults += checks.faults(wrong, kept, CaseFields)
        return kept

    def _case(self, node: Node, defaults: Table | None) -> list[Case]:
        if not isinstance(node, Table):
            self._fault(node.mark, "cases", f"found {found(node)}, expected a mapping")
            return []
        name = node.get("name")
        if isinstance(name, Leaf) and isinstance(name.value, str):
            first = self.seen.setdefault(name.value, name.mark)
            if first is not name.mark:
                what = f"case name {name.value!r} is taken at {first}, expected another"
                self._fault(name.mark, "name", what)
        family = name.text if isinstance(name, Leaf) else "?"
        cases: list[Case] = []
        try:
            known = len(self.faults)
            for expanded in expand(family, merge(defaults, node), KEYS, self.faults):
                # A key that was mistyped in the matrix is not also told to be missing.
                lost = {"shape", "dtype"} if len(self.faults) > known else set()
                case = self._built(expanded, family, lost)
                cases += [] if case is None else [case]
        except Fault as wrong:
            self.faults.append(wrong)
        return cases

    def _built(self, expanded: Expanded, family: str, left_out: set[str]) -> Case | None:
        table = expanded.table
        try:
            model = CaseModel.model_validate(plain(table))
        except ValidationError as wrong:
            self.faults += checks.faults(wrong, table, CaseModel)
            # What is not at fault is checked further, so that one reading tells everything.
            table, refused = _without_faults(table, wrong)
            left_out = left_out | refused
            try:
                model = CaseModel.model_validate({"name": "x", **_plain_table(table)})
            except ValidationError:
                return None
        return Builder(expanded.name, family, table, model, self.faults, left_out).build()


def _plain_table(table: Table) -> dict[str, object]:
    return {key: plain(entry.node) for key, entry in table.entries.items()}


def _without_faults(table: Table, wrong: ValidationError) -> tuple[Table, set[str]]:
    """The table without what a model refused, and the keys that lost something."""
    entries = dict(table.entries)
    left_out = set()
    for fault in wrong.errors(include_url=False):
        key = str(fault["loc"][0])
        left_out.add(key)
        entry = entries.get(key)
        inner = str(fault["loc"][1]) if len(fault["loc"]) > 1 else ""
        if key in SHALLOW and entry and isinstance(entry.node, Table) and inner:
            kept = {k: e for k, e in entry.node.entries.items() if k != inner}
            entries[key] = Entry(entry.mark, Table(entry.node.mark, kept))
        else:
            entries.pop(key, None)
    return Table(table.mark, entries), left_out
