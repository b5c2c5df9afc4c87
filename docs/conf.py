"""How Sphinx builds these pages: ``make docs``. Needs no network, and neither TensorFlow nor Ray."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import error_boxes  # noqa: E402 - stands beside this file
import make_architecture  # noqa: E402
import make_reference  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.errors import SphinxError  # noqa: E402

from drl_cli import __version__  # noqa: E402

make_reference.write(HERE / "reference")
make_architecture.write(HERE / "reference")

project = "drl"
release = version = __version__
html_title = f"drl {__version__}"
html_theme = "furo"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["drl.css"]
exclude_patterns = []
nitpicky = True  # a name that points nowhere is an error
highlight_language = "text"  # blocks that do not name their language are mostly typed commands
smartquotes = False  # "--config" stays two hyphens


def look_at_pages(app: Sphinx, failure: Exception | None) -> None:
    """End the build with an error where a page shows one."""
    found = error_boxes.in_folder(app.outdir) if failure is None and app.builder.format == "html" else []
    if found:
        raise SphinxError("\n".join(found))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", look_at_pages)
