"""How Sphinx builds these pages: ``make docs``. Needs no network, and neither TensorFlow nor Ray."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import make_reference  # noqa: E402 - stands beside this file

from drl_cli import __version__  # noqa: E402

make_reference.write(HERE / "reference")

project = "drl"
release = version = __version__
html_title = f"drl {__version__}"
html_theme = "furo"
html_show_copyright = False
exclude_patterns = []
nitpicky = True  # a name that points nowhere is an error
smartquotes = False  # "--config" stays two hyphens
