"""Facts of GPUs that need no CUDA: architecture and limits by compute capability, which GPUs are here, their clocks."""
