"""Reads what compute-sanitizer prints: errors with what belongs to them, and the summary at the end.

Pure. Formats are those of CUDA 11.4 to 13, as NVIDIA's manual and reports from users of Triton show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from warpsmith.contracts.sanitizing import SanitizerError

#: What the program under the tool prints when it begins a case, and when it has made them all.
CASE_BEGINS, ALL_DONE = "warpsmith: at ", "warpsmith: all cases are done"

_RACE = re.compile(r"Error: (?P<kind>Race reported between \w+ access) at (?P<where>.+)")
_RACE_WITH = re.compile(r"and (?P<kind>\w+ access) at (?P<where>.+?)(?: \[\d+ hazards?\])?$")
#: As told since CUDA 12, and before.
_WHERE = (
    re.compile(r"(?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<place>.+:\d+))?$"),
    re.compile(r"0x[0-9a-f]+ in (?:(?P<place>.+?:\d+):)?(?P<kernel>.+)$"),
)
_ADDRESS = re.compile(r"(?:Address|Access (?:to|at)) 0x[0-9a-f]+ (?P<what>.+)")
_NEAREST = re.compile(r"(?P<how>and is .*?\b(?:nearest|an?) allocation)(?: at 0x[0-9a-f]+)?(?P<size> of size .+)?$")
_SUMMARY = re.compile(
    r"^========= (?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: .*\((\d+) errors?, (\d+) warn)", re.M
)


@dataclass(frozen=True)
class Report:
    """`errors` and `warnings` as the tool counts them, `first` the first error that it tells."""

    errors: int
    warnings: int
    first: SanitizerError | None


def parse_report(output: str) -> Report | None:
    """The report in all that the tool and the program under it printed. None where there is none of every case."""
    found = [tuple(int(number or 0) for number in summary) for summary in _SUMMARY.findall(output)]
    errors, warnings = sum(each[0] + each[1] for each in found), sum(each[2] for each in found)
    if not found or (errors == 0 and ALL_DONE not in output):
        return None  # a program that never came to its kernels has no errors in them
    return Report(errors, warnings, next(_errors(output.splitlines()), None))


def _errors(lines: Sequence[str]) -> Iterator[SanitizerError]:
    case: str | None = None
    for index, line in enumerate(lines):
        if line.startswith(CASE_BEGINS):
            case = line.removeprefix(CASE_BEGINS).strip()
        elif line.startswith("========= ") and not line.startswith("=========  "):
            error = _error(line.removeprefix("========= ").strip(), _belonging(lines[index + 1 :]))
            if error is not None:
                yield error.model_copy(update={"case": case})


def _belonging(lines: Sequence[str]) -> list[str]:
    """The indented lines that follow."""
    found: list[str] = []
    for line in lines:
        if line.startswith("=========  "):
            found.append(line.removeprefix("=========").strip())
        elif line.startswith("========="):
            break  # what a program prints may stand in between
    return found


def _error(head: str, belonging: Sequence[str]) -> SanitizerError | None:
    """None where the line is another of the tool's, such as its name or its summary."""
    if (race := _RACE.match(head)) is not None:
        kernel, place = _where(race["where"])
        others = (found for line in belonging if (found := _RACE_WITH.match(line)) is not None)
        return SanitizerError(kind=race["kind"], kernel=kernel, place=place, detail=_other_side(next(others, None)))
    if not belonging or not belonging[0].startswith("at "):
        return None
    kernel, place = _where(belonging[0].removeprefix("at "))
    told = [found["what"] for line in belonging if (found := _ADDRESS.match(line)) is not None]
    told += [found["how"] + (found["size"] or "") for line in belonging if (found := _NEAREST.match(line)) is not None]
    return SanitizerError(kind=head, kernel=kernel, place=place, detail=" ".join(told) or None)


def _other_side(race: re.Match[str] | None) -> str | None:
    if race is None:
        return None
    _, place = _where(race["where"])
    return f"and {race['kind']}" + (f" in {place}" if place else "")


def _where(told: str) -> tuple[str | None, str | None]:
    """(kernel, file and line), the file without its folder: reports travel."""
    for form in _WHERE:
        if (found := form.match(told)) is not None:
            place = found["place"]
            return found["kernel"].strip(), PurePath(place).name if place else None
    return told or None, None
