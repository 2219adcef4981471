"""What warpsmith by itself makes of Liger-Kernel's kernels, held against what was asked before it was tried."""
