"""``python -m drl_cli``: the same program as the ``drl`` command."""

import sys

from drl_cli.cli import main

if __name__ == "__main__":
    sys.exit(main())
