"""What a variant may name beyond what its original names: the parts of torch, Triton and the standard library.

An allow-list, so that what nobody thought of is refused. Pure tables and look-ups: must not know of syntax trees.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.source.names import BUILTINS

#: The libraries that any variant may import.
LIBRARIES = ("torch", "triton", "math", "functools", "itertools", "typing", "collections", "contextlib", "dataclasses",
             "enum", "types", "__future__")  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DTYPES = _words("""
    dtype bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 short int long half float double float16 bfloat16
    float32 float64 complex32 complex64 complex128 cfloat cdouble float8_e4m3fn float8_e4m3fnuz float8_e5m2
    float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2""")
_TENSORS = _words(
    "Tensor FloatTensor HalfTensor BFloat16Tensor DoubleTensor LongTensor IntTensor BoolTensor ByteTensor"
)
_CONSTRUCTORS = _words("""
    empty empty_like empty_strided empty_permuted zeros zeros_like ones ones_like full full_like arange tensor as_tensor
    scalar_tensor""")
_VIEWS_AND_COPIES = _words("""
    as_strided reshape flatten unflatten ravel squeeze unsqueeze transpose permute movedim t narrow chunk split unbind
    select stack cat concat broadcast_to broadcast_tensors broadcast_shapes clone view_as_real view_as_complex""")
#: For partial results of programs; what a kernel is for is not among them.
_REDUCTIONS = _words("sum mean amax amin any all")
_FACTS = _words("""
    device Size memory_format contiguous_format channels_last channels_last_3d preserve_format layout strided finfo
    iinfo inf nan pi e is_tensor is_floating_point is_complex numel result_type promote_types can_cast get_default_dtype
    is_grad_enabled is_inference_mode_enabled is_autocast_enabled get_autocast_dtype get_autocast_gpu_dtype
    are_deterministic_algorithms_enabled no_grad enable_grad SymInt SymFloat SymBool __version__""")
_AUTOCAST = _words("custom_fwd custom_bwd")

#: What may be read of a module. A module that is in no entry may not be named at all.
_MEMBERS: Mapping[str, frozenset[str]] = {
    BUILTINS: _words("""
        abs all any bool callable classmethod complex dict divmod enumerate filter float frozenset getattr hasattr int
        isinstance issubclass iter len list map max min next object pow property range repr reversed round set slice
        sorted staticmethod str sum super tuple type zip NotImplemented Ellipsis __debug__ __name__ __doc__
        ArithmeticError AssertionError AttributeError BaseException Exception ImportError IndexError KeyError
        LookupError ModuleNotFoundError NotImplementedError OverflowError RuntimeError StopIteration TypeError
        ValueError Warning DeprecationWarning RuntimeWarning UserWarning ZeroDivisionError"""),
    "torch": _DTYPES | _TENSORS | _CONSTRUCTORS | _VIEWS_AND_COPIES | _REDUCTIONS | _FACTS,
    "torch.version": _words("cuda hip"),
    "torch.types": _words("Device Number"),
    "torch.nn": _words("Module Parameter"),
    "torch.nn.parameter": _words("Parameter"),
    "torch.autograd": _words("Function"),
    "torch.autograd.function": _words("Function FunctionCtx once_differentiable"),
    "torch.amp": _AUTOCAST,
    "torch.amp.autocast_mode": _AUTOCAST,
    "torch.cuda": _words("""
        get_device_properties get_device_capability get_device_name current_device device device_of device_count
        is_available is_bf16_supported"""),
    "torch.cuda.amp": _AUTOCAST,
    "triton": _words("jit heuristics cdiv next_power_of_2 reinterpret set_allocator constexpr_function __version__"),
    "triton.tools": frozenset(),
    "triton.tools.tensor_descriptor": _words("TensorDescriptor"),
    "triton.experimental": frozenset(),
    "triton.experimental.gluon": _words("jit constexpr_function"),
    "triton.experimental.gluon.nvidia": frozenset(),
    "triton.experimental.gluon.nvidia.hopper": _words("TensorDescriptor"),
    "triton.language.extra": frozenset(),
    "triton.language.target_info": _words("current_target is_cuda cuda_capability_geq"),
    "functools": _words("cache lru_cache partial wraps reduce"),
    "typing": _words("""
        Any AnyStr Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List Literal Mapping NamedTuple
        NewType NoReturn Optional ParamSpec Protocol Sequence Set Tuple Type TypedDict TypeAlias TypeVar Union Annotated
        TYPE_CHECKING cast overload final"""),
    "collections": _words("ChainMap Counter OrderedDict deque namedtuple"),
    "collections.abc": _words("""
        Callable Collection Container Hashable Iterable Iterator Mapping MutableMapping MutableSequence Sequence Set
        Sized"""),
    "contextlib": _words("nullcontext"),
    "dataclasses": _words("dataclass field fields replace astuple asdict KW_ONLY"),
    "enum": _words("Enum IntEnum StrEnum auto unique"),
    "types": _words("MappingProxyType SimpleNamespace NoneType"),
}  # fmt: skip
#: Modules of which all is allowed but private names and these.
_ALL_BUT: Mapping[str, frozenset[str]] = {
    "math": frozenset(),
    "itertools": frozenset(),
    "__future__": frozenset(),
    "triton.language": _words("""
        core random semantic standard tl ir device_print static_print inline_asm_elementwise map_elementwise"""),
    "triton.language.math": _words("core wraps"),
    "triton.language.extra.cuda": _words("globaltimer utils gdc"),
    "triton.language.extra.libdevice": _words("core"),
    "triton.language.extra.cuda.libdevice": _words("core"),
    "triton.experimental.gluon.language": _words("amd device_print static_print inline_asm_elementwise"),
    "triton.experimental.gluon.language.nvidia": frozenset(),
    "triton.experimental.gluon.language.nvidia.hopper": frozenset(),
    "triton.experimental.gluon.language.nvidia.blackwell": _words("gluon_ir ir ttgl"),
}  # fmt: skip
#: Modules that no module that is open may lead to, whatever a later version keeps in it.
_NEVER = _words("""
    os sys builtins inspect importlib subprocess ctypes pathlib threading warnings knobs runtime types re core""")

#: Torch's functions that make a tensor.
TENSOR_MAKERS = frozenset(f"torch.{name}" for name in _CONSTRUCTORS | _VIEWS_AND_COPIES | _REDUCTIONS)

_NO_PRINTING = "which prints from every program; take it out before the kernel is measured"
#: What to do instead of what is refused.
_INSTEAD: Mapping[str, str] = {
    "triton.autotune": "settings must be fixed to be measured: give the launch its values, or a table of them",
    "triton.Config": "settings must be fixed to be measured: give the launch its values, or a table of them",
    "triton.language.inline_asm_elementwise": "what it does cannot be read: write it in Triton's own operations",
    "triton.language.device_print": _NO_PRINTING,
    "triton.language.static_print": _NO_PRINTING,
    "torch.compile": "write what it would compile as a Triton kernel",
    "torch.cuda.is_current_stream_capturing": "a variant does the same whether it is captured into a graph or not",
    "torch.compiler": "a variant does the same whether it is compiled by torch or not",
    "torch.library": "register only what the original registers",
    "torch.utils.cpp_extension": "a variant is Triton and Python alone",
    "triton.runtime": "ask torch.cuda.get_device_properties for the GPU's facts",
    "triton.knobs": "settings of Triton itself are not the kernel's",
    "triton.testing": "a variant measures nothing",
    "builtins.print": "take it out before the kernel is measured",
    "builtins.id": "what depends on an object's identity is a cache by another name",
    "builtins.hash": "what depends on an object's identity is a cache by another name",
    "collections.defaultdict": "what is read of it stays in it, and counts calls; use a dict",
    "enum.Flag": "it remembers every value that was asked for; use Enum or numbers",
    "enum.IntFlag": "it remembers every value that was asked for; use Enum or numbers",
}
_OF_TORCH = (
    "of torch a variant may use dtypes, constructors, views, copies, autograd.Function, custom_fwd and custom_bwd, the "
    "device's properties and sums of partial results; the work belongs in a Triton kernel"
)
_OF_TRITON = "of triton a variant may use jit, heuristics, cdiv, next_power_of_2, set_allocator and triton.language"


def is_module(path: str) -> bool:
    """Whether a dotted name is a module of which something is allowed."""
    return path != BUILTINS and (path in _MEMBERS or path in _ALL_BUT)


def is_allowed(path: str) -> bool:
    """Whether any variant may name it. Attributes of what a module gives away are for others to judge."""
    if is_module(path):
        return True
    module, member, further = _split(path)
    if any(part in _NEVER or (part.startswith("_") and not part.startswith("__")) for part in further):
        return False
    if module in _ALL_BUT:
        return not member.startswith("_") and member not in _ALL_BUT[module] | _NEVER
    return member in _MEMBERS.get(module, ())


def is_member(path: str) -> bool:
    """Whether the last part of a dotted name is read from a module itself and not from what it gives away."""
    module, _, further = _split(path)
    return module != "" and not further


def instead(path: str) -> str:
    """What a variant may do where a name is refused."""
    for named, advice in _INSTEAD.items():
        if path == named or path.startswith(named + "."):
            return advice
    root = path.lstrip(".").split(".")[0]
    if path.startswith("torch."):
        return _OF_TORCH
    if path.startswith("triton."):
        return _OF_TRITON
    if root in LIBRARIES and f"{root}." in path:
        return f"of {root} a variant may use {', '.join(sorted(_MEMBERS.get(root, ())))}"
    if root == BUILTINS:
        return "a variant reaches no file, no other code and no state of Python"
    return "name only what the original names of it"


def _split(path: str) -> tuple[str, str, list[str]]:
    """The innermost known module of a dotted name, what is read from it, and what is read from that."""
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:count])
        if module in _MEMBERS or module in _ALL_BUT:
            return module, parts[count], parts[count + 1 :]
    return "", parts[0], parts[1:]
