"""`python -m lsbench` is the command line."""

from lsbench.cli import main

if __name__ == "__main__":
    main()
