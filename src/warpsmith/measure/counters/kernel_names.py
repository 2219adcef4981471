"""The name of a GPU function as a person would say it. Pure, and free of torch: pages may ask.

Names come demangled by ncu and by CUPTI, which differ in how they write numbers, pointers and lambdas.
"""

from __future__ import annotations

import re

#: Where a function of no name of its own lives, by CUPTI and by ncu.
_NAMELESS = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
#: The function, with its namespaces: what stands before template arguments or parameters. "Memset (Device)" is none.
_FUNCTION = re.compile(r"(?P<name>[A-Za-z_][\w:]*)(?=[<(])")
#: What an elementwise or reducing kernel of torch computes, with its type where there is one: FillFunctor<float>.
_FUNCTOR = re.compile(r"\w*[Ff]unctor\w*(?:<[\w:]+>)?")
#: The function of torch that launches it, but for the one that launches all: silu_kernel.
_LAUNCHER = re.compile(r"\b(?!gpu_kernel)\w+_kernel\w*")
_TYPE = re.compile(r"(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*")
#: Words of C++ itself, which tell no kernel from another.
_PLAIN = re.compile(
    r"bool|char|class|const|double|enum|false|float|half|int|long|short|signed|struct|true|unsigned|T[0-9]*"
)


def short_name(kernel: str) -> str:
    """`vectorized_elementwise_kernel<FillFunctor<float>>` of the demangled name that runs to 200 characters.

    Of template arguments the one that tells what is computed stays, or the first type; namespaces and parameters go. A
    name that is short already, as Triton's are, or no function's, as "Memset (Device)", stays what it is.
    """
    text = _NAMELESS.sub("", kernel)
    function = _FUNCTION.search(text)
    if function is None:
        return kernel
    base, arguments = _bare(function["name"]), _template_arguments(text[function.end() :])
    told = _what_is_computed(arguments)
    return f"{base}<{told}>" if told else base


def _template_arguments(text: str) -> str:
    """What is between the angle brackets that the text begins with; nothing if it begins with none."""
    depth = 0
    for end, (before, character) in enumerate(zip(" " + text, text, strict=False)):
        depth += (character == "<") - (character == ">" and before != "-")
        if depth == 0:
            return text[1:end]
    return text[1:] if depth else ""


def _what_is_computed(arguments: str) -> str | None:
    """The innermost functor, as one may wrap another; else who launches; else the first type."""
    if functors := list(_FUNCTOR.finditer(arguments)):
        name, bracket, of = functors[-1][0].partition("<")
        return f"{name}{bracket}{_bare(of)}"
    if (launcher := _LAUNCHER.search(arguments)) is not None:
        return launcher[0]
    types = (_bare(found) for found in _TYPE.findall(arguments))
    return next((each for each in types if not _PLAIN.fullmatch(each)), None)


def _bare(name: str) -> str:
    return name.rpartition("::")[2]
