"""The gate that a variant passes before it is timed."""
