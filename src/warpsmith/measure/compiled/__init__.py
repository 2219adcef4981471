"""What a kernel compiles to, and with which settings it is launched."""
