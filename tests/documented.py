"""README.rst and docs/*.rst taken apart: their code blocks, the commands in them, the literals in their text.

A comment in front of a block says what a test cannot see::

    .. not run: needs a display          the commands of the block are only parsed; the reason stands in the source
    .. file: my_env.py                   the block is a file of that name, which later commands of the page use
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"\.\. (not run|file): +(\S.*)")
DIRECTIVE = re.compile(r"( *)\.\. code-block::(?: +(\S+))?$")
LITERAL = re.compile(r"``(.+?)``", re.DOTALL)
INNER = re.compile(r"\$\((drl [^)]*)\)")


class Block(NamedTuple):
    """A code block; ``language`` "" behind a paragraph that ends with ``::``; ``reason`` and ``file``: its marks, or ""."""

    line: int
    language: str
    text: str
    reason: str
    file: str


def pages():
    """Return the paths of all pages that people wrote, the README first."""
    generated = ROOT / "docs" / "reference"
    return [ROOT / "README.rst", *sorted(p for p in (ROOT / "docs").rglob("*.rst") if generated not in p.parents)]


def name_of(path):
    """Return how a page is called in a test's name."""
    return str(path.relative_to(ROOT))


def blocks(text):
    """Return the Blocks of a page in their order."""
    lines, found, marks, number = text.splitlines(), [], {}, 0
    while number < len(lines):
        line = lines[number]
        mark, directive = MARK.match(line.strip()), DIRECTIVE.match(line)
        paragraph = line.rstrip().endswith("::") and not line.lstrip().startswith("..")
        if mark:
            marks[mark[1]] = mark[2]
        elif directive or paragraph:
            indent = len(line) - len(line.lstrip())
            body, number = _body(lines, number + 1, indent)
            language = (directive[2] or "") if directive else ""
            found.append(Block(number, language, body, marks.pop("not run", ""), marks.pop("file", "")))
            marks = {}
            continue
        elif line.strip():
            marks = {}
        number += 1
    return found


def _body(lines, number, indent):
    """Return (the indented text from line ``number`` on, the number of the line behind it)."""
    start = number
    while number < len(lines) and (
        not lines[number].strip() or len(lines[number]) - len(lines[number].lstrip()) > indent
    ):
        number += 1
    body = [line for line in lines[start:number] if not re.match(r" +:[a-z-]+:", line)]
    margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    return "\n".join(line[margin:] for line in body).strip("\n") + "\n", number


def typed_lines(text):
    """Return the lines of a block as they are typed, without prompts; a line that ends in a backslash goes on."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line.removeprefix("$ ") for line in joined.splitlines()]


def commands(text):
    """Return the ``drl`` commands of a block: (words behind ``drl``, file that stdout goes to or None)."""
    found = []
    for line in typed_lines(text):
        if line.startswith("drl "):
            found.append(split(line))
        found += [split(inner) for inner in INNER.findall(line)]
    return found


def split(line):
    """Return (words behind ``drl``, redirection) of the first command of a shell line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;>")
    lexer.whitespace_split = True
    words, target = [], None
    for token in lexer:
        if token == ">":
            target = next(lexer, None)
            break
        if token in ("|", "||", "&&", ";", "&"):
            break
        words.append(token)
    return words[1:], target


def literals(text):
    """Return the inline literals of a page, line breaks taken out; what stands in code blocks is left out."""
    for block in blocks(text):
        for line in block.text.splitlines():
            text = text.replace(line, "", 1) if "``" in line else text
    return [" ".join(found.split()) for found in LITERAL.findall(text)]
