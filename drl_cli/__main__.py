"""``python -m drl_cli``: the same program as the ``drl`` command."""

import sys

from drl_cli.cli import entry

if __name__ == "__main__":
    sys.exit(entry())
