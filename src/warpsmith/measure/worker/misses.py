"""Says in words why a recording has no answer to a question. Decides nothing, and asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from warpsmith.contracts.case import Case
from warpsmith.measure.worker.identity import PROTOCOL_VERSION, identity_of
from warpsmith.measure.worker.protocol import AnyQuestion

_SHOWN_DIFFERENCES = 4
_SHOWN_CHARACTERS = 40
_SHA256_CHARACTERS = 64
_ABSENT = object()


def protocol_of(record: Mapping[str, Any]) -> int | None:
    """The protocol version that a record was asked by; None where it can no longer be told.

    A record without it was written before it was stored, and its identity tells.
    """
    if (stated := record.get("protocol")) is not None:
        return int(stated)
    versions = range(PROTOCOL_VERSION, 0, -1)
    return next((v for v in versions if identity_of(record["question"], v) == record["identity"]), None)


def why_missing(question: AnyQuestion, records: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """What the recording lacks and what is most like it, and the command that mends it."""
    recorded = list(records)
    asked = ", ".join(f"{key}={value}" for key, value in asked_for(question.portable()).items())
    told = f"the recording has no answer to {question.kind!r}" + (f" ({asked})" if asked else "")
    versions = {protocol_of(record) for record in recorded}
    if recorded and PROTOCOL_VERSION not in versions:
        made = ", ".join(sorted("an unknown one" if version is None else str(version) for version in versions))
        return (
            f"{told}: it was made by protocol {made} of the worker, this is protocol {PROTOCOL_VERSION}, and no "
            "question is the same in both; it has to be recorded anew, on a GPU",
            f"warpsmith record {_kernel(recorded)}",
        )
    return (
        f"{told}{_nearest(question, recorded)}: it holds what its run asked, so a run with another goal, another "
        "target or another source needs a GPU",
        "warpsmith doctor",
    )


def asked_for(question: Mapping[str, Any]) -> dict[str, str]:
    """What tells a question from others of its kind, shortly."""
    told: dict[str, str] = {}
    if case := question.get("case"):
        told["case"] = _case_name(case)
    if mode := question.get("mode"):
        told["mode"] = mode
    if modes := question.get("modes"):
        told["modes"] = "+".join(modes)
    for name in ("source", "candidate"):
        if source := question.get(name):
            told[name] = source["sha256"][:12]
    if contenders := question.get("contenders"):
        told["contenders"] = "+".join(contender["name"] for contender in contenders)
    return told


def _case_name(case: Mapping[str, Any]) -> str:
    return Case.model_validate(case).name


def _nearest(question: AnyQuestion, recorded: Iterable[Mapping[str, Any]]) -> str:
    """What the recorded question of the same kind that is most like this one has otherwise."""
    wanted = dict(_leaves(question.portable()))
    nearest: list[str] | None = None
    best: tuple[bool, bool, int] | None = None
    for record in recorded:
        if record["kind"] != question.kind:
            continue
        found = dict(_leaves(record["question"]))
        names = [name for name in {**wanted, **found} if wanted.get(name, _ABSENT) != found.get(name, _ABSENT)]
        tops = {name.partition(".")[0] for name in names}
        score = ("case" in tops, bool(tops & {"mode", "modes"}), len(names))
        if best is None or score < best:
            best, nearest = score, [_difference(name, found, wanted) for name in names]
    if nearest is None:
        return ", nor to any other question of that kind"
    more = len(nearest) - _SHOWN_DIFFERENCES
    shown = ", ".join(nearest[:_SHOWN_DIFFERENCES]) + (f" and {more} more" if more > 0 else "")
    return f"; the nearest that it has differs in {shown}"


def _difference(name: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    there, here = (_short(values.get(name, _ABSENT)) for values in (found, wanted))
    return name if there is None or here is None else f"{name} ({there} there, {here} here)"


def _short(value: object) -> str | None:
    """A value in a few characters; None where it takes more."""
    if value is _ABSENT:
        return "none"
    text = str(value)
    if isinstance(value, str) and len(value) == _SHA256_CHARACTERS:
        return text[:12]
    return text if len(text) <= _SHOWN_CHARACTERS else None


def _leaves(value: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """What is asked, field by field; contenders by their names."""
    for key, each in value.items():
        if key == "contenders":
            each = {contender["name"]: contender for contender in each}
        if isinstance(each, Mapping) and each:
            yield from _leaves(each, f"{within}{key}.")
        else:
            yield f"{within}{key}", each


def _kernel(recorded: Iterable[Mapping[str, Any]]) -> str:
    names = (record["answer"].get("name") for record in recorded if record["kind"] == "describe")
    return next((name for name in names if isinstance(name, str)), "KERNEL")
