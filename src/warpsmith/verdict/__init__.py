"""What the samples say: statistics, guardrails, decision. Pure."""
