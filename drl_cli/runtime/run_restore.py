"""A run that goes on from a checkpoint: whether it fits, and how its parts come back to where they were.

Used by ``runtime.driver``, and ``check_fits`` by the Python Trainer. ``runtime.run_state`` writes what is read here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drl_cli import checkpoints, events
from drl_cli.algorithms.table import Algorithm
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.deterministic import has_blocks, is_deterministic, sources
from drl_cli.config.sections.offline import reads_only
from drl_cli.config.sections.served_input import is_served
from drl_cli.envs import carry_over, make
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.policy_choice import ODDS
from drl_cli.envs.preprocessors import frames_of, from_facts
from drl_cli.errors import CheckpointError, failure
from drl_cli.runtime.assembly import Parts, RunSetup
from drl_cli.runtime.replay_shards import Shards


def check_fits(row: Algorithm, config: CommonKeys, env: Mapping[str, Any], ckpt: checkpoints.Checkpoint) -> None:
    """Refuse a checkpoint of another algorithm, environment or spaces; CheckpointError shows both values."""
    facts = ckpt.require_facts()
    before = facts.get("config") or {}
    policies, own_policies = _spaces_by_policy(facts), _spaces_by_policy(env)
    for what, stored, own in (
        ("algorithm", facts["algorithm"], row.name),
        ("environment", facts["env"], env["id"]),
        ("frame stack", _frames(ckpt.path, facts), frames_of(env.get("preprocessing"))),
        # Older checkpoints do not have these keys.
        ("observation filter", before.get("observation_filter", "NoFilter"), config.observation_filter),
        ("reward scaling", before.get("reward_scaling", False), config.reward_scaling),
        ("list of policies", sorted(policies), sorted(own_policies)),
        *(
            found
            for name in sorted(set(policies) & set(own_policies))
            for found in _compared(policies[name], own_policies[name], f" of policy {name}" if name else "")
        ),
    ):
        if stored != own:
            raise CheckpointError(f"{ckpt.path}: its {what} is {stored!r}, this run's is {own!r}.")


def _frames(path: object, facts: Mapping[str, Any]) -> int:
    try:
        return frames_of(from_facts(facts.get("preprocessing")))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _spaces_by_policy(facts: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the spaces of each policy by its id; of a single agent by "", which no policy of several agents is called."""
    if not facts.get("agents"):
        return {"": facts["spaces"]}
    return {name: policy["spaces"] for name, policy in facts["agents"]["policies"].items()}


def _compared(stored: Mapping[str, Any], own: Mapping[str, Any], of: str) -> list[tuple[str, Any, Any]]:
    """Return (what, the checkpoint's, this run's) of what a policy depends on in its spaces."""
    obs, action, own_obs, own_action = stored["obs"], stored["action"], own["obs"], own["action"]
    return [
        (f"observation shape{of}", obs.get("shape"), list(own_obs["shape"])),
        (f"kind of actions{of}", action.get("kind"), own_action.get("kind")),
        (f"choices of an action{of}", action.get("nvec"), own_action.get("nvec")),
        (f"number of actions{of}", action.get("n"), own_action.get("n")),
        (f"action shape{of}", action.get("shape"), list(own_action["shape"])),
    ]


def _pairs(stored: Mapping[str, Any], own: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, stored, own) of each value that both have, mappings of both gone into."""
    for name in own.keys() & stored.keys():
        path, one, other = f"{above}{name}", stored[name], own[name]
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _pairs(one, other, f"{path}.")
        else:
            yield path, one, other


def shards_of(state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return what ``state.json`` keeps of each shard of the replay; in older checkpoints the only one is not in a list."""
    return [state["replay"]] if isinstance(state["replay"], dict) else state["replay"] or []


class Restore:
    """One checkpoint on its way into the parts of a run."""

    def __init__(self, ckpt: checkpoints.Checkpoint, exact: bool) -> None:
        """``exact``: the running episodes go on too, where the checkpoint holds them."""
        self._ckpt, self.is_exact = ckpt, exact
        self.state = ckpt.json("state")

    @contextlib.contextmanager
    def refusing_misfits(self) -> Iterator[None]:
        """Turn what a state of another form leads to into the CheckpointError that names the checkpoint."""
        try:
            yield
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            what = f"holds no state that this run can go on from ({failure(error).rstrip('.')})"
            raise CheckpointError(f"{self._ckpt.path}: {what}. Take an earlier checkpoint.") from error

    def check_form(self, fresh: Mapping[str, Any]) -> None:
        """Raise CheckpointError unless what is stored has the types of ``fresh``, the state of the run before it goes on."""
        if self.state["version"] < 1:  # workers would wait for the first version without end
            raise CheckpointError(
                f"{self._ckpt.path}: state.json: its weights have the version {self.state['version']}."
            )
        for path, stored, own in _pairs(self.state, fresh):
            kinds = (int, float) if isinstance(own, float) else type(own)
            is_other = not isinstance(stored, kinds) or (isinstance(stored, bool) and kinds is not bool)
            if own is not None and (is_other or (isinstance(stored, int) and abs(stored) >= 2**63)):
                text = f"state.json: {path} is {str(stored)[:40]!r}, and no {type(own).__name__}"
                raise CheckpointError(f"{self._ckpt.path}: {text}. Take an earlier checkpoint.")

    def takes_back_scored(self) -> bool:
        """Return whether weights were being scored, whose push is then made once more: their version is taken back."""
        is_busy = self.is_exact and bool(self.state["scoring"].get("is_busy"))
        self.state["version"] -= is_busy
        return is_busy

    def has_replay(self, replay: Shards | None) -> bool:
        """Return whether the replay goes on too: it is stored, in as many shards as this run has."""
        return replay is not None and self._ckpt.has("replay") and len(shards_of(self.state)) == len(replay.handles)

    def _goes_on(self, setup: RunSetup, parts: Parts) -> bool:
        """Whether the workers can go on in the middle of their episodes."""
        before, config = self._ckpt.facts.get("config") or {}, setup.config
        names = ("num_env_blocks" if has_blocks(config) else "num_workers", "num_envs_per_worker")
        same = all(before.get(name) == getattr(config, name) for name in names)
        same = same and bool(before.get("deterministic")) == is_deterministic(config)
        # Readers that go on where they stood do not bring again what a replay that was not stored held.
        held = self.has_replay(parts.replay) or not reads_only(config)
        return self.is_exact and self.state["exact"] and same and held

    def incarnations(self, setup: RunSetup, parts: Parts) -> dict[str, int]:
        """Return the incarnations to start the workers with.

        Workers that do not go on in the middle of their episodes are new incarnations, with environment seeds of their own.
        """
        passed = 0 if self._goes_on(setup, parts) else 1
        return {index: incarnation + passed for index, incarnation in self.state["incarnations"].items()}

    def load_parts(self, setup: RunSetup, parts: Parts) -> None:
        """Load learner, parameter server, replay and workers, which have been started."""
        ckpt, version = self._ckpt, self.state["version"]
        arrays = ckpt.arrays("weights", finite=True)
        acting = {
            policy: {name: arrays.get(f"{policy}/{name}") for name in spec.weight_names()}
            for policy, spec in setup.specs.items()
        }
        missing = [name for own in acting.values() for name, array in own.items() if array is None]
        if missing:
            raise CheckpointError(f"{ckpt.path}: weights are missing: {', '.join(missing)}.")
        negative = [name for name, array in arrays.items() if name.endswith("filter/var") and (array < 0).any()]
        if negative:
            raise CheckpointError(f"{ckpt.path}: {negative[0]} holds a variance below 0.")
        events.report("phase", text=f"restoring {ckpt.path.name}")
        odds = arrays.get(f"{ODDS}/odds")
        pushed = acting if odds is None else {**acting, ODDS: {"odds": odds}}
        parts.server.call("load", pushed, version).result()
        parts.learner.call("load", arrays, version).result()  # may put other weights there for workers to sample with
        if parts.replay is not None:
            self._load_replay(parts.replay)
        if self._goes_on(setup, parts):
            self._load_workers(setup, parts)
        elif parts.replay is not None:
            parts.replay.forget_streams()

    def _load_replay(self, replay: Shards) -> None:
        ckpt, known, shards = self._ckpt, shards_of(self.state), len(replay.handles)
        with_contents = self.has_replay(replay)
        if len(known) == shards:
            replay.load(lambda index: ckpt.arrays(f"replay-{index}") if with_contents else None, known)
        if not with_contents:
            lacks = "no replay"
            if ckpt.has("replay") and known:
                lacks = f"its replay in {len(known)} shards, this run's is in {shards}"
            events.report("notice", text=f"{ckpt.path.name} holds {lacks}: it fills anew before learning goes on")

    def _load_workers(self, setup: RunSetup, parts: Parts) -> None:
        arrays, states = self._ckpt.arrays("workers"), {}
        for index in parts.pool.incarnations():
            prefix = f"{index}/"
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            states[index] = (own, self.state["workers"][str(index)])
        # Before their environments are made: some do not work with another one beside them.
        kept = _carried_over(setup)
        kind, text = _how_exact(setup, kept, parts.pool.load(states))
        if text:
            events.report(kind, text=text)


def _how_exact(setup: RunSetup, kept: str, differing: int) -> tuple[str, str]:
    """Return (kind of event, one line, empty for none) about whether the running episodes go on bit for bit.

    ``kept``: what the environment keeps over a reset with a seed, empty for nothing; ``differing``: how many running episodes
    came out otherwise.
    """
    config, name = setup.config, setup.env["id"]
    if is_served(config):
        text = f"{differing} episodes were running at its clients, which have to start them anew" if differing else ""
        return "notice", f"Resumed, but not bit for bit: its simulators are elsewhere. {text}".rstrip(". ") + "."
    count = sources(config) * config.num_envs_per_worker
    lost = f"{differing} of {count} running episodes differed when they were replayed, and start anew"
    if _is_free_running(config) or reads_only(config):  # with workers the clock decides too; files hold no environment
        return "warning", f"Resumed: {lost}." if differing else ""
    if kept:
        first = f"{lost}. " if differing else ""
        text = (
            f"{first}{name} keeps something over a seeded reset: {kept}. Runs with fresh_envs: true resume bit for bit"
        )
        return "warning", f"Resumed, but not bit for bit: {text}."
    if differing:
        text = f"{lost}. {name} is not reproducible for a seed, or its version has changed"
        return "warning", f"Resumed, but not bit for bit: {text}."
    if config.fresh_envs:
        return "notice", f"Resumed bit for bit: every episode has a new {name}."
    return "notice", f"Resumed bit for bit: a reset of {name} with a seed clears all earlier state."


def report_carry_over(setup: RunSetup) -> None:
    """Warn, at the start of a deterministic run with workers, of an environment whose episodes cannot always be replayed."""
    kept = _carried_over(setup) if setup.config.num_workers and is_deterministic(setup.config) else ""
    if kept:
        name = setup.env["id"]
        text = f"deterministic: {name} keeps something over a seeded reset: {kept}"
        events.report(
            "warning", text=f"{text}. Workers that die may change the result; with fresh_envs: true none does."
        )


def _is_free_running(config: CommonKeys) -> bool:
    return config.num_workers > 0 and not is_deterministic(config)


def _carried_over(setup: RunSetup) -> str:
    """Return what the environment of an inline run keeps over a reset with a seed, by a trial; empty for nothing."""
    config, env = setup.config, setup.env
    if _is_free_running(config) or config.fresh_envs or reads_only(config) or is_served(config):
        return ""
    try:
        if setup.policies is None or env["agents"]["kind"] == "copies":
            found = carry_over.tried(lambda: make.make_raw(env["id"], env["env_config"]))
        else:
            found = carry_over.tried_with_agents(lambda: open_envs.open_setup(env))
    except (Exception, SystemExit) as error:  # the environment's own, in a trial that the run can do without
        return f"what, could not be tried ({failure(error).rstrip('.')})"
    return "" if found.is_nothing else str(found)
