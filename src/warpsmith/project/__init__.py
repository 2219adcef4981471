"""The user's repository: its configuration, targets, tests, style and git; and the one place that changes its files."""
