"""`python -m hubbub` is the command `hubbub`."""

import sys

from hubbub.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
