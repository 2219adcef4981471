"""Hardware counters by ncu, where it can run."""
