"""Tuning: a search through the settings of a kernel, and what it found at each case."""
