"""What every contract has in common. Knows nothing of torch, files or clocks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _below_the_root(path: str) -> str:
    parts = set(path.split("/"))
    if path.startswith("/") or parts <= {"", "."} or ".." in parts or "\0" in path:
        raise ValueError(f"expected a path below the repository's root, found {path!r}")
    return path


#: A file of the repository, relative to its root, with forward slashes.
RepositoryPath = Annotated[str, AfterValidator(_below_the_root)]

#: Values of knobs by knob id, such as {"_rms_norm_backward_kernel.num_warps": 8}.
Settings = dict[str, int]


class Contract(BaseModel):
    """A noun of the pipeline: immutable, closed (unknown keys are errors), finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Document(Contract):
    """A contract that is a file of its own. A newer schema_version is refused, never guessed at."""

    schema_version: Literal[1] = 1
