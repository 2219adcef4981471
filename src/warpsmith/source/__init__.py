"""Reads and rewrites kernel source, text in and text out: audits, tunable copies, settings tables, rewrites, admission.

Reads with `ast`, writes with libcst, so comments and layout stay. No torch, no files: nothing here runs a kernel.
"""
