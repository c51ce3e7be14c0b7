"""`python -m hubbub` is the command `hubbub`."""

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109, pathlib is slow to load
        # `-m` puts the working folder first, which may not be trusted: a file there with the name of a library
        # would be imported instead of it, and packs in it would count as installed.
        del sys.path[0]
    from hubbub.cli.main import main

    sys.exit(main())
