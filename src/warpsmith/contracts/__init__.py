"""The nouns of the pipeline: frozen models that are the only thing rooms hand to each other. No torch, no IO."""
