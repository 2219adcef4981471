"""The run commands: from one stage to the next, stopping where a person decides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.cli.meanwhile import as_it_stands
from warpsmith.cli.output import print_json, print_markdown
from warpsmith.cli.profile_page import deciding_part, is_asked_beside, notices, print_beside, print_profile
from warpsmith.cli.progress import shown
from warpsmith.cli.result import EXIT_CODES, since_told, tell
from warpsmith.cli.width import say
from warpsmith.contracts.approval import Gate
from warpsmith.contracts.errors import ExitCode, UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, NextStep, RunState
from warpsmith.project.config import ProjectConfig, load_config
from warpsmith.project.discover import find_root, find_target
from warpsmith.stages import checkpoints
from warpsmith.stages.history import find_run
from warpsmith.stages.pages import document_of, ensure_pages, page_text
from warpsmith.stages.prediction import open_prediction
from warpsmith.stages.runs import Answering, Options, answering, begin, is_prediction, take_back_unproven
from warpsmith.stages.session import Session, open_session
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock

QUESTIONS = {
    Gate.OPTIMIZE: "Search for a faster version?",
    Gate.FINALIZE: "Put the winner into the production file?",
}


@dataclass
class Flow:
    """One command on one kernel of one project. `interactive` is whether someone can be asked."""

    root: Path
    config: ProjectConfig
    workspace: Workspace
    kernel: str
    as_json: bool
    quiet: bool
    interactive: bool

    @classmethod
    def open(cls, start: Path, kernel: str, *, as_json: bool, quiet: bool, interactive: bool) -> Flow:
        """Finds project, target and workspace. Raises UsageError for a kernel that is not there, naming the nearest."""
        root = find_root(start)
        config = load_config(root)
        find_target(root, config, kernel)
        workspace = Workspace(root, kernel)
        workspace.expect_folder()
        return cls(root, config, workspace, kernel, as_json, quiet, interactive)

    def run(self, options: Options) -> int:
        """Stages in turn until the end, or until a person must decide and cannot be asked."""
        if not self._is_finished(options) and not self.drive(options):
            return self._tell_next(ExitCode.WAITING)
        return self.tell_result()

    def drive(self, options: Options) -> bool:
        """Runs what is left of the run, telling no result. False where a person must decide and cannot be asked."""
        with run_lock(self.workspace):
            if self._is_done_by_now(options):
                return True
            request = self._begin(options)
            ensure_pages(self.workspace)
            stages: dict[RunState, Callable[[Session], Any]] = {}
            while (state := self._state()) is not RunState.DONE:
                if state in (RunState.WAITING_OPTIMIZE, RunState.WAITING_FINALIZE):
                    if not self._ask(Gate.OPTIMIZE if state is RunState.WAITING_OPTIMIZE else Gate.FINALIZE):
                        return False
                    continue
                stages = stages or _stages()
                with self._session(request, state) as session:
                    stages[state](session)
        return True

    def profile(self, options: Options) -> int:
        """Stage 1 alone. Where there is a profile, another target GPU is compiled for beside it."""
        if options.target_gpu is not None and is_asked_beside(self.workspace, options):
            gpu, as_json, quiet = options.target_gpu, self.as_json, self.quiet
            print_beside(self.root, self.config, self.workspace, gpu, as_json=as_json, quiet=quiet)
            return ExitCode.DONE
        if self._is_finished(options):
            return self._tell_page(self.workspace.profile_page)
        with run_lock(self.workspace):
            if self._is_done_by_now(options):
                return self._tell_page(self.workspace.profile_page)
            request = self._begin(options, to_predict=True)
            if self._state() is RunState.PROFILE:
                with self._session(request, RunState.PROFILE) as session:
                    _stages()[RunState.PROFILE](session)
        return self._tell_page(self.workspace.profile_page)

    def optimize(self, options: Options) -> int:
        with run_lock(self.workspace):
            request = self._begun(options)
            if not self.workspace.profile.is_file():
                raise UsageError(
                    f"{self.kernel} has no profile yet: stage 2 builds on it",
                    next_command=f"warpsmith profile {self.kernel}",
                )
            checkpoints.require(self.workspace, request, Gate.OPTIMIZE, terminal_only=self.config.terminal_only)
            if not self.workspace.search_result.is_file():
                with self._session(request, RunState.OPTIMIZE) as session:
                    _stages()[RunState.OPTIMIZE](session)
        return self._tell_page(self.workspace.comparison)

    def finalize(self) -> int:
        with run_lock(self.workspace):
            self.finalize_locked()
        return self.tell_result()

    def finalize_locked(self) -> None:
        """Stage 3 where it is not finished. Call it with the run's lock held."""
        request = self._begun(Options())
        if not self.workspace.final_result.is_file():
            with self._session(request, RunState.FINALIZE) as session:
                _stages()[RunState.FINALIZE](session)

    def approve(self, gate: Gate | None) -> int:
        waiting = {RunState.WAITING_OPTIMIZE: Gate.OPTIMIZE, RunState.WAITING_FINALIZE: Gate.FINALIZE}
        if not self.workspace.request.is_file():
            raise UsageError(f"no run of {self.kernel} has begun", next_command=f"warpsmith run {self.kernel}")
        if self.config.terminal_only and not sys.stdin.isatty():
            raise UsageError("approval: tty in warpsmith.yaml takes an approval from a terminal only")
        checkpoints.expect_measured(self.workspace, self.kernel)
        ensure_pages(self.workspace)
        chosen = gate or waiting.get(self._state())
        if chosen is None:
            raise UsageError("nothing waits for an approval", next_command=f"warpsmith next {self.kernel}")
        approval = checkpoints.approve(self.workspace, chosen, from_terminal=sys.stdin.isatty())
        if self.as_json:
            print_json(approval)
        else:
            print(f"approved: {chosen.value} (evidence {approval.evidence_sha256[:12]})")
            self._tell_next(ExitCode.DONE)
        return ExitCode.DONE

    def next(self) -> int:
        return self._tell(as_it_stands(self._next_step(), self.workspace), ExitCode.DONE)

    def status(self) -> int:
        from warpsmith.cli.status import print_status

        return print_status(self.workspace, terminal_only=self.config.terminal_only, as_json=self.as_json)

    def report(self, run_id: str | None = None) -> int:
        """The report of the run that is there, or of the one whose id begins with `run_id`."""
        found = find_run(self.workspace, run_id) if run_id is not None else self.workspace
        if not found.final_result.is_file():
            what = "no finished run" if run_id is None else f"nothing in run {run_id}"
            raise UsageError(f"{what} of {self.kernel} to report on", next_command=f"warpsmith status {self.kernel}")
        return self._tell_page(found.report_page, found)

    @contextmanager
    def _session(self, request: Request, stage: RunState) -> Iterator[Session]:
        opened = open_prediction if request.predicted else open_session
        with (
            shown(self.workspace, request.run_id, stage.value, quiet=self.quiet) as progress,
            opened(self.root, self.config, self.workspace, request, progress) as session,
        ):
            yield session

    def _state(self) -> RunState:
        return checkpoints.state_of(self.workspace, terminal_only=self.config.terminal_only)

    def _next_step(self) -> NextStep:
        return checkpoints.next_step(self.workspace, self.kernel, terminal_only=self.config.terminal_only)

    def _is_finished(self, options: Options) -> bool:
        """A finished run is shown, and makes way for a new one only when that is asked for."""
        if options.fresh or self._state() is not RunState.DONE:
            return False
        request = read_document(self.workspace.request, Request)
        asked = {name: value for name, value in options.given().items() if name != "autonomous"}
        if different := [name for name, value in asked.items() if value != getattr(request, name)]:
            raise UsageError(
                f"run {request.run_id} of {self.kernel} is finished, and had another {', '.join(different)}; --fresh "
                "moves it to history and begins anew",
                next_command=f"warpsmith report {self.kernel}",
            )
        print(f"this run of {self.kernel} is finished; --fresh moves it to history and begins anew", file=sys.stderr)
        return True

    def _is_done_by_now(self, options: Options) -> bool:
        """Another process may have finished the run while this one waited for the lock."""
        return not options.fresh and self._state() is RunState.DONE

    def _begin(self, options: Options, *, to_predict: bool = False) -> Request:
        """The run's request. What is there is left alone where nothing is there to answer a new run."""
        by = Answering()
        if options.fresh or self._state() is RunState.NEW or is_prediction(self.workspace):
            take_back_unproven(self.workspace)
            target = find_target(self.root, self.config, self.kernel)
            by = answering(self.root, target, self.kernel, options, to_predict=to_predict)
            if by.predicted_for is not None and not self.quiet:
                say(f"{by.why}: nothing is run, and the profile is predicted for {by.predicted_for}", sys.stderr)
        return begin(self.workspace, self.kernel, options, by, lambda text: say(text, sys.stderr), self._expect_fit)

    def _expect_fit(self, request: Request, again: str) -> None:
        from warpsmith.stages.beginning import expect_fit  # slow to load

        expect_fit(self.root, find_target(self.root, self.config, self.kernel), request, again)

    def _begun(self, options: Options) -> Request:
        if not self.workspace.request.is_file():
            raise UsageError(f"no run of {self.kernel} has begun", next_command=f"warpsmith profile {self.kernel}")
        if self._state() is RunState.DONE:
            return read_document(self.workspace.request, Request)
        checkpoints.expect_measured(self.workspace, self.kernel)
        ensure_pages(self.workspace)
        return begin(self.workspace, self.kernel, options)

    def _ask(self, gate: Gate) -> bool:
        """Shows what a person must judge and takes their answer. False where nobody can be asked, or said no."""
        page = self.workspace.profile_page if gate is Gate.OPTIMIZE else self.workspace.comparison
        if not self.interactive:
            return False
        text = page_text(self.workspace, page)
        print_markdown(deciding_part(text))
        print(f"the whole page: {self.workspace.relative(page)}")
        print(f"{QUESTIONS[gate]} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return False
        checkpoints.approve(self.workspace, gate, from_terminal=True)
        return True

    def _tell_next(self, code: ExitCode) -> int:
        return self._tell(self._next_step(), code)

    def _tell(self, step: NextStep, code: ExitCode) -> int:
        if self.as_json:
            print_json(step)
        else:
            say(f"{self.kernel}: {step.state.value}: {step.why}", sys.stdout)
            for page in step.read:
                print(f"  read: {page}")
            print(f"  next: {step.told}" + ("   (a person's decision)" if step.for_a_person else ""))
        return code

    def _tell_page(self, page: Path, run: Workspace | None = None) -> int:
        """A page of the current run, or of another one; with --json the document that it was made from."""
        of = run or self.workspace
        document = document_of(of, page)
        if isinstance(document, Profile):
            say(notices(of, document), sys.stderr)
        if self.as_json:
            print_json(document)
        else:
            show = print_profile if page == of.profile_page else print_markdown
            show(page_text(of, page))
            print(f"page: {self.workspace.relative(page)}")
            say(since_told(of) if page == of.report_page else [], sys.stdout)
            print(f"next: {self._next_step().told}")
        return ExitCode.DONE

    def tell_result(self) -> int:
        result = read_document(self.workspace.final_result, FinalResult)
        if self.as_json:
            print_json(result)
        else:
            tell(self.workspace, result)
            print(f"  report: {self.workspace.relative(self.workspace.report_page)}")
            print(f"  plots: {self.workspace.relative(self.workspace.plots)}")
        return EXIT_CODES[result.outcome]


def _stages() -> dict[RunState, Callable[[Session], Any]]:
    """The stages' imports reach pandas and matplotlib, which commands that only read do without."""
    from warpsmith.stages.finalizer import finalize
    from warpsmith.stages.optimizer import optimize
    from warpsmith.stages.profiler import profile

    return {RunState.PROFILE: profile, RunState.OPTIMIZE: optimize, RunState.FINALIZE: finalize}
