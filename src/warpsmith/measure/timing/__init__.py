"""Times contenders on the device, and what else a call costs: host time, memory. Measures the GPU's ceilings."""
