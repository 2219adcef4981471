"""Facts that are kept in the user's cache: what is read back, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.device import DeviceFacts, Environment
from warpsmith.device import kept
from warpsmith.device.kept import Kept, keep, kept_file, kept_for, read_kept
from warpsmith.device.known_gpus import known_gpu
from warpsmith.device.predicted import predicted_facts


def facts(**changes: object) -> DeviceFacts:
    made = predicted_facts(known_gpu("H200"), torch="2.11", triton="3.6", ptxas="12.9", harness="1")
    environment = made.environment.model_copy(update={"gpu_uuid": "GPU-0", "driver": "580.1", **changes})
    return made.model_copy(update={"uuid": "GPU-0", "environment": environment})


def today(**changes: object) -> Environment:
    return facts(**changes).environment


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"WARPSMITH_CACHE": "/own", "XDG_CACHE_HOME": "/shared", "HOME": "/h"}, "/own"),
        ({"XDG_CACHE_HOME": "/shared", "HOME": "/h"}, "/shared/warpsmith"),
        ({"XDG_CACHE_HOME": "not/absolute"}, "~/.cache/warpsmith"),
        ({"XDG_CACHE_HOME": ""}, "~/.cache/warpsmith"),
        ({}, "~/.cache/warpsmith"),
    ],
)
def test_a_gpu_has_a_file_of_its_own_in_the_users_cache(environment: dict[str, str], folder: str) -> None:
    assert kept_file("GPU-0", environment) == Path(folder).expanduser() / "devices" / "GPU-0.json"


def test_a_uuid_leads_to_no_other_folder() -> None:
    found = kept_file("../../x", {"WARPSMITH_CACHE": "/own"})

    assert found == Path("/own/devices/______x.json")


def test_a_user_without_a_home_has_no_place_to_keep_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home directory")

    monkeypatch.setattr(Path, "home", homeless)

    assert kept_file("GPU-0", {}) is None


def test_what_is_kept_is_read_back_for_the_same_environment_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "GPU-0.json"

    assert keep(path, facts()) is None
    assert read_kept(path) == Kept(facts())
    assert kept_for(path, today()) == Kept(facts())
    assert kept_for(path, today(driver="590.2")) == Kept(
        reason=f"{path} has ceilings of another set-up: driver 580.1, now 590.2"
    )
    assert kept_for(path, today(gpu_uuid="GPU-9")) == Kept(reason=f"{path} has ceilings of another set-up: another GPU")


@pytest.mark.parametrize("change", ["torch", "triton", "ptxas", "harness", "cuda"])
def test_other_software_is_another_environment(tmp_path: Path, change: str) -> None:
    keep(tmp_path / "GPU-0.json", facts())

    assert kept_for(tmp_path / "GPU-0.json", today(**{change: "other"})).facts is None


def test_ceilings_that_were_measured_otherwise_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "GPU-0.json"
    keep(path, facts())
    monkeypatch.setattr(kept, "METHOD", kept.METHOD + 1)

    assert read_kept(path) == Kept(reason=f"{path} has ceilings that another version of warpsmith measured")


def test_no_file_is_no_facts_and_no_reason(tmp_path: Path) -> None:
    assert read_kept(tmp_path / "GPU-0.json") == Kept()
    assert kept_for(tmp_path / "GPU-0.json", today()) == Kept()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"method": 2}', b"\xff\xfe", b'{"schema_version": 9}'])
def test_a_damaged_file_is_a_reason_and_no_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "GPU-0.json"
    path.write_bytes(content)

    found = read_kept(path)

    assert found.facts is None
    assert found.reason is not None and str(path) in found.reason


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "devices").write_text("a file where the folder should be")

    trouble = keep(tmp_path / "devices" / "GPU-0.json", facts())

    assert trouble is not None and "GPU-0.json" in trouble
