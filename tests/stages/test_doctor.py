"""What the doctor tells of a machine: its GPUs, driver and software, and what launches under which tool."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from simulated_gpu import DEVICE
from simulated_nvml import Card, Nvml

from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.device.kept import keep, kept_file
from warpsmith.device.state import Driver
from warpsmith.measure.worker.confinement import Confinement
from warpsmith.stages import doctor
from warpsmith.stages.doctor import Finding, examine, machine, software, trial
from warpsmith.stages.doctor.pairs import findings_of_pairs
from warpsmith.stages.doctor.software import Ptxas, Software, software_findings
from warpsmith.stages.doctor.trial import KERNEL, LAUNCHED, trial_findings

GPU = Gpu(index=0, uuid="GPU-0", name="NVIDIA H200", capability=(9, 0), other_processes=())


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    fake = Nvml(cards=(Card(),))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


@pytest.fixture
def nothing_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "trial_findings", lambda gpu: [])


def named(name: str, findings: tuple[Finding, ...] | list[Finding]) -> Finding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


@pytest.mark.usefixtures("nothing_tried")
@pytest.mark.parametrize(
    ("processes", "told", "consequence"),
    [
        ((), "no other process uses it", None),
        (
            (12, 34),
            "other processes use it: 12, 34",
            "figures may be off while they compute, and ceilings are not kept",
        ),
        (None, "NVML does not say whether other processes use it", None),
    ],
)
def test_a_gpu_is_told_with_who_else_uses_it(
    nvml: Nvml, tmp_path: Path, processes: tuple[int, ...] | None, told: str, consequence: str | None
) -> None:
    nvml.cards = (Card(pids=processes),)

    found = examine(tmp_path)[0]

    assert (found.name, found.ok, found.consequence) == ("gpu 0", True, consequence)
    assert found.found == f"NVIDIA H200, GPU-0, SM 9.0 (Hopper), 141 GiB; {told}"


@pytest.mark.usefixtures("nothing_tried")
def test_a_gpu_of_an_unknown_architecture_is_nothing_to_measure_on(nvml: Nvml, tmp_path: Path) -> None:
    nvml.cards = (Card(capability=(99, 1)),)

    found = examine(tmp_path)[0]

    assert not found.ok
    assert "SM 99.1 (not known to this version)" in found.found
    assert found.consequence is not None and found.consequence.startswith("nothing is measured on it: unknown")


@pytest.mark.usefixtures("nothing_tried")
def test_several_gpus_are_told_each_and_hidden_ones_counted(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.cards = (Card("GPU-a"), Card("GPU-b"), Card("GPU-c"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c,GPU-a")

    findings = examine(tmp_path)

    assert [finding.name for finding in findings[:4]] == ["gpu 2", "clocks 2", "gpu 0", "clocks 0"]
    assert named("visible", findings).found == "CUDA_VISIBLE_DEVICES='GPU-c,GPU-a' hides 1 of 3 GPUs"


@pytest.mark.usefixtures("nothing_tried")
def test_the_driver_is_told_with_the_highest_cuda_that_it_supports(nvml: Nvml, tmp_path: Path) -> None:
    expected = Finding(name="driver", ok=True, found="580.159.03, supports CUDA up to 13.0")

    assert named("driver", examine(tmp_path)) == expected


@pytest.mark.usefixtures("nothing_tried")
def test_clocks_are_told_and_a_gpu_that_is_held_back_is_no_good_sign(nvml: Nvml, tmp_path: Path) -> None:
    assert named("clocks 0", examine(tmp_path)) == Finding(
        name="clocks 0",
        ok=True,
        found="SM at 345 MHz now, at most 1980 MHz, slowed by nothing, persistence mode on, power limit 700 W",
    )

    nvml.cards = (Card(reasons=0x4, limit_mw=400_000, persistence=None),)
    found = named("clocks 0", examine(tmp_path))
    assert not found.ok and found.remedy is not None
    assert "slowed by software power cap" in found.found
    assert "power limit 400 W (by default 700 W)" in found.found
    assert "persistence" not in found.found


@pytest.mark.usefixtures("nothing_tried")
def test_clocks_that_nvml_does_not_tell_are_no_fault(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "state_of", lambda uuid: machine.GpuState())

    assert named("clocks 0", examine(tmp_path)) == Finding(name="clocks 0", ok=True, found="NVML does not tell")


@pytest.mark.usefixtures("nothing_tried")
def test_kept_ceilings_are_told_with_their_file(nvml: Nvml, tmp_path: Path) -> None:
    path = kept_file("GPU-0")
    assert path is not None
    expected = Finding(name="ceilings 0", ok=True, found=f"not measured yet; a run will, and keep them in {path}")
    assert named("ceilings 0", examine(tmp_path)) == expected

    keep(path, DEVICE)
    assert named("ceilings 0", examine(tmp_path)).found == (
        f"measured at {DEVICE.measured_at} with driver 580, torch 2.11 and triton 3.6; kept in {path}, delete it to "
        "have them measured anew"
    )

    path.write_text("{")
    found = named("ceilings 0", examine(tmp_path))
    assert not found.ok and "is damaged" in found.found
    assert found.remedy == f"rm {path}"


def test_without_a_gpu_every_finding_is_there_and_nothing_is_tried(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.missing = "Driver Not Loaded"
    tool = program(tmp_path, "ncu", "exit 1")
    monkeypatch.setattr(trial, "find_ncu", lambda: str(tool))
    monkeypatch.setattr(trial, "find_sanitizer", lambda: None)

    findings = examine(tmp_path)

    assert findings[0].found == "NVML does not answer: Driver Not Loaded"
    assert not named("driver", findings).ok
    assert named("ncu", findings) == Finding(name="ncu", ok=True, found=f"{tool}; not tried, no GPU")
    assert named("compute-sanitizer", findings).found == "not installed"
    assert {"torch", "triton", "ptxas", "python", "system", "workers"} <= {finding.name for finding in findings}


@pytest.mark.parametrize(
    "broken", ["gpus", "installed", "gpu_findings", "software_findings", "findings_of_pairs", "_recordings"]
)
def test_what_cannot_be_examined_hides_nothing_else(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, nothing_tried: None
) -> None:
    def fails(*_: object) -> None:
        raise OSError("a broken installation")

    monkeypatch.setattr(doctor, broken, fails)

    findings = examine(tmp_path)

    assert [finding.found for finding in findings if "a broken installation" in finding.found] != []
    assert "workers" in {finding.name for finding in findings}


def test_findings_before_what_cannot_be_examined_are_kept(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_and_then_none(*_: object) -> Iterator[Finding]:
        yield Finding(name="ncu", ok=True, found="usable")
        raise OSError("a broken tool")

    monkeypatch.setattr(doctor, "trial_findings", one_and_then_none)

    told = [finding.found for finding in examine(tmp_path) if finding.name in ("ncu", "tools")]

    assert told == ["usable", "could not be examined: OSError: a broken tool"]


def test_the_doctor_imports_neither_torch_nor_triton(tmp_path: Path) -> None:
    source = (
        "import sys; from pathlib import Path; from warpsmith.stages.doctor import examine; "
        "examine(Path.cwd()); print([n for n in ('torch', 'triton') if n in sys.modules])"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


SOUND = Software(
    driver=Driver("580.159.03", (13, 0)),
    torch="2.11.0+cu130",
    torch_cuda=(13, 0),
    triton="3.6.0",
    pinned_triton="3.6.0",
    compilers={
        "ptxas": Ptxas("/ptxas", (12, 8), frozenset({75, 80, 86, 89, 90, 100, 120})),
        "ptxas-blackwell": Ptxas("/ptxas-blackwell", (13, 1), frozenset({90, 100, 103, 110, 120, 121})),
    },
    python=(3, 11, 7),
    system="Linux",
    glibc=(2, 35),
)


def with_changes(**changes: object) -> Software:
    return Software(**{**SOUND.__dict__, **changes})  # type: ignore[arg-type]


def bad_pairs(found: Software, capability: tuple[int, int] = (9, 0)) -> list[Finding]:
    gpu = Gpu(index=0, uuid="GPU-0", name="a GPU", capability=capability, other_processes=())
    return [finding for finding in findings_of_pairs(found, [gpu]) if not finding.ok]


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)])
def test_what_fits_together_is_told_pair_by_pair_and_nothing_is_wrong(capability: tuple[int, int]) -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="a GPU", capability=capability, other_processes=())

    findings = list(findings_of_pairs(SOUND, [gpu]))

    assert [finding.name for finding in findings if finding.ok] == [
        "pinned triton",
        "torch + driver",
        "system",
        "torch + gpu 0",
        "triton + gpu 0",
    ]
    assert [finding for finding in findings if not finding.ok] == []


@pytest.mark.parametrize(
    ("changes", "capability", "name", "consequence", "remedy"),
    [
        ({"triton": "3.5.1"}, (9, 0), "triton + warpsmith", "3.6 to 3.9 are", "pip install 'triton>=3.6,<3.10'"),
        ({"triton": "3.10.0"}, (9, 0), "triton + warpsmith", "3.6 to 3.9 are", "pip install 'triton>=3.6,<3.10'"),
        ({"triton": "3.7.1"}, (9, 0), "pinned triton", "torch.compile", "pip install triton==3.6.0"),
        (
            {"driver": Driver("570.86", (12, 8))},
            (9, 0),
            "torch + driver",
            "torch finds no GPU",
            "install driver 580 or newer, or a torch for an older CUDA",
        ),
        (
            {"driver": Driver("520.61", (11, 8)), "torch_cuda": (12, 6)},
            (9, 0),
            "torch + driver",
            "torch finds no GPU",
            "install driver 525 or newer, or a torch for an older CUDA",
        ),
        ({"torch_cuda": (12, 6)}, (10, 0), "torch + gpu 0", "CUDA 12.8 and newer", "CUDA 12.8 or newer"),
        ({"torch_cuda": (12, 6)}, (12, 0), "torch + gpu 0", "CUDA 12.8 and newer", "CUDA 12.8 or newer"),
        ({"torch_cuda": (12, 9)}, (11, 0), "torch + gpu 0", "CUDA 13.0 and newer", "CUDA 13.0 or newer"),
        ({"torch_cuda": (11, 7)}, (9, 0), "torch + gpu 0", "CUDA 11.8 and newer", "CUDA 11.8 or newer"),
        ({"torch_cuda": (13, 0)}, (7, 0), "torch + gpu 0", "dropped what is older than 7.5", "CUDA 12"),
        ({}, (8, 8), "triton + gpu 0", "newest target is sm_120", "TRITON_PTXAS_PATH"),
        ({}, (12, 3), "triton + gpu 0", "newest target is sm_121", "TRITON_PTXAS_BLACKWELL_PATH"),
        ({}, (7, 5), "old gpu 0", "Triton supports 8.0 and newer", None),
        ({"python": (3, 14, 0)}, (9, 0), "python + warpsmith", "3.10 to 3.13 are", "Python 3.13"),
        ({"python": (3, 9, 0)}, (9, 0), "python + warpsmith", "3.10 to 3.13 are", "Python 3.13"),
        ({"glibc": (2, 17)}, (9, 0), "system", "glibc 2.28", "newer distribution"),
        ({"glibc": None}, (9, 0), "system", "built against glibc", "Debian"),
        ({"system": "Darwin"}, (9, 0), "system", "Linux only", "run in Linux"),
    ],
)
def test_a_bad_pair_is_told_with_its_reason_and_what_mends_it(
    changes: dict[str, object], capability: tuple[int, int], name: str, consequence: str, remedy: str | None
) -> None:
    found = named(name, bad_pairs(with_changes(**changes), capability))

    assert found.consequence is not None and consequence in found.consequence
    assert (found.remedy is None) if remedy is None else (found.remedy is not None and remedy in found.remedy)


@pytest.mark.parametrize(
    "changes",
    [
        {"driver": Driver("525.60", (12, 0)), "torch_cuda": (12, 8)},  # minor-version compatibility
        {"driver": Driver("610.10", (14, 0))},
        {"driver": Driver("570.86", (12, 8)), "torch_cuda": (14, 0)},  # newer than the table
        {"driver": Driver()},
        {"triton": "3.6.0+git1a2b3c", "pinned_triton": "3.6.0"},
        {"pinned_triton": None},
        {"torch": None, "torch_cuda": None, "pinned_triton": None},
        {"compilers": {}},
    ],
)
def test_what_is_sound_or_not_known_is_no_bad_pair(changes: dict[str, object]) -> None:
    assert bad_pairs(with_changes(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "ok", "found", "consequence"),
    [
        ({}, True, "2.11.0+cu130, built for CUDA 13.0", None),
        ({"torch": None}, False, "not installed", "nothing can be measured"),
        (
            {"torch": "2.13.0+cpu", "torch_cuda": None},
            False,
            "2.13.0+cpu",
            "a build without CUDA: it finds no GPU",
        ),
        (
            {"torch": "2.11.0+rocm6.4", "torch_cuda": None, "other_backend": "AMD (ROCm)"},
            False,
            "2.11.0+rocm6.4",
            "built for AMD (ROCm); NVIDIA only: nothing can be measured",
        ),
    ],
)
def test_torch_is_told_with_what_it_was_built_for(
    changes: dict[str, object], ok: bool, found: str, consequence: str | None
) -> None:
    torch = named("torch", list(software_findings(with_changes(**changes))))

    assert (torch.ok, torch.found, torch.consequence) == (ok, found, consequence)
    assert (torch.remedy is None) == ok


def test_compilers_are_told_by_version_and_none_that_runs_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named("ptxas", list(software_findings(SOUND))).found == "ptxas 12.8, ptxas-blackwell 13.1"

    monkeypatch.setenv("TRITON_PTXAS_PATH", "/ptxas")
    told = named("ptxas", list(software_findings(SOUND))).found
    assert told == "ptxas 12.8 (/ptxas, by TRITON_PTXAS_PATH), ptxas-blackwell 13.1"
    assert not named("ptxas", list(software_findings(with_changes(compilers={})))).ok
    assert [f.name for f in software_findings(with_changes(triton=None))] == ["torch", "triton", "python"]


def test_a_compiler_lists_what_it_compiles_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = """
        case "$1" in
        --version) echo "Cuda compilation tools, release 12.8, V12.8.93";;
        --help) echo "Allowed values: 'compute_90','lto_90','sm_75','sm_90','sm_90a',"; echo "  'sm_100'.";;
        esac
    """
    path = str(program(tmp_path, "ptxas", answers))
    silent = str(program(tmp_path, "silent", "exit 1"))
    monkeypatch.setenv("TRITON_PTXAS_PATH", path)
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", silent)

    assert software.installed(Driver()).compilers == {"ptxas": Ptxas(path, (12, 8), frozenset({75, 90, 100}))}


@pytest.mark.parametrize(
    ("requirements", "pinned"),
    [
        (["filelock", 'triton==3.7.1; platform_system == "Linux"'], "3.7.1"),
        (["pytorch-triton==3.6.0+git9844da95 ; platform_system == 'Linux'"], "3.6.0+git9844da95"),
        (["triton (==3.6.0)"], "3.6.0"),
        (["triton-rocm==3.6.0", "sympy"], None),
        ([], None),
        (None, None),
    ],
)
def test_the_triton_that_torch_asks_for_is_read_from_its_metadata(
    monkeypatch: pytest.MonkeyPatch, requirements: list[str] | None, pinned: str | None
) -> None:
    monkeypatch.setattr(software.metadata, "requires", lambda name: requirements)

    assert software.installed(Driver()).pinned_triton == pinned


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def launching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Finding]]:
    """Findings where the runner, ncu and compute-sanitizer are these shell scripts; None, there is no such tool."""

    def found(
        runner: str = f"echo '{LAUNCHED}'", ncu: str | None = None, sanitizer: str | None = None, limit_s: float = 60
    ) -> list[Finding]:
        monkeypatch.setattr(trial.sys, "executable", str(program(tmp_path, "python", runner)))
        for finder, name, script in (("find_ncu", "ncu", ncu), ("find_sanitizer", "compute-sanitizer", sanitizer)):
            path = None if script is None else str(program(tmp_path, name, script))
            monkeypatch.setattr(trial, finder, lambda path=path: path)
        return list(trial_findings(GPU, time_limit_s=limit_s))

    return found


VERSION = '[ "$1" = --version ] && echo "Version 2026.1.0.0 (build 1)" && exit'


def test_tools_that_hold_a_tiny_kernel_are_usable(launching: Callable[..., list[Finding]], tmp_path: Path) -> None:
    counts = f'{VERSION}; echo "ID","Kernel Name","gpu__time_duration.sum"; echo "0","{KERNEL}","1024"'
    checks = f"{VERSION}; echo '{LAUNCHED}'; echo '========= ERROR SUMMARY: 0 errors'"

    assert launching(ncu=counts, sanitizer=checks) == [
        Finding(name="gpu 0 trial", ok=True, found="a tiny kernel was compiled and ran"),
        Finding(name="ncu", ok=True, found=f"{tmp_path / 'ncu'} 2026.1.0.0: usable"),
        Finding(name="compute-sanitizer", ok=True, found=f"{tmp_path / 'compute-sanitizer'} 2026.1.0.0: usable"),
    ]


def test_a_refusal_is_told_apart_with_its_remedy(launching: Callable[..., list[Finding]], tmp_path: Path) -> None:
    refuses = "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1"
    held = "echo '========= Error: Operation not permitted (ptrace)'; exit 1"

    _, ncu, sanitizer = launching(ncu=refuses, sanitizer=held)

    assert not ncu.ok and ncu.found.startswith(f"{tmp_path / 'ncu'}: the driver gives performance counters to adm")
    assert ncu.consequence == "no hardware counters; the profile goes on with durations and compiled code"
    assert ncu.remedy is not None and "NVreg_RestrictProfilingToAdminUsers=0" in ncu.remedy
    assert not sanitizer.ok and "may not attach" in sanitizer.found
    assert sanitizer.remedy is not None and "SYS_PTRACE" in sanitizer.remedy


def test_a_tool_that_is_not_there_is_told_with_where_to_get_it(launching: Callable[..., list[Finding]]) -> None:
    _, ncu, sanitizer = launching()

    assert (ncu.ok, ncu.found) == (sanitizer.ok, sanitizer.found) == (False, "not installed")
    assert ncu.remedy == "install NVIDIA Nsight Compute and put ncu on the path"
    assert sanitizer.remedy is not None and "CUDA toolkit" in sanitizer.remedy


@pytest.mark.parametrize(
    ("printed", "found", "remedy"),
    [
        ("RuntimeError: Failed to find C compiler.", "triton finds no C compiler", "install gcc or clang, or set CC"),
        (
            "AssertionError: Torch not compiled with CUDA enabled",
            "torch is built without CUDA",
            "install a torch for CUDA",
        ),
        (
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
            "torch or ptxas has no code for this GPU",
            "see the pairs above",
        ),
        (
            "RuntimeError: something else",
            "a tiny kernel failed: RuntimeError: something else",
            "python -m warpsmith.measure.tiny_launch 60",
        ),
        ("", "a tiny kernel failed: nothing was printed", "python -m warpsmith.measure.tiny_launch 60"),
    ],
)
def test_where_no_kernel_launches_that_is_the_finding_and_no_tool_is_tried(
    launching: Callable[..., list[Finding]], printed: str, found: str, remedy: str
) -> None:
    launch, ncu, _ = launching(runner=f"echo '{printed}'; exit 1", ncu="echo must not run; exit 1")

    assert launch == Finding(
        name="gpu 0 trial", ok=False, found=found, consequence="nothing can be measured", remedy=remedy
    )
    assert not ncu.ok and ncu.found.endswith("not tried, a kernel does not launch without it either")


def test_a_trial_that_does_not_end_is_ended(launching: Callable[..., list[Finding]]) -> None:
    (launch, *_) = launching(runner="exec tail -f /dev/null", limit_s=0.2)
    assert launch.found == "a tiny kernel did not end within 0.2 s"

    _, ncu, _ = launching(ncu=f"{VERSION}; exec tail -f /dev/null", limit_s=2)
    assert not ncu.ok and "did not end within 2 s" in ncu.found


def test_a_tool_that_is_no_program_is_told(
    launching: Callable[..., list[Finding]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launching()
    broken = program(tmp_path, "broken", "")
    broken.write_bytes(b"\x7fELF")
    monkeypatch.setattr(trial, "find_ncu", lambda: str(broken))

    _, ncu, _ = trial_findings(GPU)

    assert not ncu.ok and "cannot be run" in ncu.found


@pytest.mark.parametrize(
    ("offered", "finding"),
    [
        (Confinement(7), Finding(name="workers", ok=True, found="confined by Landlock (ABI 7)")),
        (
            Confinement(4),
            Finding(
                name="workers",
                ok=True,
                found="confined by Landlock (ABI 4)",
                consequence="a variant can end the command; the same command goes on",
            ),
        ),
        (
            Confinement(0, "Landlock 3 or newer is needed, this kernel does not offer it"),
            Finding(
                name="workers",
                ok=False,
                found="not confined: Landlock 3 or newer is needed, this kernel does not offer it",
                consequence="what a variant does to files is seen and put back, not prevented; it can end the command",
                remedy="run on Linux 6.2 or newer, with Landlock on",
            ),
        ),
    ],
)
def test_what_confines_workers_is_told_with_what_it_leaves_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: Confinement, finding: Finding
) -> None:
    monkeypatch.setattr(doctor, "gpus", lambda: GpuList((), "none"))
    monkeypatch.setattr(doctor, "confinement", lambda: offered)

    assert finding in examine(tmp_path)
