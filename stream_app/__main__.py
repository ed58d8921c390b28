"""`python -m stream_app` is `stream-app`."""

import sys

from stream_app.app.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
