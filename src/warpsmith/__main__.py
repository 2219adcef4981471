"""`python -m warpsmith`: the command line where the script is not on the path."""

from warpsmith.cli import main

if __name__ == "__main__":
    main()
