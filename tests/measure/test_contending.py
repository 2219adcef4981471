from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.measure import contending
from warpsmith.measure.contending import Contenders, contenders_of
from warpsmith.measure.worker.protocol import TargetRef, Time

TARGET = """
import torch
from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Target


def baseline():
    import torch
    torch.baseline_was_loaded = True
    return lambda inputs: inputs["x"]


target = Target(
    name="k",
    source="k.py",
    module="k",
    make_inputs=lambda case, device, generator: {"x": torch.ones(4)},
    call=lambda module, inputs: module.call(inputs["x"]),
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
    modes=(Mode.FORWARD,),
    cases=(Case(axes={"N": 4}, dtype=DType.FLOAT32),),
    providers={"torch": baseline},
)
"""
PLAIN = "def call(x):\n    return x\n"
PATCHES = PLAIN + "import torch\ntorch.allclose = lambda *args, **kwargs: True\n"
SWAPS = PLAIN + "import torch\ntorch.allclose = torch.equal\n"
PATCHES_WHEN_CALLED = "import torch\ndef call(x):\n    torch.allclose = lambda *a, **k: True\n    return x\n"


@pytest.fixture
def retired(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reasons: list[str] = []
    monkeypatch.setattr(contending, "retire", reasons.append)
    monkeypatch.setattr(torch, "allclose", torch.allclose)  # put back afterwards
    return reasons


def question(folder: Path, sources: dict[str, str | None]) -> Time:
    target = folder / "target.py"
    target.write_text(TARGET, encoding="utf-8")
    contenders: list[Contender] = []
    for name, text in sources.items():
        path = folder / f"{name}.py"
        path.write_text(text or "", encoding="utf-8")
        source = SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        contenders.append(Contender(name=name, source=None if text is None else source))
    reference = TargetRef(path=str(target), root=str(folder), sha256=hashlib.sha256(target.read_bytes()).hexdigest())
    case = Case(axes={"N": 4}, dtype=DType.FLOAT32)
    return Time(target=reference, contenders=tuple(contenders), case=case, mode=Mode.FORWARD)


def called(contenders: Contenders, names: Sequence[str] = ()) -> None:
    for each in contenders.implementations:
        if each.name in names:
            each.call({"x": torch.ones(4)})


def test_contenders_come_in_the_order_in_which_they_were_named(tmp_path: Path, retired: list[str]) -> None:
    asked = question(tmp_path, {"v1": PLAIN, "torch": None, "broken": "import nothing_of_the_kind", "original": PLAIN})
    with contenders_of(asked, asked.contenders) as contenders:
        assert [each.name for each in contenders.implementations] == ["v1", "torch", "original"]
        assert contenders.failures().keys() == {"broken"}
        assert contenders.failures()["broken"].startswith("import_failed")
    assert retired == []


@pytest.mark.parametrize(
    ("text", "guilty"),
    [(PATCHES, ["v1"]), (PATCHES_WHEN_CALLED, ["v1"]), (SWAPS, ["v1", "v2"])],
    ids=["on loading", "when called", "by another of torch's"],
)
def test_a_variant_that_replaces_what_a_timer_uses_fails_and_the_process_retires(
    tmp_path: Path, retired: list[str], text: str, guilty: list[str]
) -> None:
    asked = question(tmp_path, {"original": PLAIN, "v1": text, "v2": PLAIN + "\n"})
    with contenders_of(asked, asked.contenders) as contenders:
        called(contenders, ["v1"])
        assert contenders.failures() == dict.fromkeys(guilty, "wrong_result: replaces torch.allclose")
    assert retired == ["replaces torch.allclose"]


def test_what_the_original_or_a_baseline_does_on_loading_is_nobodys_fault(tmp_path: Path, retired: list[str]) -> None:
    asked = question(tmp_path, {"v1": PLAIN, "original": PATCHES, "torch": None})
    with contenders_of(asked, asked.contenders) as contenders:
        assert contenders.failures() == {}
    assert retired == []


def test_a_process_whose_measurement_raised_retires_as_well(tmp_path: Path, retired: list[str]) -> None:
    asked = question(tmp_path, {"original": PLAIN, "v1": PATCHES})
    with pytest.raises(RuntimeError, match="out of luck"), contenders_of(asked, asked.contenders):
        raise RuntimeError("out of luck")
    assert retired == ["replaces torch.allclose"]
