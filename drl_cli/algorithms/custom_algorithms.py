"""``register_algorithm``: rows of plug-ins beside those of the table, so that ``--run`` and everything else take them too.

A plug-in brings what a row names: the schema of the keys, the nets as plain data, what happens to experience before it is
learnt from, the graph of the update, and the loop. Each may be a dotted name of a module of ``drl_cli`` or of one's own, or
the object itself. Used by ``drl_cli`` (the public face), modules of ``--import`` and plug-ins.
"""

import re
from importlib.util import find_spec

from drl_cli import plugins
from drl_cli.algorithms import table
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, LOOPS, POSTPROCESS, Algorithm
from drl_cli.config.schema import Section
from drl_cli.errors import InputError, suggestion

__all__ = ["Algorithm", "register_algorithm"]

_NAME = re.compile(r"[A-Za-z]\w{0,59}")


def register_algorithm(row: Algorithm) -> Algorithm:
    """Let ``--run`` take the algorithm of ``row``, an ``Algorithm``; returns the row as it is kept.

    ``loop`` is one of ``row.LOOPS``, which ``runtime.loops`` has (``learner`` and ``worker`` are those that fit unless the row
    says otherwise), or a module or object with ``make`` as these have. ``postprocess`` is a
    name of ``row.POSTPROCESS``; or, in the loops sync and stream, a function of a batch of trajectories {column: array
    [E, T, …]} (see ``experience.trajectories``) and the config that returns columns to be added, which the graph may then name.
    ``graph`` is a module with ``build``, or that function: it gets (config, spec, initial, seed, scope), and returns a
    ``tf1.graph.BatchGraph`` for sync, stream and (with ``steps``) decentralized, a ``LearnerGraph`` for replay. ``nets`` has
    ``policy_spec(config, spaces)``, ``initial_weights(config, spec, seed)`` and ``target_updates(config, updates)``.

    Raises InputError for a row that cannot work, and for a name that belongs to an algorithm of the table.
    """
    if not isinstance(row, Algorithm):
        raise InputError(f"register_algorithm: an Algorithm is registered, not {str(row)[:60]!r}.")
    if isinstance(row.loop, str) and not {".", ":"} & set(row.loop) and row.loop not in LOOPS:
        raise InputError(
            f"register_algorithm: {row.name}: there is no loop {row.loop[:60]!r}; there are {', '.join(LOOPS)}."
            f"{suggestion(row.loop, LOOPS)} One of your own is a module with make: loop='package.module'."
        )
    found = [text for check in (_name, _config, _nets, _postprocess, _spaces) if (text := check(row))]
    if found:
        raise InputError(f"register_algorithm: {row.name}: {'; '.join(found)}.")
    row = row._replace(graph=_graph_of_family(row.graph))
    plugins.ALGORITHMS.add(row.name, row)
    return row


def _graph_of_family(graph: object) -> object:
    """Return ``graph``, for the module of one of our families the one beside it, where graphs stood in earlier versions."""
    is_ours = isinstance(graph, str) and graph.startswith(f"{__package__}.") and not graph.endswith("_graph")
    return f"{graph}_graph" if is_ours and find_spec(f"{graph}_graph") else graph


def _name(row: Algorithm) -> str | None:
    if not isinstance(row.name, str) or not _NAME.fullmatch(row.name):
        return f"{str(row.name)[:60]!r} is no name: letters, digits and _, at most 60"
    if any(table.spelt(own) == table.spelt(row.name) for own in table.ROWS):
        return "a built-in algorithm has that name; choose another one"
    return None


def _config(row: Algorithm) -> str | None:
    if isinstance(row.config, str) or (isinstance(row.config, type) and issubclass(row.config, Section)):
        return None
    return "config is not a class of keys (a subclass of drl_cli.config.schema.Section), nor the dotted name of one"


def _nets(row: Algorithm) -> str | None:
    lacks = [name for name in ("policy_spec", "initial_weights", "target_updates") if not hasattr(row.nets, name)]
    if lacks and not isinstance(row.nets, str):
        return f"nets lacks {', '.join(lacks)}"
    graph = getattr(row.graph, "Update", getattr(row.graph, "build", row.graph))
    if not isinstance(graph, str) and not callable(graph):
        return "graph is neither a function that builds a graph nor a module with build"
    if not isinstance(row.loop, str) and not hasattr(row.loop, "make"):
        return "loop has no function make"
    return None


def _postprocess(row: Algorithm) -> str | None:
    if isinstance(row.postprocess, str) and row.postprocess in POSTPROCESS:
        return None
    if not callable(row.postprocess):
        known = ", ".join(POSTPROCESS)
        return f"postprocess {str(row.postprocess)[:60]!r} is none of {known}, nor a function of a batch"
    if isinstance(row.loop, str) and table.loop_name(row) in ("replay", "gradients", "decentralized", "evolution"):
        return "a custom postprocess takes batches of trajectories, which only the loops sync and stream provide"
    return None


def _spaces(row: Algorithm) -> str | None:
    for name, given, known in (
        ("actions", row.actions, ALL_ACTIONS),
        ("observations", row.observations, ALL_OBSERVATIONS),
    ):
        if isinstance(given, str) or not given or not set(given) <= set(known):
            return f"{name} {given!r} is not a tuple of {', '.join(known)}"
    return None
