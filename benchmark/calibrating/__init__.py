"""The calibration kernel, its target, and what is made of its timings."""
