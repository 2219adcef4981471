"""What leaves Triton's autotuner one config to choose from, for a source whose knobs are set from outside.

The tuner stays where it is, with its key, its hooks and `best_config`: of one config it measures nothing. The code
is plain Python of the tunable source, for Triton 3.6 to 3.9. Must not know which values are tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from warpsmith.contracts.measurement import SETTINGS_NAME
from warpsmith.source.configs import configs_of
from warpsmith.source.editing import Edits
from warpsmith.source.sites import Site
from warpsmith.source.syntax import Source

CLASS = "_OneConfig"

#: A config's hook runs after the tuner has chosen and before the launch, so the pruning is asked there: of one config
#: the tuner itself asks nothing, and a config that it would drop may compute something else.
CODE = f'''
class {CLASS}(list):
    """The configs; while a setting is given to one of `knobs`, the nearest of them with the settings in its place."""

    def __init__(self, configs, knobs, prune_configs_by=None):
        super().__init__(configs)
        self.knobs, self.made = knobs, {{}}
        self.prune = (prune_configs_by or {{}}).get("early_config_prune")

    def now(self):
        given = {{name: {SETTINGS_NAME}[knob] for name, knob in self.knobs.items() if knob in {SETTINGS_NAME}}}
        if not given:
            return list(super().__iter__())
        key = tuple(given.items())
        if key not in self.made:
            self.made[key] = [self.nearest(given)]
        return self.made[key]

    def nearest(self, given):
        def apart(config):
            values = config.all_kwargs()
            pairs = [(values.get(name) or value, value) for name, value in given.items()]
            return sum((max(pair) + 1) / (min(pair) + 1) for pair in pairs)

        config = min(super().__iter__(), key=apart)
        one = object.__new__(type(config))
        vars(one).update(vars(config), kwargs=dict(config.kwargs))
        for name, value in given.items():
            if name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
                setattr(one, name, value)
            else:
                one.kwargs[name] = value
        if self.prune is not None:
            one.pre_hook = self.checked(one, config.pre_hook)
        return one

    def checked(self, one, pre_hook):
        def hook(arguments):
            plain = {{name: value for name, value in arguments.items() if name not in one.all_kwargs()}}
            code = getattr(self.prune, "__code__", None)
            takes = code.co_varnames[2 : code.co_argcount + code.co_kwonlyargcount] if code else ()
            named = plain if code is None or code.co_flags & 8 else {{n: plain[n] for n in takes if n in plain}}
            kept = self.prune([one], plain, **named)
            if not any(each.all_kwargs() == one.all_kwargs() for each in kept):
                raise ValueError(f"prune_configs_by drops {{one}}")
            if pre_hook is not None:
                pre_hook(arguments)

        return hook

    def __len__(self):
        return len(self.now())

    def __iter__(self):
        return iter(self.now())

    def __getitem__(self, index):
        return self.now()[index]
'''


def leave_one_config(edits: Edits, source: Source, found: Iterable[Site]) -> None:
    """Wraps the configs of each jit function among these sites, which are set by configs."""
    knobs: dict[str, dict[str, str]] = {}
    decorators: dict[str, ast.Call] = {}
    for site in found:
        jit = site.launch.jit
        assert jit is not None and jit.autotune is not None
        knobs.setdefault(jit.name, {})[site.name] = site.id
        decorators[jit.name] = jit.autotune
    for name, decorator in decorators.items():
        configs = configs_of(source, decorator)
        assert configs is not None
        ids = ", ".join(f'"{knob}": "{knob_id}"' for knob, knob_id in sorted(knobs[name].items()))
        prune = f", {edits.text(configs.prune)}" if configs.prune is not None else ""
        edits.replace(configs.expression, f"{CLASS}({edits.text(configs.expression)}, {{{ids}}}{prune})")
    if decorators:
        edits.after_imports.append(CODE)
