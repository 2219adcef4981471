"""Liger-Kernel's own kernels as targets, unchanged: what an optimizer meets that was not written beside it.

Nothing of Liger's is in this repository. `installed.copy_installed` puts the package that is installed, or found on
PYTHONPATH, into a scratch project, since a target's source lies below its project's root. `targets.TARGETS` has the
targets.
"""
