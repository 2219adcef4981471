"""Ways out of what names tell: attributes of any object, changes to other modules, fall-backs, Python's own hooks.

Every rule yields what it sees in one source; `admit` leaves out what the original does too. A rule must not know
which of the two sources it is given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from warpsmith.source.allowed import is_allowed, is_member
from warpsmith.source.interface import Finding
from warpsmith.source.lifetimes import PLAIN_ATTRIBUTES, own_functions
from warpsmith.source.names import BUILTINS, attribute_read_by_name
from warpsmith.source.syntax import FunctionNode, name_of
from warpsmith.source.uses import Code


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HARMLESS_DUNDERS = _words("__name__ __init__ __all__ __class__ __doc__ __version__ __debug__ __post_init__ __len__")
#: Hooks of Python that a class may define; others run where nobody sees a call, or decide what equals what.
_HARMLESS_METHODS = _HARMLESS_DUNDERS | _words("__call__ __repr__ __str__ __iter__ __getitem__ __contains__ __slots__")
#: Attributes that lead from an object to frames, code, streams, storages, hooks, or to what was cached of it.
_ESCAPES = _words("""
    f_back f_globals f_locals f_builtins f_code tb_frame tb_next gi_frame gi_code gi_yieldfrom cr_frame cr_code ag_frame
    func_globals func_code mro fn cache_info cache_clear cache_parameters untyped_storage storage _typed_storage
    _storage set_ resize_ resize_as_ share_memory_ numpy tolist __array__ register_hook register_full_backward_hook
    register_post_accumulate_grad_hook register_forward_hook register_forward_pre_hook record_stream wait_stream
    wait_event cuda_stream elapsed_time _version _backward_hooks _base as_subclass _make_subclass pre_run_hooks
    add_pre_run_hook get_capture_scope warmup preload _do_compile next_functions register_prehook
    device_caches used_global_vals create_binder _unsafe_update_src gr_frame with_traceback _value2member_map_ rename_
    refine_names""")
#: Attributes of objects of torch's and Triton's own that say what was done with them before: a kernel's hash is there
#: once it was launched, a context manager knows the state that it found, an autograd context what was saved last.
_REMEMBERED = _words("""
    hash _hash cache_key nargs bench_time configs_timings best_config prev prev_idx to_save saved_for_forward
    dirty_tensors non_differentiable""")
_PRODUCTS = _words("""
    matmul mm bmm addmm baddbmm addbmm einsum linear tensordot inner mv addmv addr outer ger dot vdot chain_matmul
    scaled_dot_product_attention _scaled_mm _int_mm conv1d conv2d conv3d conv_transpose1d conv_transpose2d""")
#: Methods of a tensor that do what a kernel is written for.
_LIBRARY_WORK = _words("""
    softmax log_softmax logsumexp logcumsumexp layer_norm group_norm batch_norm rms_norm norm renorm var std var_mean
    std_mean prod cumsum cumprod cummax cummin exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal pow erf
    erfc sin cos tanh sigmoid logit relu relu6 gelu silu mish softplus hardswish cross_entropy nll_loss kl_div dropout
    lerp addcmul addcdiv clamp clamp_min clamp_max topk argsort kthvalue median mode gather scatter scatter_add
    scatter_reduce index_add index_copy index_put index_select index_reduce masked_fill masked_scatter embedding
    cdist fft interpolate roll histc bincount""")
#: Of these, names that a configuration has too: only a call of them is a tensor's.
_ALSO_FIELDS = _words("mode norm median linear dot inner outer embedding dropout roll prod var std log pow clamp")
#: `try` with `except*` is there from Python 3.11 on.
_TRIES: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
_DUNDER = re.compile(r"__[a-zA-Z]\w*__")
#: `{0.attribute}` in a format string.
_FORMAT_ATTRIBUTE = re.compile(r"\{[^{}:!]*\.")


def attributes(code: Code) -> Iterator[Finding]:
    """Attributes of any object that lead out of the kernel's own code."""
    for node, attribute in _attributes(code):
        dunder = _DUNDER.fullmatch(attribute) and attribute not in _HARMLESS_DUNDERS
        if dunder or (attribute in _ESCAPES and node not in code.in_kernels):
            yield node.lineno, f"uses {attribute}, which leads to what is not the kernel's own"
        elif attribute in _REMEMBERED and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield (
                node.lineno,
                f"reads {attribute}, which tells what was done before this call",
            )
    for each in ast.walk(code.tree):
        if isinstance(each, ast.Name) and _DUNDER.fullmatch(each.id) and each.id not in _HARMLESS_DUNDERS:
            yield each.lineno, f"uses {each.id}, which leads to what is not the kernel's own"


def _attributes(code: Code) -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute):
            yield node, node.attr
        elif isinstance(node, ast.Call) and (read := attribute_read_by_name(node)) is not None:
            yield node, read[1]
        elif isinstance(node, ast.MatchClass):
            yield from ((node.cls, attribute) for attribute in node.kwd_attrs)


def _is_judged_by_name(code: Code, node: ast.expr) -> bool:
    """Whether it is read from a module, whose members are judged by their full names."""
    origins = code.names.origins(node)
    certain = bool(origins) and code.names.is_certain(node)
    return certain and all(is_member(origin) or not is_allowed(origin) for origin in origins)


def library_work(code: Code) -> Iterator[Finding]:
    """Methods and operators of tensors that do a kernel's work, outside kernels."""
    for node, attribute in _attributes(code):
        if node in code.in_kernels or _is_judged_by_name(code, node):
            continue
        name = attribute.removesuffix("_")
        called = isinstance(node, ast.Call) or getattr(code.parent(node), "func", None) is node
        if not called and (name in _ALSO_FIELDS or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)):
            continue
        if name in _PRODUCTS:
            yield node.lineno, f"calls .{attribute}(), a library's matrix product, which the original does not"
        elif name in _LIBRARY_WORK:
            yield node.lineno, f"calls .{attribute}(), a library's work, which the original does not; do it in a kernel"
    for each in ast.walk(code.tree):
        if isinstance(each, ast.BinOp | ast.AugAssign) and isinstance(each.op, ast.MatMult):
            if each in code.in_kernels:
                continue
            yield each.lineno, "multiplies matrices by @ outside a kernel, which the original does not"


def strings(code: Code) -> Iterator[Finding]:
    """Strings through which `format` reads attributes."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("format", "format_map"):
            text = node.value.value if isinstance(node.value, ast.Constant) else None
            if not isinstance(text, str):
                yield node.lineno, f"calls .{node.attr} of what is no literal; use an f-string"
            elif _FORMAT_ATTRIBUTE.search(text) or "__" in text:
                yield node.lineno, "reads attributes through a format string; use an f-string"


def reading_by_name(code: Code) -> Iterator[Finding]:
    """`getattr` with a name that is made at run time, `type` that makes a class, and either of them passed on."""
    for node, paths in code.mentions:
        parent = code.parent(node)
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        if f"{BUILTINS}.getattr" in paths and not (call and attribute_read_by_name(call)):
            yield node.lineno, "uses getattr with a name that is not written there; name the attribute"
        if f"{BUILTINS}.type" in paths and call and (len(call.args) != 1 or call.keywords):
            yield node.lineno, "makes a class by type(); write a class statement"
        elif f"{BUILTINS}.type" in paths and not (call or isinstance(parent, ast.Compare) or _annotates(code, node)):
            yield node.lineno, "hands type on as a value, which may make a class; write a class statement"


def _annotates(code: Code, node: ast.AST) -> bool:
    """Whether it stands in an annotation, or a subscript of one such as type[X]."""
    for parent in code.reading.source.ancestors(node):
        if isinstance(parent, ast.arg | ast.AnnAssign | FunctionNode):
            inside = parent.returns if isinstance(parent, FunctionNode) else parent.annotation
            return inside is not None and any(each is node for each in ast.walk(inside))
    return False


def patches(code: Code) -> Iterator[Finding]:
    """Assignments to attributes or items of what was imported, by whatever name."""
    for node in ast.walk(code.tree):
        if not isinstance(node, ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Load):
            continue
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if code.names.origins(root):
            yield node.lineno, f"changes {_in_full(code, node)}, which belongs to another module"


def _in_full(code: Code, node: ast.Attribute | ast.Subscript) -> str:
    """`torch.cuda.synchronize` for an attribute, by whatever name it is reached; else as it is written."""
    if isinstance(node, ast.Attribute) and (origins := code.names.origins(node)):
        return sorted(origins)[0]
    return ast.unparse(node)


def hooks(code: Code) -> Iterator[Finding]:
    """Classes and methods that Python or torch calls by itself."""
    for node in ast.walk(code.tree):
        if isinstance(node, FunctionNode) and _DUNDER.fullmatch(node.name) and node.name not in _HARMLESS_METHODS:
            yield node.lineno, f"defines {node.name}, which runs where no call is to be seen"
        elif isinstance(node, ast.ClassDef):
            if node.keywords:
                yield node.lineno, f"gives the class {node.name} keywords, such as a metaclass"
            if any(_is_tensor(origin) for base in node.bases for origin in code.names.origins(base)):
                yield node.lineno, f"makes {node.name} a kind of tensor; the original's outputs are plain tensors"
        elif isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            yield node.lineno, "suspends a function by yield or await; what it holds outlives the call"


def _is_tensor(origin: str) -> bool:
    return origin.endswith("Tensor") or origin.endswith(".Parameter")


def guarded_launches(code: Code) -> Iterator[Finding]:
    """`try` around anything but imports and questions to libraries: a place to fall back to other code."""
    for node in ast.walk(code.tree):
        if not isinstance(node, _TRIES):
            continue
        inside = [each for statement in node.body for each in ast.walk(statement)]
        leaving = (ast.Return, ast.Break, ast.Continue)
        traps = node.handlers or any(isinstance(n, leaving) for last in node.finalbody for n in ast.walk(last))
        if traps and any(_may_launch(code, each) for each in inside):
            yield node.lineno, f"wraps a launch in try and except in {name_of(code.reading.source.scope_of(node))}"


def _may_launch(code: Code, node: ast.AST) -> bool:
    """Whether it is a call of what is no library's, names a function that a library could call, or reads an item or
    attribute of an object of the source's, which may run its code or fail where a key is missing."""
    if isinstance(node, ast.Call):
        return not code.names.origins(node.func)
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Load):
        return not _is_of_a_library(code, node)
    if isinstance(node, ast.Name):
        return any(isinstance(each.node, FunctionNode | ast.ClassDef) for each in code.names.bindings_of(node)[0])
    return isinstance(node, ast.Lambda)


def _is_of_a_library(code: Code, node: ast.expr) -> bool:
    """Whether it is read of what an import gives, or is a fact of a tensor such as `x.device` and `x.shape[0]`."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute) and node.attr in PLAIN_ATTRIBUTES - own_functions(code):
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return bool(code.names.origins(node))


def allocators(code: Code) -> Iterator[Finding]:
    """What is given to triton.set_allocator, which runs at launches: it may allocate and do nothing else."""
    for node in ast.walk(code.tree):
        if not (isinstance(node, ast.Call) and "triton.set_allocator" in code.names.origins(node.func)):
            continue
        if not (len(node.args) == 1 and not node.keywords and _only_allocates(code, node.args[0])):
            yield node.lineno, "sets an allocator that does more than return torch.empty(...)"
    for mention, paths in code.mentions:
        parent = code.parent(mention)
        called = isinstance(parent, ast.Call) and parent.func is mention
        if "triton.set_allocator" in paths and not called:
            yield mention.lineno, "hands triton.set_allocator on; call it with a function that returns torch.empty(...)"


def _only_allocates(code: Code, allocator: ast.expr) -> bool:
    bodies: list[ast.expr | None] = []
    if isinstance(allocator, ast.Lambda):
        bodies = [allocator.body]
    elif isinstance(allocator, ast.Name):
        for binding in code.names.bindings_of(allocator)[0]:
            bodies.append(_returned(binding.node))
    return bool(bodies) and all(
        isinstance(body, ast.Call) and code.names.origins(body.func) == {"torch.empty"} for body in bodies
    )


def _returned(node: ast.AST) -> ast.expr | None:
    """What a function returns that does nothing else but say what it is for."""
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return None
    *before, last = node.body
    plain = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in before)
    return last.value if plain and isinstance(last, ast.Return) else None
