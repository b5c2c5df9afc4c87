"""How a search compares and chooses: ``--scheduler`` with its config, and ``--search``. Used by ``experiments.search_spec``."""

import importlib.util
import math

from drl_cli.config import search_space
from drl_cli.config.assignments import parse_object
from drl_cli.config.origins import Where
from drl_cli.config.parse import read_section
from drl_cli.config.result_names import NUMBER_FIELDS
from drl_cli.config.sections import schedulers
from drl_cli.errors import suggestion

SEARCHES = {"grid": None, "random": None, "tpe": "tpe"}


def scheduler(wishes):
    """Return (name, section of its keys, problems) of ``scheduler`` and ``scheduler_config``; FIFO where they are wrong."""
    typed, problems = wishes.get("scheduler") or "FIFO", []
    name = schedulers.canonical(typed)
    if name is None:
        known = ", ".join(schedulers.SECTIONS)
        hint = suggestion(typed, [*schedulers.SECTIONS, "ASHA", "PBT", "MedianStopping"])
        problems.append(f"--scheduler: {typed[:60]!r} is no scheduler.{hint} There are {known}.")
        return "FIFO", schedulers.FIFOKeys(), problems
    given, where = {}, Where("--scheduler-config")
    if wishes.get("scheduler_config") is not None:
        given, where = parse_object(wishes["scheduler_config"], "--scheduler-config")
    section, problems = read_section(schedulers.SECTIONS[name], given, where, lambda path: _other(path, name))
    for key, field in schedulers.unknown_fields(section) if section else ():
        hint = suggestion(field, NUMBER_FIELDS)
        problems.append(f"{key}: unknown result field {field[:100]!r} ({where.place((key,))}).{hint}")
    if name == "AsyncHyperBand" and section and section.grace_period > section.max_t:
        problems.append(f"grace_period: {section.grace_period} is beyond max_t {section.max_t} (--scheduler-config).")
    if name == "HyperBand" and section:
        problems += _too_short(section)
    return name, section or schedulers.SECTIONS[name](), problems


def _too_short(section):
    """Return why HyperBand's largest bracket cannot begin: Tune would look for its first rung for ever."""
    eta, most = section.reduction_factor, section.max_t
    halvings = round(math.log(most) / math.log(eta))
    if int(most * eta**-halvings) >= 1:
        return []
    fits = f"{math.ceil(eta**halvings)} or {int(eta ** (halvings - 1))}"
    return [
        f"max_t: {most} with a reduction_factor of {eta:g} leaves no whole first rung. Take {fits} (--scheduler-config)."
    ]


def algorithm(wishes):
    """Return (None or "tpe", problems) of ``search``."""
    typed = wishes.get("search") or "grid"
    if typed.lower() in SEARCHES:
        return SEARCHES[typed.lower()], []
    hint = suggestion(typed, SEARCHES)
    return None, [f"--search: {typed[:60]!r} is no search.{hint} There are {', '.join(SEARCHES)}."]


def misfits(name, experiments, scheduler_name):
    """Return why the search algorithm ``name`` cannot choose points for these experiments (``Searched``)."""
    one = experiments[0]
    drawn = {key: sampler for key, sampler in one.samplers.items() if sampler.kind != search_space.GRID}
    unfit = next((key for key, sampler in drawn.items() if sampler.kind.endswith("randn")), None)
    if importlib.util.find_spec("optuna") is None:
        return [f"--search {name} needs Optuna, which is not installed. Run: pip install 'drl-cli[optuna]'"]
    if len(experiments) > 1:
        return [f"--search {name}: one experiment at a time."]
    if scheduler_name == "PopulationBasedTraining":
        return [f"--search {name}: PBT changes values by itself. Leave one of them out."]
    if len(drawn) < len(one.samplers):
        grid = next(key for key in one.samplers if key not in drawn)
        return [f"--search {name}: {grid} is a grid, which tries all values. Write it as {{choice: […]}}."]
    if not drawn:
        return [f"--search {name}: no value to search over. Write, say, -s 'lr={{loguniform: [1e-5, 1e-2]}}'."]
    if unfit:
        return [f"--search {name}: {unfit}: normal values are not among its distributions. Take uniform."]
    if one.num_samples < 2:
        return [f"--search {name}: how many trials? Type --num-samples 20."]
    return []


def _other(path, name):
    """Return why a key of another scheduler is refused, or None."""
    owners = [other for other, section in schedulers.SECTIONS.items() if path[-1] in section.model_fields]
    if path[-1] == "custom_explore_fn":
        return "holds code, which is not run"
    return f"a key of {', '.join(owners)}, not of {name}" if owners else None
