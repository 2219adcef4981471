"""How the library compares with others: figures, page and plot of what `benchmark/library.py` measured."""
