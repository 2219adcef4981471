"""All that runs or compiles a kernel. The parent process speaks to it through `worker.protocol` alone."""
