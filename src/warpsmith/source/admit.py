"""The drop-in check: may a candidate stand in the original's place, as far as its syntax tree tells.

A first gate, cheap and static; what a tree cannot show (caching outputs, other streams by a back door) is for
the gates that run the candidate. What the original does already, the candidate may do.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from warpsmith.contracts.errors import PreflightError
from warpsmith.source.interface import Finding, changed_interface
from warpsmith.source.launches import Reading, read
from warpsmith.source.syntax import Source, last_name, name_of

#: Libraries that any variant may import.
ALLOWED_LIBRARIES = frozenset({"torch", "triton", "math", "functools", "__future__", "typing", "collections"})
#: Built-in names that reach files, run text, or change what other code sees.
FORBIDDEN_NAMES = frozenset(
    {"eval", "exec", "open", "compile", "__import__", "__builtins__", "globals", "setattr", "delattr", "vars", "input",
     "breakpoint", "getattr"}
)  # fmt: skip
_HARMLESS_DUNDERS = frozenset({"__name__", "__init__", "__all__", "__class__", "__doc__", "__version__", "__wrapped__"})
#: Prefixes of torch that do the kernel's work, reach files, or leave the stream that is measured.
_FORBIDDEN_TORCH = (
    "torch.nn.functional.", "torch.ops.", "torch.linalg.", "torch.compile", "torch.jit.", "torch.hub.", "torch.load",
    "torch.save", "torch.utils.", "torch.multiprocessing.", "torch._C.", "torch._inductor.", "torch._dynamo.",
    "torch.backends.", "torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream", "torch.cuda.CUDAGraph",
    "torch.cuda.graph", "torch.cuda.Event", "torch.cuda.synchronize", "torch.cuda.is_current_stream_capturing",
    "torch.use_deterministic_algorithms", "torch.set_", "triton.testing.", "triton.runtime.", "triton.knobs.",
)  # fmt: skip
#: Products of matrices by a library, as functions of torch or methods of a tensor.
_PRODUCTS = frozenset(
    {"matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "einsum", "linear", "tensordot", "inner", "mv", "addmv",
     "dot", "chain_matmul", "scaled_dot_product_attention", "_scaled_mm", "_int_mm", "__matmul__"}
)  # fmt: skip


def admit(original: str, candidate: str) -> tuple[str, ...]:
    """The reasons to refuse a candidate, each with its line; none if it is admitted. Raises PreflightError where the
    original is no Python."""
    before = read(original)
    try:
        after = read(candidate)
    except PreflightError as error:
        return (error.message,)
    findings = [
        *changed_interface(before, after),
        *_new_imports(before.source, after.source),
        *_new(before, after, _forbidden_names),
        *_new(before, after, _forbidden_attributes),
        *_new(before, after, _products),
        *_new(before, after, _patches),
        *_new(before, after, _guarded_launches),
    ]
    return tuple(dict.fromkeys(f"line {line}: {what}" for line, what in sorted(findings)))


def _new(before: Reading, after: Reading, find: Callable[[Reading], Iterator[Finding]]) -> list[Finding]:
    """What the candidate does and the original does not, by what is said of it."""
    known = {what for _, what in find(before)}
    return [finding for finding in find(after) if finding[1] not in known]


def _new_imports(before: Source, after: Source) -> Iterator[Finding]:
    known = {module for _, module in _imported(before.tree)}
    libraries = {module.split(".")[0] for module in known if not module.startswith(".")} | ALLOWED_LIBRARIES
    for line, module in _imported(after.tree):
        if module not in known and (module.startswith(".") or module.split(".")[0] not in libraries):
            allowed = ", ".join(sorted(ALLOWED_LIBRARIES))
            yield line, f"imports {module}; allowed are {allowed} and what the original imports"


def _imported(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def _forbidden_names(reading: Reading) -> Iterator[Finding]:
    for node in ast.walk(reading.source.tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        dunder = name.startswith("__") and name.endswith("__") and name not in _HARMLESS_DUNDERS
        if dunder or (isinstance(node, ast.Name) and name in FORBIDDEN_NAMES):
            assert isinstance(node, ast.Name | ast.Attribute)
            yield node.lineno, f"uses {name}"


def _forbidden_attributes(reading: Reading) -> Iterator[Finding]:
    """Parts of torch and triton that a variant has no business with, and any use of os, sys and their like."""
    for line, name in _resolved(reading.source):
        outside = name.split(".")[0] not in ALLOWED_LIBRARIES
        if outside or any(name.startswith(prefix) for prefix in _FORBIDDEN_TORCH):
            yield line, f"uses {name}, which the original does not"


def _products(reading: Reading) -> Iterator[Finding]:
    kernels = {id(node) for jit in reading.jits.values() for node in ast.walk(jit.node)}
    for line, name in _resolved(reading.source):
        if name.startswith("torch.") and name.rpartition(".")[2] in _PRODUCTS:
            yield line, f"calls {name}, a library's matrix product, which the original does not"
    for node in ast.walk(reading.source.tree):
        if id(node) in kernels:
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "multiplies matrices by @ outside a kernel, which the original does not"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PRODUCTS:
            yield node.lineno, f"calls .{node.func.attr}(), a library's matrix product, which the original does not"


def _patches(reading: Reading) -> Iterator[Finding]:
    """Assignments to attributes or items of what was imported."""
    imported = _aliases(reading.source.tree)
    for node in ast.walk(reading.source.tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            root: ast.expr = target
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if root is not target and isinstance(root, ast.Name) and root.id in imported:
                yield target.lineno, f"changes {ast.unparse(target)}, which belongs to another module"


def _guarded_launches(reading: Reading) -> Iterator[Finding]:
    """`try` around a launch, or around a call of a function of the file: a place to fall back to other code."""
    own = {n.name for n in ast.walk(reading.source.tree) if isinstance(n, ast.FunctionDef)}
    launches = {id(launch.call) for launch in reading.launches}
    for node in ast.walk(reading.source.tree):
        if not (isinstance(node, ast.Try) and node.handlers):
            continue
        inside = [n for statement in node.body for n in ast.walk(statement) if isinstance(n, ast.Call)]
        if any(id(n) in launches or last_name(n.func) in own or last_name(n.func) == "apply" for n in inside):
            host = name_of(reading.source.scope_of(node))
            yield node.lineno, f"wraps a launch in try and except in {host}"


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Local names of imports -> what they stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    return found


def _resolved(source: Source) -> Iterator[Finding]:
    """Every dotted name that starts at an import, in full: `F.linear` is torch.nn.functional.linear."""
    aliases = _aliases(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(source.parents.get(node), ast.Attribute):
            parts: list[str] = []
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                parts.insert(0, inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id in aliases:
                yield node.lineno, ".".join([aliases[inner.id], *parts])
