from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpsmith.contracts.case import Cost, Mode
from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.loading import load_implementation, load_target
from warpsmith.measure.worker.protocol import WorkerError


def package(root: Path) -> None:
    (root / "kernels_here").mkdir()
    (root / "kernels_here" / "__init__.py").write_text("")
    (root / "kernels_here" / "neighbour.py").write_text("OFFSET = 40\n")


def source(root: Path, text: str, name: str = "variant.py") -> SourceRef:
    path = root / name
    path.write_text(text)
    return SourceRef(path=str(path), sha256=hashlib.sha256(text.encode()).hexdigest())


def target(**providers: object) -> Target:
    return Target(
        name="k",
        source="kernels_here/kernel.py",
        module="kernels_here.kernel",
        make_inputs=lambda case, device, generator: {},
        call=lambda module, inputs: module.run(),
        reference=lambda inputs: None,
        cost=lambda case, mode: Cost(bytes_moved=1, flops=0),
        cases=(),
        providers=providers,  # type: ignore[arg-type]
    )


def test_a_variant_outside_the_package_uses_its_relative_imports(tmp_path: Path) -> None:
    package(tmp_path)
    reference = source(tmp_path, "from .neighbour import OFFSET\ndef run(): return OFFSET + 2\n")
    implementation = load_implementation(target(), Contender(name="v1", source=reference), str(tmp_path))
    assert implementation.call({}) == 42


def test_settings_are_current_for_the_contender_that_is_activated(tmp_path: Path) -> None:
    package(tmp_path)
    reference = source(
        tmp_path, "WARPSMITH_SETTINGS = {}\ndef run(): return WARPSMITH_SETTINGS.get('k.num_warps', 4)\n"
    )
    sides = [
        load_implementation(target(), Contender(name=name, source=reference, settings=settings), str(tmp_path))
        for name, settings in (("original", {}), ("eight", {"k.num_warps": 8}))
    ]
    found = []
    for side in (*sides, *sides):
        side.activate()
        found.append(side.call({}))
    assert found == [4, 8, 4, 8]


def test_a_file_that_changed_under_its_hash_is_refused(tmp_path: Path) -> None:
    package(tmp_path)
    reference = source(tmp_path, "def run(): return 1\n")
    Path(reference.path).write_text("def run(): return 2\n")
    with pytest.raises(WorkerError, match="changed: expected sha256"):
        load_implementation(target(), Contender(name="v1", source=reference), str(tmp_path))


def test_a_source_that_does_not_import_says_why(tmp_path: Path) -> None:
    package(tmp_path)
    reference = source(tmp_path, "import no_such_module_anywhere\n")
    with pytest.raises(WorkerError, match=r"import_failed.*ModuleNotFoundError.*no_such_module_anywhere"):
        load_implementation(target(), Contender(name="v1", source=reference), str(tmp_path))


def test_a_provider_whose_dependency_is_missing_says_why(tmp_path: Path) -> None:
    def missing() -> None:
        raise ImportError("liger-kernel is not installed")

    with pytest.raises(WorkerError, match="provider liger: liger-kernel is not installed"):
        load_implementation(target(liger=missing), Contender(name="liger"), str(tmp_path))


def test_a_target_file_without_a_target_says_what_it_must_define(tmp_path: Path) -> None:
    path = tmp_path / "benchmark_k.py"
    path.write_text("target = 3\n")
    with pytest.raises(WorkerError, match=r"must define `target = Target\(...\)`; found int"):
        load_target(str(path))


FORWARD_ALONE = """
from warpsmith import Case, Cost, DType, Mode, Target

target = Target(
    name="k", source="kernel.py", module="kernel", make_inputs=dict, call=print, reference=print,
    cost=lambda case, mode: {Mode.FORWARD: Cost(bytes_moved=1, flops=1)}[mode],
    cases=(Case(axes={"N": 4}, dtype=DType.FLOAT32),), modes=(Mode.FORWARD,),
)
"""


def test_a_pass_backward_of_which_no_gradient_counts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text(FORWARD_ALONE)
    assert load_target(str(tmp_path / "target.py")).modes == (Mode.FORWARD,)
    (tmp_path / "target.py").write_text(FORWARD_ALONE.replace("(Mode.FORWARD,)", "(Mode.FORWARD, Mode.BACKWARD)"))
    with pytest.raises(WorkerError, match="has a pass backward, but `differentiable` names no input: name those"):
        load_target(str(tmp_path / "target.py"))
