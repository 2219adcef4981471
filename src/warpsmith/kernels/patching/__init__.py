"""Exchanges modules of a model for modules that call the library's kernels: patch, and unpatch to put them back."""

from __future__ import annotations

from warpsmith.kernels.patching.exchange import Exchanged, NotExchanged, PatchReport, patch, unpatch
from warpsmith.kernels.patching.matching import KERNELS

__all__ = ["KERNELS", "Exchanged", "NotExchanged", "PatchReport", "patch", "unpatch"]
