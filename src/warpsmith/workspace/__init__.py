"""Everything under optimization/<kernel>/: where it lies, how a kill leaves it whole, who holds it."""
