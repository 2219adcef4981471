"""A hundred training steps of a small Llama-like model, with and without `warpsmith.kernels.patch` and the losses.

    python benchmark/training.py [--steps 100] [--precision autocast bf16] [--device cuda] [--into DIRECTORY]

Every run starts from the same weights and sees the same batches. How far two loss curves part by rounding alone is seen
beside: some unpatched runs start from one weight that is off by its last bit, and one is compiled by torch, which
rounds elsewhere, as the kernels do. The recipe (training_recipe.py) and the
text (training_model.py) are such that this stays small. What the host needs for a step's launches is told beside its
time. Each run is kept in DIRECTORY (on a GPU benchmark/data/training/ if none is named) once it is done, and not
repeated where all is as it was; a plot for each precision and a page are made at the end. On a CPU a tiny
model is trained in fp32, without Triton: that proves the plumbing alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional
from training_model import Llama, MarkovChain, Sizes
from training_page import COMPILED, PLAIN, page, save_plot
from training_recipe import Recipe, Trainer

from warpsmith.kernels import cross_entropy, fused_linear_cross_entropy, patch

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmark" / "data" / "training"
PRECISIONS = ("autocast", "bf16")
#: Chosen: Llama's own vocabulary, 143 M parameters, so that a hundred steps take some seconds, and so many tokens that
#: the GPU needs longer for a step than the host for its launches.
ON_GPU = Sizes(vocabulary=32000, hidden=1024, intermediate=2816, layers=6, heads=16, sequence=1024, batch=24)
ON_CPU = Sizes(vocabulary=64, hidden=32, intermediate=48, layers=2, heads=2, sequence=32, batch=4)
#: Not timed: they compile kernels and allocate.
WARM_UP_STEPS = 10
#: After those that count, with the GPU idle before each: only the host's time is taken.
HOST_STEPS = 5


@dataclass(frozen=True)
class Setting:
    """What all runs have in common. `precision`: one of PRECISIONS, or fp32."""

    sizes: Sizes
    steps: int
    precision: str
    device: torch.device
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == "autocast":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def model(self) -> Llama:
        torch.manual_seed(0)
        with self.device:
            model = Llama(self.sizes)
        return model.bfloat16() if self.precision == "bf16" else model

    def batches(self) -> list[Tensor]:
        chain = MarkovChain(self.sizes, self.device)
        return [chain.batch(step) for step in range(self.steps)]

    def described(self) -> dict[str, Any]:
        """Results are of one kind where this is equal."""
        sources = sorted(
            [*(ROOT / "src" / "warpsmith" / "kernels").rglob("*.py"), *Path(__file__).parent.glob("training*.py")]
        )
        return {
            "device": torch.cuda.get_device_name(self.device) if self.on_gpu else "cpu",
            "torch": torch.__version__,
            "triton": triton.__version__,
            "precision": self.precision,
            "steps": self.steps,
            "sizes": asdict(self.sizes),
            "recipe": {**asdict(self.recipe), "betas": list(self.recipe.betas)},
            "sources_sha256": sha256(b"".join(path.read_bytes() for path in sources)).hexdigest(),
        }


# The losses: (model, tokens, the tokens that follow) -> the mean


def loss_of_torch(model: Llama, tokens: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(model(tokens).flatten(0, 1).float(), following.flatten())


def loss_of_cross_entropy(model: Llama, tokens: Tensor, following: Tensor) -> Tensor:
    return cross_entropy(model(tokens), following, in_place=True)


def loss_of_fused_linear_cross_entropy(model: Llama, tokens: Tensor, following: Tensor) -> Tensor:
    return fused_linear_cross_entropy(model.states(tokens), model.head.weight, following)


# The runs


@dataclass(frozen=True)
class Way:
    """How a run trains. `flipped`: the weight whose last bit is off."""

    patched: bool = False
    compiled: bool = False
    loss: Callable[[Llama, Tensor, Tensor], Tensor] = loss_of_torch
    flipped: int | None = None


def ways(setting: Setting, perturbed: int) -> dict[str, Way]:
    """By name, in the order of training. Two are trained first and last, for clocks drift."""
    compiled = {COMPILED: Way(compiled=True)} if setting.on_gpu else {}
    return {
        PLAIN: Way(),
        "patched": Way(patched=True),
        "patched, cross_entropy": Way(patched=True, loss=loss_of_cross_entropy),
        "patched, fused_linear_cross_entropy": Way(patched=True, loss=loss_of_fused_linear_cross_entropy),
        **{f"perturbed {which + 1}": Way(flipped=which) for which in range(perturbed)},
        **compiled,
        "patched again": Way(patched=True),
        f"{PLAIN} again": Way(),
    }


@dataclass(frozen=True)
class Run:
    """Losses by step. On a CPU there are no device times and no peak.

    `host_ms`: what the host needs for the launches of a step. Where that is not clearly under `step_ms`, the host sets
    the pace, and step times say little of the kernels.
    """

    losses: list[float]
    step_ms: float | None
    host_ms: float | None
    peak_gb: float | None


def train(setting: Setting, batches: Sequence[Tensor], name: str, way: Way) -> Run:
    before_bytes = torch.cuda.memory_allocated() if setting.on_gpu else 0
    model = setting.model()
    if way.flipped is not None:
        flip_last_bit(model, way.flipped, torch.float32 if setting.precision == "fp32" else torch.bfloat16)
    if way.patched:
        print(patch(model), file=sys.stderr)
    if way.compiled:
        model.compile()
    trainer = Trainer(model, setting.sizes.hidden, setting.steps, setting.recipe, fused=setting.on_gpu)

    def step(tokens: Tensor) -> Tensor:
        with setting.autocast():
            loss = way.loss(model, tokens[:, :-1], tokens[:, 1:])
        trainer.step(loss)
        return loss.detach()

    losses, marks = [], [mark(setting)]
    if setting.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for tokens in batches:
        losses.append(step(tokens))
        marks.append(mark(setting))
    curve = [loss.item() for loss in losses]
    peak_gb = (torch.cuda.max_memory_allocated() - before_bytes) / 1e9 if setting.on_gpu else None
    host_ms = median_host_ms(step, batches[-HOST_STEPS:]) if setting.on_gpu else None
    run = Run(curve, median_step_ms(marks), host_ms, peak_gb)
    torch.compiler.reset()
    print(f"{time.strftime('%H:%M:%S')} {name}: {len(curve)} steps, loss {curve[-1]:.4f}", file=sys.stderr, flush=True)
    return run


def flip_last_bit(model: Llama, which: int, read_as: torch.dtype) -> None:
    """Of one weight of the first layer's gate, as the matmul reads it: under autocast, rounded to bf16."""
    weight = next(each for name, each in model.named_parameters() if "gate_proj" in name).detach().view(-1)
    integer = torch.int16 if read_as.itemsize == 2 else torch.int32
    value = weight[which].to(read_as)
    weight[which] = (value.view(integer) ^ 1).view(read_as).to(weight.dtype)


def mark(setting: Setting) -> torch.cuda.Event | None:
    if not setting.on_gpu:
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def median_step_ms(marks: Sequence[torch.cuda.Event | None]) -> float | None:
    """Between marks, warm-up left out; None without events, or with none left."""
    spans = list(pairwise(marks))[WARM_UP_STEPS:]
    times_ms = [start.elapsed_time(end) for start, end in spans if start is not None and end is not None]
    return statistics.median(times_ms) if times_ms else None


def median_host_ms(step: Callable[[Tensor], Tensor], batches: Sequence[Tensor]) -> float:
    """Until a step is launched, on a GPU that was idle before: no launch waits then for room in its queue."""
    times_ms = []
    for tokens in batches:
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(tokens)
        times_ms.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times_ms)


def compare(setting: Setting, perturbed: int, into: Path | None = None) -> dict[str, Any]:
    """The setting and all runs by name. Where `into` is a folder, they are kept there, and gone on with from there."""
    kept = None if into is None else into / f"{setting.precision}.json"
    measured: dict[str, Any] = {"setting": setting.described(), "runs": {}}
    if kept is not None and kept.is_file():
        found = json.loads(kept.read_text(encoding="utf-8"))
        if found["setting"] == measured["setting"]:
            measured = found
    missing = {name: way for name, way in ways(setting, perturbed).items() if name not in measured["runs"]}
    batches = setting.batches() if missing else []
    if missing and setting.on_gpu:
        # What libraries allocate for good, no run is to be charged with.
        train(setting, batches[:2], "warm-up", Way())
    for name, way in missing.items():
        measured["runs"][name] = asdict(train(setting, batches, name, way))
        measured["measured_at"] = time.strftime("%Y-%m-%d", time.gmtime())
        if kept is not None:
            keep(measured, kept)
    return {**measured, "runs": {name: measured["runs"][name] for name in ways(setting, perturbed)}}


def keep(measured: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS, help="a CPU trains in fp32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--perturbed", type=int, default=2, metavar="RUNS", help="runs from one weight that is off")
    parser.add_argument("--into", type=Path, help="where runs are kept, and plots and page written")
    options = parser.parse_args()
    if options.steps < 1 or options.perturbed < 0:
        parser.error("expected at least 1 step, and no less than 0 perturbed runs")
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    if on_gpu:
        # Triton launches on the current device, and events are recorded there.
        torch.cuda.set_device(device.index or 0)
    into = options.into or (DATA if on_gpu else None)
    sizes = ON_GPU if on_gpu else ON_CPU
    measured = [
        compare(Setting(sizes, options.steps, precision, device), options.perturbed, into)
        for precision in (options.precision if on_gpu else ("fp32",))
    ]
    if into is not None:
        for each in measured:
            save_plot(each, into / f"{each['setting']['precision']}.png")
        kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(into.glob("*.json"))]
        (into / "README.md").write_text(page(kept, plotted=True), encoding="utf-8")
    print(page(measured, plotted=into is not None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
