"""What imports bind: the same reading serves scopes, launches, kernels and rewrites."""

from __future__ import annotations

import ast

import pytest
from source.row_kernels import NAMED_POINTERS

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.source.imports import bound_by, imports, name_of_import, paths_by_name
from warpsmith.source.rewrites import NotApplicable
from warpsmith.source.rewrites.switches import language_name
from warpsmith.source.scan import scan

KERNEL = "\n\n@jit\ndef _kernel(x_ptr):\n    pass\n"


@pytest.mark.parametrize(
    ("statement", "bound"),
    [
        ("import torch", [("torch", "torch", "torch", "torch")]),
        ("import torch.nn", [("torch", "torch", "torch.nn", "torch")]),
        ("import torch.nn.functional as F", [("F", "torch.nn.functional", "torch.nn.functional", "torch")]),
        ("import math, os.path as p", [("math", "math", "math", "math"), ("p", "os.path", "os.path", "os")]),
        ("from triton import language as tl", [("tl", "triton.language", "triton.language", "triton")]),
        ("from triton.language import *", [("*", "triton.language.*", "triton.language.*", "triton")]),
        ("from . import ops", [("ops", ".ops", ".ops", "")]),
        ("from ..triton import jit as j", [("j", "..triton.jit", "..triton.jit", "")]),
        ("x = 1", []),
    ],
)
def test_each_name_of_an_import_is_bound_to_what_it_is_in_full(
    statement: str, bound: list[tuple[str, str, str, str]]
) -> None:
    (node,) = ast.parse(statement).body
    assert [(each.name, each.path, each.imported, each.package) for each in bound_by(node)] == bound


def test_imports_of_functions_and_branches_are_found_and_every_meaning_of_a_name_is_kept() -> None:
    tree = ast.parse(
        "try:\n    from fast import cdiv\nexcept ImportError:\n    from triton import cdiv\n"
        "def host():\n    import triton as tr\n"
    )

    assert sorted(each.path for each in imports(tree)) == ["fast.cdiv", "triton", "triton.cdiv"]
    assert paths_by_name(tree) == {"cdiv": {"fast.cdiv", "triton.cdiv"}, "tr": {"triton"}}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import triton.language as tl", "tl"),
        ("from triton import language", "language"),
        ("if True:\n    import triton.language as t2\nimport triton.language as tl", "tl"),
        ("try:\n    import triton.language as tl\nexcept ImportError:\n    tl = None", "tl"),
        ("import triton.language", None),
        ("from .triton import language", None),
        ("def host():\n    import triton.language as tl", None),
    ],
)
def test_a_library_goes_by_a_name_of_the_module_that_stands_for_it(source: str, name: str | None) -> None:
    tree = ast.parse(source)

    assert name_of_import(tree, "triton.language") == name
    if name is None:
        with pytest.raises(NotApplicable, match=r"does not import triton\.language by a name"):
            language_name(tree)
    else:
        assert language_name(tree) == name


@pytest.mark.parametrize(("module", "found"), [("triton", 1), ("triton.runtime.jit", 1), (".triton", 0), ("numba", 0)])
def test_a_decorator_is_triton_s_where_it_is_imported_from_there(module: str, found: int) -> None:
    assert len(scan(f"from {module} import jit{KERNEL}").jit_functions) == found


@pytest.mark.parametrize(
    ("library", "found"),
    [
        ("from triton.language.extra import libdevice", 1),
        ("from .triton.language.extra import libdevice", 0),
        (
            "try:\n    from own import libdevice\nexcept ImportError:\n    from triton.language.extra import libdevice",
            0,
        ),
    ],
)
def test_only_what_is_triton_s_in_every_case_counts_as_its_mathematics(library: str, found: int) -> None:
    source = NAMED_POINTERS.replace("tl.exp(", "libdevice.exp(").replace("import torch\n", f"import torch\n{library}\n")
    assert source.count("libdevice.exp(") == 1

    places = [o for o in scan(source).opportunities if o.kind is OpportunityKind.ROW_A_PROGRAM]
    assert len(places) == found
