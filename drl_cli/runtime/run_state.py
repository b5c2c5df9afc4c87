"""The state of a whole run to a checkpoint and back.

Who owns a state hands it over as arrays and plain data, the replay writes its own file; ``state.json`` holds all plain
data (counters, random states, windows of metrics), ``workers.safetensors`` the actions of running episodes.
"""

import concurrent.futures
import contextlib

from drl_cli import checkpoints, events
from drl_cli.config.plain_data import redact
from drl_cli.config.sections.offline import reads_only
from drl_cli.envs import carry_over, make
from drl_cli.envs.preprocessors import frames_of, from_facts
from drl_cli.errors import CheckpointError, Overdue, failure
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.runs import retention
from drl_cli.runtime.cluster import PartLost
from drl_cli.version import __version__

SLOW_S = 1.0  # a call of the learner that takes so long may be waited for in vain when the run is to end
STATE_S = 0.5  # for the state of a learner that is idle


def save(trainer, run_folder):
    """Write a checkpoint of the present moment; returns its path. OSError when the disk refuses."""
    trainer.loop.quiesce()
    parts, config = trainer.parts, trainer.config
    with_replay = parts.replay is not None and config.store_buffer_in_checkpoints
    with checkpoints.Writer(run_folder, trainer.iteration) as writer:
        arrays = parts.learner.call("state").result()
        checkpoints.write_arrays(writer.folder / "weights.safetensors", arrays)
        workers = {index: handle.call("state") for index, handle in parts.pool.placed().items()}
        if with_replay:
            replay = parts.replay.save(writer.folder, config.checkpoint_compress)
        else:
            replay = None if parts.replay is None else parts.replay.facts()
        facts, stored = {}, {}
        for index, reference in workers.items():
            try:
                own, facts[str(index)] = reference.result()
            except PartLost:  # the pool will find out and replace it
                continue
            stored.update({f"{index}/{name}": array for name, array in own.items()})
        checkpoints.write_arrays(writer.folder / "workers.safetensors", stored)
        present = moment(trainer)
        whole = len(facts) == max(1, config.num_workers)
        state = _state(trainer, present) | {"replay": replay, "workers": facts, "exact": whole}
        checkpoints.write_json(writer.folder / "state.json", state)
        return writer.commit(_facts(trainer, present, trainer.scored_result()))


def hold(trainer):
    """Ask a slow learner for its state after an iteration: when the run is to end, it may be busy for too long."""
    if trainer.loop.meters.slowest > SLOW_S and not trainer.config.learner_actor:
        trainer.held = [*trainer.held[-1:], (trainer.parts.learner.call("state"), moment(trainer))]


def save_at_hand(trainer, run_folder):
    """Write a checkpoint of the newest state of the learner that can be had without waiting; returns its path.

    It holds no replay and no running episodes. Raises Overdue where no state is newer than what is saved. May be called from
    another thread than the run's.
    """
    known = [(state.result(), present) for state, present in trainer.held if state.done()]
    if trainer.scoring.newest:
        known.append((trainer.scoring.newest.arrays, trainer.scoring.newest.moment))
    if trainer.loop.is_learning and not trainer.config.learner_actor:
        with contextlib.suppress(concurrent.futures.TimeoutError):
            known.append((trainer.parts.learner.call("state").result(STATE_S), moment(trainer)))
    arrays, newest = max(known, key=lambda one: one[1]["counters"]["num_updates"], default=(None, None))
    saved = max((number for number, _ in retention.numbers(run_folder)), default=-1)
    if not trainer.loop.updates:
        raise Overdue("Nothing is saved: nothing was learnt yet.")
    if newest is None or not newest["counters"]["num_updates"] or newest["counters"]["training_iteration"] <= saved:
        raise Overdue("What was learnt since the last checkpoint is not saved: the learner is busy.")
    return _save_learner(trainer, run_folder, arrays, newest, trainer.scored_result())


def save_snapshot(trainer, run_folder, snapshot):
    """Write a checkpoint of a scored snapshot: what the learner was at that moment, without replay; returns its path."""
    return _save_learner(trainer, run_folder, snapshot.arrays, snapshot.moment, snapshot.result)


def _save_learner(trainer, run_folder, arrays, present, scored):
    with checkpoints.Writer(run_folder, present["counters"]["training_iteration"]) as writer:
        checkpoints.write_arrays(writer.folder / "weights.safetensors", arrays)
        checkpoints.write_arrays(writer.folder / "workers.safetensors", {})
        state = _state(trainer, present) | {"replay": None, "workers": {}, "exact": False}
        checkpoints.write_json(writer.folder / "state.json", state)
        return writer.commit(_facts(trainer, present, scored))


def moment(trainer):
    """Return the plain data that belongs to what the learner holds at present."""
    return {"counters": trainer.counters(), "loop": trainer.loop.state(), "version": trainer.loop.meters.version}


def _state(trainer, present):
    incarnations = {str(index): number for index, number in trainer.parts.pool.incarnations().items()}
    own = {"callbacks": trainer.hooks.state()} if trainer.hooks else {}
    return present | {"scoring": trainer.scoring.state(), "incarnations": incarnations} | own


def _facts(trainer, present, scored):
    scored = scored or {}
    confirmed = scored.get("confirmed_reward_mean")
    mean = scored.get("episode_reward_mean")
    return {
        "drl_version": __version__,
        "algorithm": trainer.row.name,
        "env": trainer.env["id"],
        "env_asked": trainer.env["asked"],
        "env_config": redact(trainer.env["env_config"]),
        "horizon": trainer.config.horizon,
        "spaces": trainer.env["spaces"],
        "preprocessing": trainer.env.get("preprocessing"),
        "policies": {DEFAULT_POLICY: trainer.spec.to_dict()},
        "config": redact(trainer.config.model_dump(mode="json", by_alias=True)),
        "counters": present["counters"],
        "score": {
            "episode_reward_mean": present["loop"]["meters"]["reward_mean"],
            "evaluation_reward_mean": mean if confirmed is None else confirmed,
        },
        "seed": trainer.config.seed,
    }


def check_fits(trainer, ckpt):
    """Refuse a checkpoint of another algorithm, environment or spaces; CheckpointError shows both values."""
    facts = ckpt.require_facts()
    for what, stored, mine in (
        ("algorithm", facts["algorithm"], trainer.row.name),
        ("environment", facts["env"], trainer.env["id"]),
        ("observation shape", facts["spaces"]["obs"].get("shape"), list(trainer.env["spaces"]["obs"]["shape"])),
        ("frame stack", frames_of(from_facts(facts.get("preprocessing"))), frames_of(trainer.env.get("preprocessing"))),
        ("kind of actions", facts["spaces"]["action"].get("kind"), trainer.env["spaces"]["action"].get("kind")),
        ("choices of an action", facts["spaces"]["action"].get("nvec"), trainer.env["spaces"]["action"].get("nvec")),
        ("observation filter", *_both(trainer, facts, "observation_filter", "NoFilter")),
        ("reward scaling", *_both(trainer, facts, "reward_scaling", False)),
        ("number of actions", facts["spaces"]["action"].get("n"), trainer.env["spaces"]["action"].get("n")),
        ("action shape", facts["spaces"]["action"].get("shape"), list(trainer.env["spaces"]["action"]["shape"])),
    ):
        if stored != mine:
            raise CheckpointError(f"{ckpt.path}: its {what} is {stored!r}, this run's is {mine!r}.")


def _both(trainer, facts, key, older):
    """The value of a key of the config in a checkpoint, ``older`` where it did not know the key, and in this run."""
    return (facts.get("config") or {}).get(key, older), getattr(trainer.config, key)


def restore_counters(trainer, ckpt, exact):
    """Continue the counters of ``ckpt``, before any worker is made; returns the incarnations to start them with.

    Workers that do not go on in the middle of their episodes are new incarnations, with environment seeds of their own.
    """
    state = ckpt.json("state")
    trainer.adopt(state, exact)
    if exact and trainer.hooks:
        trainer.hooks.load(state.get("callbacks"))
    trainer.loop.load(state["loop"], _with_replay(trainer, ckpt, state))
    passed = 0 if _goes_on(trainer, ckpt, exact) else 1
    return {index: incarnation + passed for index, incarnation in state["incarnations"].items()}


def _with_replay(trainer, ckpt, state):
    """Whether the replay goes on too: there is one, in as many shards as this run has (they depend on num_workers)."""
    replay = trainer.parts.replay
    return replay is not None and ckpt.has("replay") and len(_shards(state)) == len(replay.handles)


def _shards(state):
    """The facts of each shard of a checkpoint's replay; older ones hold those of their only part as they are."""
    return [state["replay"]] if isinstance(state["replay"], dict) else state["replay"] or []


def _goes_on(trainer, ckpt, exact):
    """Whether the workers can go on in the middle of their episodes."""
    state, before, now = ckpt.json("state"), ckpt.facts.get("config") or {}, trainer.config
    same = all(before.get(name) == getattr(now, name) for name in ("num_workers", "num_envs_per_worker"))
    # Readers that go on where they stood do not bring again what a replay that was not stored held.
    held = _with_replay(trainer, ckpt, state) or not reads_only(now)
    return exact and state["exact"] and same and held


def restore(trainer, ckpt, exact):
    """Put the parts of ``trainer`` into the state of ``ckpt``; after ``restore_counters``.

    With ``exact``, workers go on in the middle of their episodes; otherwise, or where the checkpoint does not hold
    that, they begin new ones.
    """
    state, parts = ckpt.json("state"), trainer.parts
    arrays = ckpt.arrays("weights", finite=True)
    acting = {name: arrays.get(f"{DEFAULT_POLICY}/{name}") for name in trainer.spec.weight_names()}
    missing = [name for name, array in acting.items() if array is None]
    if missing:
        raise CheckpointError(f"{ckpt.path}: weights are missing: {', '.join(missing)}.")
    events.report("phase", text=f"restoring {ckpt.path.name}")
    parts.learner.call("load", arrays, state["version"]).result()
    parts.server.call("load", {DEFAULT_POLICY: acting}, state["version"]).result()
    if parts.replay is not None:
        _restore_replay(trainer, ckpt, state)
    if _goes_on(trainer, ckpt, exact):
        _restore_workers(trainer, ckpt, state)
    elif parts.replay is not None:
        parts.replay.forget_streams()


def _restore_replay(trainer, ckpt, state):
    replay, known = trainer.parts.replay, _shards(state)
    with_replay, shards = _with_replay(trainer, ckpt, state), len(replay.handles)
    if len(known) == shards:
        replay.load(lambda i: ckpt.arrays(f"replay-{i}") if with_replay else None, known)
    if not with_replay:
        lacks = "no replay"
        if ckpt.has("replay") and known:
            lacks = f"its replay in {len(known)} shards, this run's is in {shards}"
        events.report("notice", text=f"{ckpt.path.name} holds {lacks}: it fills anew before learning goes on")


def _restore_workers(trainer, ckpt, state):
    arrays, states, pool = ckpt.arrays("workers"), {}, trainer.parts.pool
    for index in pool.handles():
        prefix = f"{index}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        states[index] = (own, state["workers"][str(index)])
    # Before their environments are made: some do not suffer another one beside them.
    kept = _carried_over(trainer)
    kind, text = _how_exact(trainer, kept, pool.load(states))
    if text:
        events.report(kind, text=text)


def _how_exact(trainer, kept: str, differing: int) -> tuple[str, str]:
    """Return (kind of event, one line, empty for none) about whether the running episodes go on bit for bit.

    ``kept``: what the environment keeps over a reset with a seed, empty for nothing; ``differing``: how many running episodes
    came out otherwise.
    """
    config, name = trainer.config, trainer.env["id"]
    count = max(1, config.num_workers) * config.num_envs_per_worker
    lost = f"{differing} of {count} running episodes came out differently when they were played again, and begin anew"
    if config.num_workers or reads_only(config):  # with workers the clock decides too; files hold no environment
        return "warning", f"Resumed: {lost}." if differing else ""
    if kept:
        first = f"{lost}. " if differing else ""
        text = f"{first}{name} keeps something over a reset with a seed: {kept}. Runs with fresh_envs: true resume bit for bit"
        return "warning", f"Resumed, but not bit for bit: {text}."
    if differing:
        text = f"{lost}. {name} does not repeat itself for a seed, or is another version than it was"
        return "warning", f"Resumed, but not bit for bit: {text}."
    if config.fresh_envs:
        return "notice", f"Resumed bit for bit: every episode has a new {name}."
    return "notice", f"Resumed bit for bit: a reset of {name} with a seed forgets all that was before."


def _carried_over(trainer) -> str:
    """Return what the environment of an inline run keeps over a reset with a seed, by a trial; empty for nothing."""
    config, env = trainer.config, trainer.env
    if config.num_workers or config.fresh_envs or reads_only(config):
        return ""
    try:
        found = carry_over.tried(lambda: make.make_raw(env["id"], env["env_config"]))
    except (Exception, SystemExit) as error:  # the environment's own, in a trial that the run can do without
        return f"what, could not be tried ({failure(error).rstrip('.')})"
    return "" if found.is_nothing else str(found)
