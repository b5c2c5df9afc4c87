"""Looks for boxes of complaint in pages that are built: Sphinx and its theme put some there without failing.

Used by ``docs/conf.py`` after every build of HTML, which ends with an error where there is one.
"""

import re
from pathlib import Path

KNOWN = {
    "what docutils could not read": r'class="[^"]*\bsystem-message\b',
    "a reference or role that could not be resolved": r'class="[^"]*\bproblematic\b',
    # The theme has a table of contents beside each page, and paints an error over another one.
    "a table of contents inside the page": r'class="contents\b(?![^"]*this-will-duplicate-information)',
}


def complaints(html: str) -> list[str]:
    """Return what is wrong with the text of one HTML page: a list of reasons."""
    return [reason for reason, pattern in KNOWN.items() if re.search(pattern, html)]


def in_folder(folder: str | Path) -> list[str]:
    """Return a line for each page below ``folder`` that shows an error."""
    pages = sorted(Path(folder).rglob("*.html"))
    found = [(page, complaints(page.read_text(encoding="utf-8"))) for page in pages]
    return [
        f"{page.relative_to(folder)} shows an error box: {', '.join(reasons)}" for page, reasons in found if reasons
    ]
