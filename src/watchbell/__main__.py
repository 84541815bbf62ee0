"""`python -m watchbell` is the program `watchbell`."""

import sys

from watchbell.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
