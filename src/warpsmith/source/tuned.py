"""Knobs that Triton's autotuner sets, through its configs: the tuner stays, and is left one config to choose from."""

from __future__ import annotations

import ast

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.configs import CONFIG_OPTIONS, Configs, configs_of, why_not_added_to
from warpsmith.source.launches import Launch
from warpsmith.source.places import Place, Spot
from warpsmith.source.sites import Site, refused_site
from warpsmith.source.syntax import Source


def configs_at(source: Source, launch: Launch) -> Configs | None:
    """The configs of the launch's kernel, None where no decorator tunes it."""
    if launch.jit is None or launch.jit.autotune is None:
        return None
    return configs_of(source, launch.jit.autotune)


def set_by_configs(source: Source, launch: Launch, name: str, kind: KnobKind) -> Site:
    """A knob of a tuned kernel that the launch does not give, or gives although the configs do."""
    assert launch.jit is not None and launch.jit.autotune is not None
    decorator = launch.jit.autotune
    line = decorator.lineno
    told = (KnobOrigin.AUTOTUNE, "autotune", line)
    if not launch.jit.tuned_by_triton:
        tuner = ast.unparse(decorator.func)
        why = f"the autotune decorator in line {line} sets it, {tuner}, which is not Triton's own"
        return refused_site(launch, name, kind, told, why)
    configs = configs_of(source, decorator)
    if configs is None:
        return refused_site(launch, name, kind, told, f"the autotune decorator in line {line} names no configs")
    if (unseen := why_not_added_to(configs, line)) is not None:
        return refused_site(launch, name, kind, told, unseen)
    if (given := launch.argument(name)) is not None:
        why = f"line {given.lineno} gives it, and so do the configs in line {line}: Triton refuses a name given twice"
        return refused_site(launch, name, kind, told, why)
    listed = configs.listed.get(name, ())
    text = f"autotune: {', '.join(map(str, listed))}" if listed else "autotune"
    origin = KnobOrigin.AUTOTUNE if listed or name != "maxnreg" else KnobOrigin.ABSENT
    spot = Spot(Place.CONFIGS, line, reads=(configs.expression,))
    return Site(launch, name, kind, origin, text, line, spot, listed=listed)


def is_set_by_configs(configs: Configs | None, launch: Launch, name: str) -> bool:
    """Whether the configs give the kernel's argument, or must, since nothing else does."""
    if configs is None:
        return launch.jit is not None and launch.jit.autotune is not None and launch.argument(name) is None
    if configs.are_read:
        return name in configs.listed
    return launch.argument(name) is None


def further_names(configs: Configs | None, launch: Launch) -> list[str]:
    """Whole numbers that the configs give the kernel: whoever lists them there says that any is right."""
    if configs is None or launch.jit is None:
        return []
    names = [name for name in launch.jit.parameters if name in configs.listed and name not in CONFIG_OPTIONS]
    return [name for name in names if name not in configs.others]
