"""Loads what a question is about, and watches that it leaves the process as it was.

The target, the original and the baselines are loaded before anything is taken down: what they change is nobody's
fault. Owns that order, and that a process which is no longer what it was answers nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from warpsmith.contracts.measurement import ORIGINAL, Contender
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness.bystanders import blamed
from warpsmith.measure.correctness.surroundings import Surroundings
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation, load_target
from warpsmith.measure.worker.protocol import Question, WorkerError
from warpsmith.measure.worker.serve import retire


@dataclass(frozen=True)
class Contenders:
    """What could be loaded, in the order in which it was named, and why the rest could not."""

    target: Target
    implementations: list[Implementation]
    unloaded: dict[str, str]
    surroundings: Surroundings

    def failures(self) -> dict[str, str]:
        """Those that could not be loaded, and those that have changed what they must leave alone."""
        return {**self.unloaded, **blamed(self.surroundings.changes(), self.implementations)}


@contextmanager
def unchanged(surroundings: Surroundings) -> Iterator[Surroundings]:
    """Retires this process if something is not as it was when the block ends."""
    try:
        yield surroundings
    finally:
        if changes := surroundings.changes():
            retire(changes[0].message)


@contextmanager
def contenders_of(question: Question, contenders: Sequence[Contender]) -> Iterator[Contenders]:
    """The contenders, loaded, and watched until the block ends."""
    target = load_target(question.target.path)
    loaded: dict[str, Implementation] = {}
    unloaded: dict[str, str] = {}

    def load(each: Contender) -> None:
        try:
            loaded[each.name] = load_implementation(target, each, question.target.root)
        except WorkerError as error:
            unloaded[each.name] = error.failure.in_a_line

    trusted = [each for each in contenders if each.source is None or each.name == ORIGINAL]
    for each in trusted:
        load(each)
    files = [question.target.path, *(each.source.path for each in trusted if each.source is not None)]
    with unchanged(Surroundings.taken(files)) as surroundings:
        for each in contenders:
            if each not in trusted:
                load(each)
        implementations = [loaded[each.name] for each in contenders if each.name in loaded]
        yield Contenders(target, implementations, unloaded, surroundings)
