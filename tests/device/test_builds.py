"""A torch for another maker's GPUs is known without importing it."""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.device.builds import cuda_of_torch, other_backend, require_nvidia

VERSION_FILE = """from typing import Optional

__version__ = '{version}'
cuda: Optional[str] = {cuda}
hip: Optional[str] = {hip}
rocm: Optional[str] = {hip}
xpu: Optional[str] = {xpu}
"""


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    version: str,
    *,
    cuda: str | None = None,
    hip: str | None = None,
    xpu: str | None = None,
) -> None:
    """A torch of that version, as far as its files tell."""
    values = {"version": version, "cuda": repr(cuda), "hip": repr(hip), "xpu": repr(xpu)}
    (folder / "version.py").write_text(VERSION_FILE.format(**values))
    spec = ModuleSpec("torch", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr(metadata, "version", lambda name: version)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)


@pytest.mark.parametrize(
    ("version", "hip", "xpu", "backend"),
    [
        ("2.11.0+rocm6.4", "6.4.43482", None, "AMD (ROCm)"),
        ("2.11.0+rocm6.4.0.lw.git1a2b3c", None, None, "AMD (ROCm)"),
        ("2.11.0a0+git1a2b3c", "6.4.43482", None, "AMD (ROCm)"),
        ("2.11.0", "6.4", None, "AMD (ROCm)"),
        ("2.11.0+xpu", None, "20250101", "Intel (XPU)"),
        ("2.11.0a0+git1a2b3c", None, "20250101", "Intel (XPU)"),
    ],
)
def test_another_makers_build_is_unavailable_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, hip: str | None, xpu: str | None, backend: str
) -> None:
    install(monkeypatch, tmp_path, version, hip=hip, xpu=xpu)

    assert other_backend() == backend
    with pytest.raises(Unavailable) as caught:
        require_nvidia()
    assert caught.value.message == (
        f"NVIDIA only: torch {version} is built for {backend}, and warpsmith measures on CUDA"
    )
    assert caught.value.exit_code is ExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("version", "cuda"), [("2.11.0+cu130", "13.0"), ("2.11.0", "13.0"), ("2.13.0+cpu", None), ("2.11.0a0+git1", "13.0")]
)
def test_a_build_for_cuda_or_for_no_gpu_is_none_of_another_maker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, cuda: str | None
) -> None:
    install(monkeypatch, tmp_path, version, cuda=cuda)

    assert other_backend() is None
    require_nvidia()


@pytest.mark.parametrize(("cuda", "found"), [("13.0", (13, 0)), ("12.8", (12, 8)), ("12.10", (12, 10)), (None, None)])
def test_the_cuda_of_a_build_is_read_from_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cuda: str | None, found: tuple[int, int] | None
) -> None:
    install(monkeypatch, tmp_path, "2.11.0", cuda=cuda)

    assert cuda_of_torch() == found


def test_no_torch_has_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert cuda_of_torch() is None


def test_no_torch_is_no_other_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)

    assert other_backend() is None


def test_asking_imports_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(sys.modules)
    other_backend()
    assert not {name for name in set(sys.modules) - before if name.partition(".")[0] == "torch"}
