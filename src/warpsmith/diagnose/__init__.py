"""From what was observed of a kernel to what holds it back and what to try. Pure."""
