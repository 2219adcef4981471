"""`skills install` and `skills check`: the skill, copied to where an agent looks for it, and read as agents read it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli.options import AsJson
from warpsmith.contracts.errors import ExitCode, UsageError
from warpsmith.project.discover import find_root
from warpsmith.project.skills import Agent

app = typer.Typer(
    name="skills", help="The skill for coding agents: copy it to where they look, check it.", no_args_is_help=True
)

Agents = Annotated[list[Agent], typer.Option("--agent", help="Which agent is to find it; may be repeated.")]
User = Annotated[bool, typer.Option("--user", help="For all projects, in the home directory; else in this repository.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that were edited since they were installed.")]
SkillFolder = Annotated[Path | None, typer.Argument(help="A skill's folder; else ours and its copies that are found.")]


@app.command()
def install(agent: Agents, user: User = False, force: Force = False, as_json: AsJson = False) -> int:
    """Copy the skill to where an agent looks for skills. Files that you edited stay, unless --force."""
    from warpsmith.cli.output import print_json
    from warpsmith.cli.width import say
    from warpsmith.contracts.skill import InstalledSkills
    from warpsmith.project.skills import install as installed

    base = Path.home() if user else find_root(Path.cwd())
    named = [f"--agent {each.value}" for each in agent]
    again = " ".join(["warpsmith skills install", *named, *(["--user"] if user else [])])
    copies = installed(base, agent, force=force, again=again)
    if as_json:
        print_json(InstalledSkills(installed=copies))
        return ExitCode.DONE
    for copy in copies:
        changed = [*(f"wrote {name}" for name in copy.written), *(f"removed {name}" for name in copy.removed)]
        say([f"{copy.path} ({', '.join(copy.agents)})", *(f"  {line}" for line in changed)], sys.stdout)
        if not changed:
            print("  up to date")
    return ExitCode.DONE


@app.command()
def check(path: SkillFolder = None, as_json: AsJson = False) -> int:
    """Read a skill as the strictest agent does, and its copies byte for byte. Exit code 3 where something is wrong."""
    from warpsmith.cli.output import print_json
    from warpsmith.cli.width import say
    from warpsmith.contracts.skill import SkillChecks
    from warpsmith.project.skills import check as checked
    from warpsmith.project.skills import check_copies

    found = SkillChecks(skills=check_copies(_bases()) if path is None else (checked(path),))
    if as_json:
        print_json(found)
    else:
        for skill in found.skills:
            say(f"{'--' if skill.problems else 'ok':3} {skill.path}", sys.stdout)
            say([f"    {each.file}: {each.problem}" for each in skill.problems], sys.stdout)
    return ExitCode.DONE if found.ok else ExitCode.PREFLIGHT


def _bases() -> dict[Path, str]:
    """Where copies may lie, the home directory and this repository if we are in one -> the option that writes there."""
    try:
        return {Path.home(): "--user", find_root(Path.cwd()): ""}
    except UsageError:
        return {Path.home(): "--user"}
