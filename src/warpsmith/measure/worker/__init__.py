"""Worker processes: the protocol, spawning, loading sources by path, and the recorded worker."""
