"""Reads the catalogue: what each kernel's docstring says of it.

A docstring has a first sentence, what the kernel does, and then fields. Of a rejected kernel: `Seen:` (repository and
issue, or an honest mistake), `Caught by:` (a check of the gate, or `admission`, `call` where it fails by itself,
`faults` where the worker ends), `Because:` (a regular expression that the reason holds); where that is admission,
`Otherwise by:` and `Because then:` say the same of the gate behind it, if that catches it too. Of an accepted one:
`Looks like:`, what a careless checker would take it for. Of both: `Runs on:`, where the gate can show it: cpu (and
gpu), gpu or interpreter, each alone; `Target:` where that is not target.py.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

ADMISSION = "admission"
_FIELDS = {"rejected": {"Seen", "Caught by", "Because", "Runs on"}, "accepted": {"Looks like", "Runs on"}}
_OPTIONAL = {"rejected": {"Otherwise by", "Because then"}, "accepted": {"Target"}}


@dataclass(frozen=True)
class Refusal:
    """Which check refuses a kernel, and the regular expression that its reason holds."""

    check: str
    because: str


@dataclass(frozen=True)
class Entry:
    """One kernel of the catalogue. `fields` are those of its docstring, by name."""

    path: Path
    does: str
    fields: dict[str, str]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def refused_at_admission(self) -> Refusal | None:
        refusals = [each for each in self._refusals() if each.check == ADMISSION]
        return refusals[0] if refusals else None

    @property
    def refused_by_the_gate(self) -> Refusal | None:
        refusals = [each for each in self._refusals() if each.check != ADMISSION]
        return refusals[0] if refusals else None

    def _refusals(self) -> list[Refusal]:
        pairs = (("Caught by", "Because"), ("Otherwise by", "Because then"))
        return [Refusal(self.fields[by], self.fields[why]) for by, why in pairs if by in self.fields]

    @property
    def needs_gpu(self) -> bool:
        return self.fields["Runs on"] == "gpu"

    @property
    def needs_interpreter(self) -> bool:
        return self.fields["Runs on"] == "interpreter"

    @property
    def loops(self) -> bool:
        """Whether a kernel has a loop that is not unrolled."""
        return re.search(r" in (tl\.)?range\(", self.path.read_text(encoding="utf-8")) is not None

    @property
    def original(self) -> Path:
        return self.target.with_name(self.target.name.replace("target", "original"))

    @property
    def target(self) -> Path:
        return HERE / self.fields.get("Target", "target.py")


def entries(kind: str) -> list[Entry]:
    """The rejected or the accepted ones, by name. Raises ValueError for a docstring of another form."""
    return [_entry(path, kind) for path in sorted((HERE / kind).glob("*.py"))]


def _entry(path: Path, kind: str) -> Entry:
    does, _, rest = _docstring(path).partition("\n\n")
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in rest.strip().splitlines())}
    required = _FIELDS[kind]
    whole = required <= set(fields) <= required | _OPTIONAL[kind] and all(fields.values())
    if (
        not whole
        or fields["Runs on"] not in ("cpu", "gpu", "interpreter")
        or ("Otherwise by" in fields) != ("Because then" in fields)
    ):
        raise ValueError(f"{path}: expected the fields {sorted(required)}, found {fields}")
    return Entry(path, " ".join(does.split()), fields)


def _docstring(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    try:
        found = ast.get_docstring(ast.parse(text))
    except SyntaxError:  # one of them is no Python
        found = ast.literal_eval(text[: text.index('"""', 4) + 3])
    if not found:
        raise ValueError(f"{path} has no docstring")
    return str(found)
