"""The space of settings, pruning, sweeping, and the strategies that propose variants."""
