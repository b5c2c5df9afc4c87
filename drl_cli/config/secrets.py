"""Values that look like secrets never reach a file: params.json, versions.json, a checkpoint's manifest."""

import re

SECRET = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)
SECRET_IN_TEXT = re.compile(
    r"""(["']?[\w.-]*(?:token|secret|passw|api_?key|credential)[\w-]*["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,}]+)""",
    re.IGNORECASE,
)
HIDDEN = "***"


def redact(data):
    """Return plain data with the value of every key that looks like a secret replaced by ``***``."""
    if isinstance(data, dict):
        return {key: HIDDEN if SECRET.search(str(key)) else redact(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [redact(item) for item in data]
    return data


def redact_command(arguments):
    """Return the words of a command line with values of secret-looking keys and options replaced by ``***``."""
    words, hide = [], False
    for word in arguments:
        words.append(HIDDEN if hide else SECRET_IN_TEXT.sub(rf"\g<1>{HIDDEN}", word))
        hide = not hide and word.startswith("-") and "=" not in word and bool(SECRET.search(word))
    return words
