"""Where host code waits for the GPU on the way to a launch. Must not know how long."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.call_paths import CallPaths
from warpsmith.source.syntax import Source, dotted, walk_scope

#: Methods that hand values of a tensor to the host.
_VALUES = frozenset({"item", "tolist", "cpu", "numpy"})
#: What has as many results as the data say, so that the host waits to know their number.
_SIZES = frozenset({"nonzero", "masked_select", "unique", "argwhere"})
#: Reductions of a tensor whose result Python turns into a truth value or a number.
_REDUCTIONS = frozenset({"any", "all", "sum", "max", "min", "amax", "amin", "mean", "norm", "count_nonzero", "prod"})
_COMPARISONS = frozenset({"torch.equal", "torch.allclose"})
_NUMBERS = frozenset({"int", "float", "bool"})
#: Modules whose functions of these names work on the host.
_HOST_MODULES = frozenset({"math", "np", "numpy", "os", "operator", "itertools", "functools", "triton"})


def host_waits(source: Source, paths: CallPaths) -> Iterator[Opportunity]:
    """One opportunity a line, in the functions that launch or that run on the way to a launch."""
    for function in paths.on_the_way():
        said: set[int] = set()
        for node in walk_scope(function):
            if isinstance(node, ast.Call) and node.lineno not in said and (how := _how(source, node)) is not None:
                said.add(node.lineno)
                yield Opportunity(
                    kind=OpportunityKind.HOST_SYNCHRONIZATION,
                    function=function.name,
                    line=node.lineno,
                    what=f"{_told(node)} {how}",
                    why="until then nothing further is launched, so the GPU runs dry, and the call cannot be captured "
                    "into a CUDA graph",
                )


def _how(source: Source, call: ast.Call) -> str | None:
    """How a call makes the host wait, None where it does not."""
    path = dotted(call.func) or ""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "synchronize":
        return "waits for the GPU"
    if path.partition(".")[0] in _HOST_MODULES or _is_in_a_message(source, call):
        return None
    if method in _VALUES and not call.args:
        return "copies values from the GPU and waits for them"
    if method == "to" and any(isinstance(a, ast.Constant) and a.value == "cpu" for a in _passed(call)):
        return "copies a tensor from the GPU and waits for it"
    if method in _SIZES:
        return "has a result whose size only the GPU knows, so the host waits for it"
    if path in _COMPARISONS:
        return "compares on the GPU and waits for the answer"
    if method in _REDUCTIONS and _decides(source, call) and not _is_of_the_host(call):
        return "is turned into a Python value, which waits for the GPU"
    return None


def _is_of_the_host(call: ast.Call) -> bool:
    """Whether a tensor is made from Python's numbers and not put on a device."""
    made = [each for each in ast.walk(call) if isinstance(each, ast.Call) and dotted(each.func) == "torch.tensor"]
    return bool(made) and all(keyword.arg != "device" for each in made for keyword in each.keywords)


def _passed(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _decides(source: Source, call: ast.Call) -> bool:
    """Whether Python asks for a tensor's value: as the test of an `if`, a `while` or an `assert`, or by int()."""
    child: ast.AST = call
    for parent in source.ancestors(call):
        if isinstance(parent, ast.If | ast.While | ast.Assert | ast.IfExp):
            return parent.test is child
        if isinstance(parent, ast.Call):
            return isinstance(parent.func, ast.Name) and parent.func.id in _NUMBERS
        if not isinstance(parent, ast.BoolOp | ast.UnaryOp | ast.BinOp | ast.Compare):
            return False
        child = parent
    return False


def _is_in_a_message(source: Source, call: ast.Call) -> bool:
    """Whether a call runs only where something is raised: in a message, or in a `raise`."""
    child: ast.AST = call
    for parent in source.ancestors(call):
        if isinstance(parent, ast.Raise) or (isinstance(parent, ast.Assert) and parent.msg is child):
            return True
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def _told(call: ast.Call) -> str:
    told = ast.unparse(call)
    return told if len(told) <= 80 else f"{told[:77]}..."
