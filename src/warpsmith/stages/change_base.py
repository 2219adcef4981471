"""The base that a change is compared with: another file in the same surroundings, or a revision in its own.

Owns which source, target and modules stand for the base. Must not know what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warpsmith.contracts.compiled_change import BaseRef
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Describe, TargetRef, Worker, WorkerError, answer_of
from warpsmith.project.revision import Revision, exported, revision_of
from warpsmith.project.snapshot import sha256_of
from warpsmith.stages.check_request import content_of
from warpsmith.stages.session import source_ref, target_ref, worker_without_gpu

#: The folder that a worker takes a repository's modules from, besides its root.
_SRC = "src"


@dataclass(frozen=True)
class Side:
    """One source, how it is called, and who compiles it. `name` is what it is in a message."""

    name: str
    worker: Worker
    target: TargetRef
    source: SourceRef


@dataclass(frozen=True)
class Base:
    """`side` is None where the base has no such kernel, and `ref` says so."""

    ref: BaseRef
    side: Side | None
    notes: tuple[str, ...] = ()


@contextmanager
def opened_base(name: str, spec: TargetSpec, change: Side, scratch: Path) -> Iterator[Base]:
    """The base of that name: a file, else a revision, which is laid out below `scratch`.

    Raises UsageError where there is neither.
    """
    if Path(name).is_file():
        digest = sha256_of(content_of(Path(name)))
        source = SourceRef(path=str(Path(name).resolve()), sha256=digest)
        ref = BaseRef(name=name, source=name, source_sha256=digest)
        yield Base(ref, Side("the base", change.worker, change.target, source))
        return
    if Path(name).exists():
        raise UsageError(f"--base {name}: expected a source file or a revision of git, found a folder or a device")
    root = Path(change.target.root)
    revision = revision_of(root, name)
    tree = exported(root, revision, scratch / "base")
    with worker_without_gpu(import_folder(tree, spec)) as worker:
        yield _in_its_surroundings(worker, tree, revision, spec, change)


def import_folder(root: Path, spec: TargetSpec) -> Path:
    """The folder from which a worker has to start to import the modules of `root`, wherever else they are installed:
    the root, or, for a source such as python/package/file.py that is the module package.file, python/ in it.
    """
    source, module = PurePosixPath(spec.source).with_suffix("").parts, tuple(spec.module.split("."))
    above = source[: -len(module)]
    return root.joinpath(*above) if source[-len(module) :] == module and above not in ((), (_SRC,)) else root


def _in_its_surroundings(worker: Worker, tree: Path, revision: Revision, spec: TargetSpec, change: Side) -> Base:
    """The base with its own target file and its own modules beside it; with the present target where it has none."""
    ref = BaseRef(name=revision.name, commit=revision.commit, why=revision.why)
    modules, notes = import_folder(tree, spec), list[str]()
    target, source = change.target.model_copy(update={"root": str(modules)}), spec.source
    path = tree / Path(change.target.path).relative_to(change.target.root)
    if path.is_file():
        own = target_ref(modules, path)
        if own.sha256 != target.sha256:
            notes.append("the target file has changed too: each side is called by its own")
        try:
            target, source = own, answer_of(worker, Describe(target=own), TargetSpec).source
        except WorkerError as error:
            why = error.failure.in_short
            notes[:] = [f"the base's target file cannot be loaded, so that the present one calls both ({why})"]
    if not (tree / source).is_file():
        missing = f"{revision.commit[:12]} has no {source}: there is nothing to compare with"
        return Base(ref.model_copy(update={"missing": missing}), None)
    if spec.module.partition(".")[0] == "warpsmith" and (differing := _differing_beside(source, tree, change)):
        notes.append(f"{', '.join(differing)}: what the sources import of it is the present one on both sides")
    found = source_ref(tree / source)
    ref = ref.model_copy(update={"source": source, "source_sha256": found.sha256})
    return Base(ref, Side("the base", worker, target, found), tuple(notes))


def _differing_beside(source: str, tree: Path, change: Side) -> list[str]:
    """Modules beside the source that differ, where warpsmith checks its own: its package is imported already."""
    there, here = (tree / source).parent, (Path(change.target.root) / source).parent
    return [
        path.name
        for path in sorted(there.glob("*.py"))
        if path.name != PurePosixPath(source).name
        and (here / path.name).is_file()
        and path.read_bytes() != (here / path.name).read_bytes()
    ]
