"""What settings alone win on Liger-Kernel's kernels, beside what experts and what an exhaustive search found."""
