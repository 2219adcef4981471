"""Finds the Liger-Kernel that is installed and puts its files where a project's sources lie. Imports none of it."""

from __future__ import annotations

import importlib.util
import shutil
from importlib.metadata import version
from pathlib import Path

#: As Python imports it, and as it is installed.
PACKAGE, DISTRIBUTION = "liger_kernel", "liger-kernel"
#: Target and kernel alike: `targets.TARGETS` has them by these names.
KERNELS = (
    "liger_rms_norm",
    "liger_rms_norm_in_place",
    "liger_layer_norm",
    "liger_softmax",
    "liger_geglu",
    "liger_swiglu",
    "liger_cross_entropy",
)
MISSING = "Liger-Kernel is not installed; pip install liger-kernel"


def installed_folder() -> Path | None:
    """The package's folder, None where Python would not find it."""
    spec = importlib.util.find_spec(PACKAGE)
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


def copy_installed(root: Path) -> None:
    """The package's Python files, byte for byte, at a project's root. Raises FileNotFoundError where there is none."""
    folder = installed_folder()
    if folder is None:
        raise FileNotFoundError(MISSING)
    only_python = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")
    shutil.copytree(folder, root / PACKAGE, ignore=only_python)


def told() -> str:
    """Name and version."""
    return f"{DISTRIBUTION} {version(DISTRIBUTION)}"
