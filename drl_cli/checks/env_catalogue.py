"""The registered environments, their spaces, and the algorithms that support them. Used by ``drl envs``.

Environments are made in another process (``checks.env_probe``). If one crashes it or hangs, that environment is reported as
broken and a new process continues with the next.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drl_cli.checks.subprocess_probe import SILENT, SubprocessProbe
from drl_cli.envs import make
from drl_cli.errors import EnvError, nearest

PROBE = "drl_cli.checks.env_probe"
LIMIT_S = 20.0  # for one environment to be made
_VERSION = re.compile(r"-v(\d+)$")


def matching(pattern: str | None = None, every_version: bool = False) -> tuple[list[str], list[str]]:
    """Return (ids, notices) for a part of an id, a pattern of the shell's, an old id, or None for all that are no Atari games.

    ids: of each name the newest version unless ``every_version``. notices: lines on what an old id became, and what is left
    out. Raises EnvError with the nearest ids where nothing fits.
    """
    plain = (pattern or "").strip()
    ids = make.registered_ids(with_games=bool(plain))
    if not plain:
        shown = [one for one in ids if not make.is_game(one)]
        games = len(ids) - len(shown)
        return _newest(shown, every_version), [f"{games} Atari games are not listed: drl envs ALE/"] if games else []
    if plain in ids:
        return [plain], []
    if set(plain) & set("*?["):
        return _fitting(plain, ids, every_version), []
    found = [one for one in ids if plain.casefold() in one.casefold()] if _VERSION.search(plain) is None else []
    if found:
        return _newest(found, every_version), []
    try:
        meant = make.resolve(plain)
    except EnvError as error:
        close = nearest(plain, ids)
        if not close or "?" in str(error) or "pip" in str(error):
            raise
        hint = f"Did you mean {' or '.join(map(repr, close))}?"
        raise EnvError(f"There is no environment {plain[:120]!r}. {hint}") from error
    return [meant.id], [meant.notice] if meant.notice else []


def _fitting(pattern: str, ids: Sequence[str], every_version: bool) -> list[str]:
    found = [one for one in ids if fnmatch.fnmatchcase(one.casefold(), pattern.casefold())]
    if found:
        return _newest(found, every_version)
    close = nearest(pattern.translate(dict.fromkeys(map(ord, "*?[]"))), ids)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise EnvError(f"No environment id matches {pattern[:120]!r}.{hint}")


def _newest(ids: Sequence[str], every_version: bool) -> list[str]:
    """Return ``ids`` in order, of each name without its version the one with the highest."""
    if every_version:
        return sorted(ids, key=str.casefold)
    best = {}
    for one in ids:
        name, version = _VERSION.sub("", one), _VERSION.search(one)
        number = int(version[1]) if version else -1
        if name not in best or number > best[name][0]:
            best[name] = (number, one)
    return sorted((one for _, one in best.values()), key=str.casefold)


def looked_at(
    ids: Sequence[str],
    imports: Sequence[str] = (),
    env_config: Mapping[str, Any] | None = None,
    limit_s: float = LIMIT_S,
) -> Iterator[dict[str, Any]]:
    """Yield for each of ``ids`` what ``checks.env_probe`` says of it; {"id", "error"} for one that crashed or hung."""
    waiting = list(ids)
    while waiting:
        with SubprocessProbe(
            PROBE, {"ids": waiting, "imports": list(imports), "env_config": env_config or {}}
        ) as probe:
            while waiting:
                answer, problem = probe.next(limit_s)
                if answer is None:
                    hung = f"could not be made within {limit_s:.0f} s"
                    text = hung if problem == SILENT else f"crashed its process: {probe.end()}"
                    yield {"id": waiting.pop(0), "error": text}
                    break
                waiting.remove(answer["id"])
                yield answer
