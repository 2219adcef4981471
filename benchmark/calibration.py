"""Does warpsmith's measuring do what it claims? Kernels whose true ratio is known are put through it, on a GPU.

    python benchmark/calibration.py measure truth identical pairs methods --into DIRECTORY
    python benchmark/calibration.py summarize --into DIRECTORY

`measure` keeps one line a comparison, raw samples included, in DIRECTORY/calibration.jsonl, and goes on where it was
interrupted; each piece takes less than 8 minutes on an H200. Several GPUs share the work with `--share`, each into a
directory of its own that has the same "spins" line; their lines are then joined. `summarize` needs no GPU: it makes
every figure anew from the lines, writes them, a plot and a page beside them, and packs the lines.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from calibrating.plan import COLUMNS, PLANTED, READ, TIMED, Comparison, Spins, planned
from calibrating.records import Record, read_records

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.device import Environment
from warpsmith.contracts.measurement import Contender, SourceRef, Timing, TimingPlan
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Describe, Identify, TargetRef, Time, answer_of
from warpsmith.stages.session import gpu_for
from warpsmith.verdict.statistics import compare
from warpsmith.workspace.lock import gpu_lock

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmark" / "calibrating"
KERNEL, TARGET, TRITON_TESTING = (HERE / name for name in ("kernel.py", "target.py", "triton_testing.py"))
#: Rounds of each step towards a slow-down of the share that is wanted.
STEPS = (8, 24, 24, 48)
PIECES = ("truth", "identical", "pairs", "methods")


@dataclass
class Calibration:
    """What has been measured so far, and the means to measure more."""

    directory: Path
    records: dict[str, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.records = {record["key"]: record for record in read_records(self.directory)}
        self.target = TargetRef(path=str(TARGET), root=str(ROOT), sha256=sha256(TARGET.read_bytes()).hexdigest())

    def once(self, key: str, measure: Callable[[], Record]) -> Record:
        """The record of that key, measured if it is not there yet."""
        if key not in self.records:
            record = {"key": key, **measure()}
            with (self.directory / "calibration.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            self.records[key] = record
        return self.records[key]

    def source(self, name: str, spin: int) -> Contender:
        """The kernel with that much to do; under different names equal spins are identical files."""
        text = KERNEL.read_text(encoding="utf-8").replace("\nSPIN = 0\n", f"\nSPIN = {spin}\n")
        path = self.directory / "sources" / f"{name}_{spin}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return Contender(name=name, source=SourceRef(path=str(path), sha256=sha256(text.encode()).hexdigest()))

    def worker(self) -> ProcessWorker:
        return ProcessWorker(ROOT, self.directory / "worker.log", gpu_for("auto").uuid)

    def cold_processes(self, names: Sequence[str]) -> Iterator[tuple[str, ProcessWorker]]:
        """A process for each name; the next starts, without touching the GPU, while the one before measures."""

        def started() -> ProcessWorker:
            worker = self.worker()
            worker.ask(Describe(target=self.target))
            return worker

        with gpu_lock(gpu_for("auto").uuid), ThreadPoolExecutor(max_workers=1) as pool:
            following: Future[ProcessWorker] | None = pool.submit(started) if names else None
            for index, name in enumerate(names, start=1):
                assert following is not None
                worker = following.result()
                following = pool.submit(started) if index < len(names) else None
                print(f"{time.strftime('%H:%M:%S')} {name}, {index} of {len(names)}", file=sys.stderr, flush=True)
                try:
                    yield name, worker
                finally:
                    worker.close()

    def measure(self, comparison: Comparison, worker: ProcessWorker) -> Record:
        """One comparison, with the seconds that its answer took."""
        question = Time(
            target=self.target,
            seed=comparison.seed,
            contenders=tuple(self.source(name, spin) for name, spin in comparison.spins.items()),
            case=Case(axes={"M": comparison.rows, "N": COLUMNS}, dtype=DType.BFLOAT16),
            mode=comparison.mode,
            plan=comparison.plan,
            method=comparison.method,
        )
        begun_s = time.monotonic()
        timing = answer_of(worker, question, Timing)
        elapsed_s = round(time.monotonic() - begun_s, 3)
        about = {"spins": comparison.spins, "planted": comparison.planted, "elapsed_s": elapsed_s}
        return {**about, "timing": timing.model_dump(mode="json")}

    def run(self, processes: Mapping[str, Sequence[Comparison]]) -> None:
        """Every comparison that is missing, each process's in a cold process of its own."""
        missing = {
            name: [c for c in comparisons if f"{name}/{c.name}" not in self.records]
            for name, comparisons in processes.items()
        }
        for name, worker in self.cold_processes([name for name, comparisons in missing.items() if comparisons]):
            for comparison in missing[name]:
                self.once(f"{name}/{comparison.name}", lambda c=comparison, w=worker: self.measure(c, w))

    def environment(self) -> Record:
        worker = self.worker()
        try:
            found = answer_of(worker, Identify(target=self.target), Environment)
        finally:
            worker.close()
        return {"environment": found.model_dump(mode="json"), "date": time.strftime("%Y-%m-%d", time.gmtime())}

    def spins(self) -> Record:
        """How many operations slow each case down by each share of PLANTED, found in steps."""
        found: dict[str, list[int]] = {}
        for _, worker in self.cold_processes(["how much to plant"]):
            for rows, mode in TIMED:
                spins = [1000] * len(PLANTED)
                for step, rounds in enumerate(STEPS):
                    sides = {"base": 0, **{f"planted{i}": spin for i, spin in enumerate(spins)}}
                    plan = TimingPlan(rounds=rounds, most_rounds=rounds)
                    record = self.measure(Comparison("", sides, rows, mode, seed=step, plan=plan), worker)
                    timing = Timing.model_validate(record["timing"])
                    for i, share in enumerate(PLANTED):
                        slower = 1 / compare(timing, "base", f"planted{i}").speedup.value - 1
                        spins[i] = max(1, round(spins[i] * share / max(slower, share / 4)))
                found[f"{rows} {mode.value}"] = spins
        return {"spins": found}


def triton_testing() -> Record:
    command = [sys.executable, str(TRITON_TESTING), *map(str, READ)]
    return {"us": json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["measure", "summarize"])
    parser.add_argument("pieces", nargs="*", metavar="piece", help=f"of {', '.join(PIECES)}; all, if none is given")
    parser.add_argument("--into", type=Path, default=ROOT / "benchmark" / "data" / "calibration")
    parser.add_argument("--share", default="1/1", metavar="K/N", help="every Nth cold process of a piece, from the Kth")
    options = parser.parse_args()
    which, of = map(int, options.share.split("/"))
    if unknown := set(options.pieces) - set(PIECES):
        parser.error(f"no piece {', '.join(sorted(unknown))}; there are {', '.join(PIECES)}")
    calibration = Calibration(options.into)
    if options.step == "summarize":
        from calibrating.summary import write_summary  # draws, which needs matplotlib

        write_summary(options.into)
        return
    calibration.once("environment", calibration.environment)
    spins: Spins = calibration.once("spins", calibration.spins)["spins"]
    for piece in options.pieces or PIECES:
        processes = planned(piece, spins)
        calibration.run(dict(list(processes.items())[which - 1 :: of]))
        if piece == "methods":
            calibration.once("methods/triton.testing", triton_testing)


if __name__ == "__main__":
    main()
