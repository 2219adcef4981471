"""The profile on the command line: on a terminal the part that a person decides by, and a GPU that is asked for beside.

Knows how it is shown. What it says is the page's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.cli.output import print_json, print_markdown
from warpsmith.cli.progress import shown
from warpsmith.cli.width import say
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, RunState
from warpsmith.device.known_gpus import known_gpu
from warpsmith.project.config import ProjectConfig
from warpsmith.project.snapshot import file_sha256
from warpsmith.report.quantities import origin_told
from warpsmith.stages.prediction import compiled_beside
from warpsmith.stages.runs import Options
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock

#: Where the part of a profile ends that a person decides by.
DETAILS = "\n## Baselines\n"


def print_profile(text: str) -> None:
    """As far as a person decides by it on a terminal, with where the rest is; the whole page elsewhere."""
    print_markdown(deciding_part(text) if sys.stdout.isatty() else text)


def deciding_part(text: str) -> str:
    return text.partition(DETAILS)[0]


def notices(workspace: Workspace, profile: Profile) -> list[str]:
    """What a reader has to know before the page, and the page, which is of its day, does not say."""
    told = []
    if profile.is_predicted and not profile.launches and profile.offline is not None:
        reason = profile.offline.unavailable or "no case is compiled for"
        told.append(f"nothing was compiled for {profile.device.name}: {reason}")
    if not profile.is_predicted and profile.offline is not None and profile.offline.gpu.name != profile.device.name:
        origin = origin_told(profile.origin, profile.device)
        told.append(f"{origin}; compiled for {profile.offline.gpu.name} beside it")
    production = workspace.root / profile.source
    if production.is_file() and file_sha256(production) != profile.source_sha256:
        told.append(f"{_of_which_source(workspace, profile)}: lines are of {workspace.relative(workspace.original)}")
    return told


def _of_which_source(workspace: Workspace, profile: Profile) -> str:
    if workspace.final_result.is_file():
        final = read_document(workspace.final_result, FinalResult)
        if final.applied_sha256 == file_sha256(workspace.root / profile.source):
            return f"this profile is of the source before v{final.winner} was applied"
    return f"this profile is of {profile.source} as it was, which has changed since"


def is_asked_beside(workspace: Workspace, options: Options) -> bool:
    """Whether a profile of something that was run is there, and nothing but another target GPU is asked for."""
    if options.fresh or options.target_gpu is None or not workspace.profile.is_file():
        return False
    request = read_document(workspace.request, Request)
    different = {name for name, value in options.given().items() if value != getattr(request, name)}
    return not request.predicted and different == {"target_gpu"}


def print_beside(
    root: Path, config: ProjectConfig, workspace: Workspace, target_gpu: str, *, as_json: bool, quiet: bool
) -> None:
    """The profile that is there with what its original compiles to for that GPU. Writes nothing of the run."""
    from warpsmith.report.pages import render_profile  # slow to load

    gpu, run_id = known_gpu(target_gpu), read_document(workspace.request, Request).run_id
    with run_lock(workspace), shown(workspace, run_id, RunState.PROFILE.value, quiet=quiet) as progress:
        profile = compiled_beside(root, config, workspace, gpu, progress)
    say(notices(workspace, profile), sys.stderr)
    if as_json:
        print_json(profile)
        return
    print_markdown(render_profile(profile))
    print(f"page: {workspace.relative(workspace.profile_page)}   (as it is there, without {gpu.name})")
