"""What an installed warpsmith carries beside its code."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    return zipfile.ZipFile(next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


@pytest.mark.parametrize("folder", ["templates", "skills"])
def test_the_wheel_carries_templates_and_skills_byte_for_byte(wheel: zipfile.ZipFile, folder: str) -> None:
    carried = {name: wheel.read(name) for name in wheel.namelist() if name.startswith(f"warpsmith/{folder}/")}
    ours = {
        f"warpsmith/{path.relative_to(ROOT).as_posix()}": path.read_bytes()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }

    assert carried == ours
    assert ours


def test_the_wheel_carries_what_recorded_runs_say_of_predictions(wheel: zipfile.ZipFile) -> None:
    record = ROOT / "src" / "warpsmith" / "diagnose" / "track_record.json"

    assert wheel.read("warpsmith/diagnose/track_record.json") == record.read_bytes()


def test_the_wheel_offers_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("entry_points.txt"))

    assert "warpsmith = warpsmith.cli:main" in entry_points
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_wheel_holds_only_the_package(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"warpsmith"}
