"""The library's comparison without a GPU: what it makes of a bench whose figures are known."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from warpsmith.contracts.bench import BenchResult, BenchRow
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import L2, ORIGINAL
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.verdict import Interval
from warpsmith.workspace.documents import read_document, write_document

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))

import library  # noqa: E402
from comparing.page import page  # noqa: E402
from comparing.summary import standings, write_summary  # noqa: E402


def row(contender: str, ms: float, speedup: float | None, mode: Mode = Mode.FORWARD) -> BenchRow:
    def around(value: float) -> Interval:
        return Interval(value=value, low=0.99 * value, high=1.01 * value)

    return BenchRow(
        case="8192x4096-bf16",
        role=Role.TUNING,
        mode=mode,
        l2=L2.COLD,
        contender=contender,
        time_ms=around(ms),
        speedup=around(speedup) if speedup is not None else None,
        share_of_ceiling=0.9,
    )


@pytest.fixture(scope="module")
def result() -> BenchResult:
    """Forward faster than all others; backward at half the speed of Liger."""
    profile = read_document(ROOT / "optimization" / "rms_norm" / "profile.json", Profile)
    return BenchResult(
        kernel="rms_norm",
        source="rms_norm.py",
        sources={},
        providers=("torch", "liger"),
        cases=("8192x4096-bf16",),
        modes=(Mode.FORWARD, Mode.BACKWARD),
        l2=L2.COLD,
        method=None,
        device=profile.device,
        origin=profile.origin,
        excluded={"quack": "No module named 'quack'"},
        rows=(
            row("original", 0.040, None),
            row("torch", 0.080, 0.5),
            row("liger", 0.050, 0.8),
            row("original", 0.100, None, Mode.BACKWARD),
            row("torch", 0.200, 0.5, Mode.BACKWARD),
            row("liger", 0.050, 2.0, Mode.BACKWARD),
        ),
    )


def test_each_pass_is_held_against_the_fastest_other(result: BenchResult) -> None:
    forward, backward = standings(result)
    assert (forward.rival, backward.rival) == ("liger", "liger")
    assert forward.speed is not None and backward.speed is not None
    assert (forward.speed.value, backward.speed.value) == pytest.approx((1.25, 0.5))
    assert forward.speed.low < 1.25 < forward.speed.high
    assert (forward.falls_short, backward.falls_short) == (False, True)


def test_what_nothing_else_can_do_is_held_against_nobody(result: BenchResult) -> None:
    (alone,) = standings(result.model_copy(update={"rows": result.rows[:1]}))
    assert (alone.rival, alone.speed, alone.falls_short) == (None, None, False)


def test_a_loss_is_held_with_its_gradient_against_the_one_that_its_aim_names(result: BenchResult) -> None:
    rows = [each.model_copy(update={"mode": Mode.FULL, "peak_bytes": 2**30}) for each in result.rows[:3]]
    forward_alone = result.rows[3].model_copy(update={"mode": Mode.FORWARD})
    loss = result.model_copy(update={"kernel": "cross_entropy", "rows": (*rows, forward_alone)})
    (full,) = standings(loss)
    assert (full.mode, full.rival, full.falls_short) == (Mode.FULL, "liger", False)
    told = page([loss], [full])
    assert "cross_entropy full at 1 of liger" in told
    assert "| torch | speed beside liger |" in told
    assert "| peak memory above the inputs | warpsmith | liger | torch |" in told
    assert "| 8192×4096 bf16 | 1.0 GiB | 1.0 GiB | 1.0 GiB |" in told
    (alone,) = standings(loss.model_copy(update={"rows": tuple(rows[:2])}))
    assert (alone.rival, alone.speed) == (None, None)


def test_the_page_names_what_falls_short_and_what_could_not_be_timed(result: BenchResult) -> None:
    told = page([result], standings(result)).splitlines()
    assert "1 of 2 passes reach their aim. These fall short, and are the optimizer's work:" in told
    assert "- rms_norm, 8192×4096 bf16, backward: 0.50 of liger" in told
    assert "Not timed: quack, No module named 'quack'." in told
    (line,) = [each for each in told if "| forward |" in each]
    assert line == "| 8192×4096 bf16 | forward | **40.00 µs** | 90.0% | 50.00 µs | 80.00 µs | 1.250× [1.238, 1.263] |"


def test_a_pass_that_only_others_could_make_is_left_out(result: BenchResult) -> None:
    assert standings(result.model_copy(update={"rows": result.rows[1:3]})) == []


def test_figures_of_two_machines_are_not_put_on_one_page(result: BenchResult, tmp_path: Path) -> None:
    environment = result.device.environment.model_copy(update={"gpu_name": "NVIDIA B200"})
    other = result.device.model_copy(update={"environment": environment})
    for kernel, device in (("layer_norm", result.device), ("rms_norm", other)):
        (tmp_path / kernel).mkdir()
        found = result.model_copy(update={"kernel": kernel, "device": device})
        write_document(tmp_path / kernel / "bench.json", found)
    with pytest.raises(UsageError, match="rms_norm was not measured as layer_norm was: gpu_name"):
        write_summary(tmp_path)
    assert not (tmp_path / "README.md").exists()


def test_a_library_that_stands_alone_has_a_plot_without_anything_in_it(result: BenchResult, tmp_path: Path) -> None:
    alone = result.model_copy(update={"rows": tuple(row for row in result.rows if row.contender == ORIGINAL)})
    (tmp_path / "rms_norm").mkdir()
    write_document(tmp_path / "rms_norm" / "bench.json", alone)
    assert write_summary(tmp_path)
    assert (tmp_path / "library.png").read_bytes().startswith(b"\x89PNG")


def test_two_gpus_of_one_model_are_counted_on_the_page(result: BenchResult) -> None:
    environment = result.device.environment.model_copy(update={"gpu_uuid": "GPU-2"})
    other = result.device.model_copy(update={"environment": environment})
    assert "(2 of them, each kernel on one)" in page([result, result.model_copy(update={"device": other})], [])
    assert "of them" not in page([result, result], [])


def test_a_summary_is_a_page_a_table_a_plot_and_packed_samples(
    result: BenchResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not write_summary(tmp_path)
    assert library._summarize(tmp_path) == 1 and "nothing is measured in" in capsys.readouterr().err
    folder = tmp_path / "rms_norm"
    folder.mkdir()
    write_document(folder / "bench.json", result)
    (folder / "measurements.jsonl").write_text("{}\n")
    assert write_summary(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "library.csv", "library.png", "rms_norm"}
    assert "rms_norm,8192x4096-bf16,backward,warpsmith,100.0000" in (tmp_path / "library.csv").read_text()
    assert (folder / "measurements.jsonl.gz").is_file()


def test_the_committed_page_and_table_are_what_its_figures_make_and_the_front_page_says_the_same(
    tmp_path: Path,
) -> None:
    committed = library.DATA
    for path in committed.glob("*/bench.json"):
        (tmp_path / path.parent.name).mkdir()
        shutil.copy(path, tmp_path / path.parent.name)
        assert path.with_name("measurements.jsonl.gz").is_file()
    assert write_summary(tmp_path)
    for name in ("README.md", "library.csv"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (committed / name).read_text(encoding="utf-8")
    counted = " ".join((committed / "README.md").read_text(encoding="utf-8").partition(" passes reach")[0].split()[-3:])
    assert f"{counted} passes" in (ROOT / "README.md").read_text(encoding="utf-8")
