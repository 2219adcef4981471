"""The worker process: `python -m warpsmith.measure`, spoken to over its standard input and output."""

from warpsmith.measure.handlers import handlers
from warpsmith.measure.worker.serve import serve

if __name__ == "__main__":
    serve(handlers())
