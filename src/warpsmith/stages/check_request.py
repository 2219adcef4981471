"""What a check is asked, and whether there is such a thing. Must not know how it is answered."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.target import TargetSpec
from warpsmith.project.snapshot import read_source
from warpsmith.source.encoding import decoded
from warpsmith.stages.bench_request import beside, named_of

#: The device that is none: kernels run in Triton's interpreter, on CPU tensors.
INTERPRETER = "interpreter"
#: Chosen: what the interpreter computes as a GPU does. Its bfloat16 is wrong (triton 3.6, 3.7).
INTERPRETED_DTYPES = frozenset({DType.FLOAT32})
#: Chosen: what moves no more takes the interpreter seconds; a matmul of 0.44 MB took four minutes on two cores.
INTERPRETED_BYTES = 1 << 16
#: Chosen: a hundred times what a long source has.
LARGEST_BYTES = 10_000_000


@dataclass(frozen=True)
class Asked:
    """What the command line asked for: a source, and cases by their names; none is all of them.

    `file`: None is the production file, beside itself. `sanitizes`: compute-sanitizer looks on too, at the cases that
    were named, else at small ones.
    """

    file: Path | None
    cases: tuple[str, ...] = ()
    seed: int = 0
    device: str = "auto"
    sanitizes: bool = False

    @property
    def interprets(self) -> bool:
        return self.device == INTERPRETER

    def on_a_gpu(self, kernel: str) -> str:
        """The command that examines the file where there is one."""
        return f"{shlex.join(self._words(kernel))}   (on a machine with a GPU)"

    def interpreted(self, kernel: str) -> str:
        """The command that examines the file in the interpreter."""
        named = [word for name in self.cases for word in ("--case", name)]
        return shlex.join([*self._words(kernel), *named, "--seed", str(self.seed), "--device", INTERPRETER])

    def _words(self, kernel: str) -> list[str]:
        return ["warpsmith", "check", kernel, *([] if self.file is None else [str(self.file)])]


@dataclass(frozen=True)
class ChangeAsked:
    """What `check --base` asks for: a source beside its base, compiled for GPUs that need not be there.

    `file` None is the production file; no cases are all of them, no GPUs the default one.
    """

    base: str
    file: Path | None = None
    gpus: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    seed: int = 0


def content_of(file: Path) -> bytes:
    """The bytes of the file that was asked for. Raises UsageError where it is no file with text in it."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder; a check is of one source file; {beside(file / 'x')}")
    if file.is_symlink() and not file.exists():
        raise UsageError(f"{file} is a link to {file.readlink()}, which is not there")
    if not file.exists():
        raise UsageError(f"{file}: no such file; {beside(file)}")
    if not file.is_file():
        raise UsageError(f"{file} is no regular file; a check is of one source file")
    if (size_bytes := file.stat().st_size) > LARGEST_BYTES:
        raise UsageError(f"{file} has {size_bytes} bytes, more than a source of {LARGEST_BYTES} at most")
    try:
        content = read_source(file)
        decoded(content, str(file))
    except PreflightError as error:
        raise UsageError(error.message) from error
    if b"\0" in content:
        raise UsageError(f"{file} is no Python: it has zero bytes in it")
    return content


def cases_of(asked: Asked, kernel: str, spec: TargetSpec) -> tuple[tuple[Case, ...], dict[str, str]]:
    """The cases to examine, and why others that were asked for are left out.

    The interpreter is given the smallest first, and those that are too large for it only by their names. Raises
    UsageError for a case that there is not, Unavailable where the interpreter can run none of them.
    """
    names = named_of("--case", asked.cases, [case.name for case in spec.cases], spec)
    cases = [case for case in spec.cases if case.name in names]
    if not asked.interprets:
        return tuple(cases), {}
    left_out = {
        case.name: f"Triton's interpreter is relied on in float32 alone, not in {case.dtype.value}"
        for case in cases
        if case.dtype not in INTERPRETED_DTYPES
    }
    if len(left_out) == len(cases):
        among = "those asked for" if asked.cases else f"the cases of {spec.name}"
        raise Unavailable(
            f"Triton's interpreter is relied on in float32 alone, and none of {among} is: {', '.join(left_out)}",
            next_command=asked.on_a_gpu(kernel),
        )
    cases = sorted((case for case in cases if case.name not in left_out), key=lambda case: _moved_bytes(case, spec))
    if asked.cases:
        return tuple(cases), left_out
    small = tuple(case for case in cases if _moved_bytes(case, spec) <= INTERPRETED_BYTES)
    if not small:
        smallest = cases[0].name
        raise Unavailable(
            f"every float32 case of {spec.name} moves more than the {INTERPRETED_BYTES} bytes that Triton's "
            f"interpreter is given; a case that is named is tried, the smallest is {smallest}",
            next_command=replace(asked, cases=(smallest,)).interpreted(kernel),
        )
    for case in cases[len(small) :]:
        told = f"it moves {_moved_bytes(case, spec) / 1e6:.1f} MB, which takes Triton's interpreter minutes"
        left_out[case.name] = f"{told}; --case {case.name} examines it all the same"
    return small, left_out


def _moved_bytes(case: Case, spec: TargetSpec) -> int:
    return spec.costs[case.name][spec.modes[0]].bytes_moved
