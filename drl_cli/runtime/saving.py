"""The state of a whole run to a checkpoint and back.

Who owns a state hands it over as arrays and plain data, the replay writes its own file; ``state.json`` holds all plain
data (counters, random states, windows of metrics), ``workers.safetensors`` the actions of running episodes.
"""

from drl_cli import __version__, checkpoint, events
from drl_cli.acting.policy import DEFAULT_POLICY
from drl_cli.configs.secrets import redact
from drl_cli.errors import CheckpointError


def save(trainer, run_folder):
    """Write a checkpoint of the present moment; returns its path. OSError when the disk refuses."""
    trainer.loop.quiesce()
    parts, config = trainer.parts, trainer.config
    with_replay = config.store_buffer_in_checkpoints
    with checkpoint.Writer(run_folder, trainer.iteration) as writer:
        arrays = parts.learner.call("state").result()
        checkpoint.write_arrays(writer.folder / "weights.safetensors", arrays)
        workers = {index: handle.call("state") for index, handle in parts.pool.handles().items()}
        if with_replay:
            replay = parts.replay.call("save", writer.folder, config.checkpoint_compress).result()
        else:
            replay = parts.replay.call("facts").result()
        facts, stored = {}, {}
        for index, reference in workers.items():
            own, facts[str(index)] = reference.result()
            stored.update({f"{index}/{name}": array for name, array in own.items()})
        checkpoint.write_arrays(writer.folder / "workers.safetensors", stored)
        state = _state(trainer, trainer.counters()) | {"replay": replay, "workers": facts, "exact": True}
        checkpoint.write_json(writer.folder / "state.json", state)
        return writer.commit(_facts(trainer, trainer.counters(), trainer.scored_result()))


def save_snapshot(trainer, run_folder, snapshot):
    """Write a checkpoint of a scored snapshot: what the learner was at that moment, without replay; returns its path."""
    number = snapshot.counters["training_iteration"]
    with checkpoint.Writer(run_folder, number) as writer:
        checkpoint.write_arrays(writer.folder / "weights.safetensors", snapshot.arrays)
        checkpoint.write_arrays(writer.folder / "workers.safetensors", {})
        state = _state(trainer, snapshot.counters) | {"replay": None, "workers": {}, "exact": False}
        checkpoint.write_json(writer.folder / "state.json", state)
        return writer.commit(_facts(trainer, snapshot.counters, snapshot.result))


def _state(trainer, counters):
    loop = trainer.loop.state() | {"sampled": counters["timesteps_total"], "updates": counters["num_updates"]}
    return {
        "counters": counters,
        "loop": loop,
        "scoring": trainer.scoring.state(),
        "version": trainer.loop.meters.version,
        "incarnations": {str(index): number for index, number in trainer.parts.pool.incarnations().items()},
    }


def _facts(trainer, counters, scored):
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
        "policies": {DEFAULT_POLICY: trainer.spec.to_dict()},
        "config": redact(trainer.config.model_dump(mode="json", by_alias=True)),
        "counters": counters,
        "score": {
            "episode_reward_mean": trainer.loop.meters.reward_mean(),
            "evaluation_reward_mean": mean if confirmed is None else confirmed,
        },
        "seed": trainer.config.seed,
    }


def check_fits(trainer, ckpt):
    """Refuse a checkpoint of another algorithm, environment or spaces; CheckpointError shows both values."""
    facts = ckpt.facts
    for what, stored, mine in (
        ("algorithm", facts["algorithm"], trainer.row.name),
        ("environment", facts["env"], trainer.env["id"]),
        ("observation shape", facts["spaces"]["obs"]["shape"], list(trainer.env["spaces"]["obs"]["shape"])),
        ("action shape", facts["spaces"]["action"]["shape"], list(trainer.env["spaces"]["action"]["shape"])),
    ):
        if stored != mine:
            raise CheckpointError(f"{ckpt.path}: its {what} is {stored!r}, this run's is {mine!r}.")


def restore(trainer, ckpt, exact):
    """Put the parts of ``trainer`` into the state of ``ckpt``.

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
    with_replay = ckpt.has("replay") and state["replay"] is not None
    if state["replay"] is not None:
        stored = ckpt.arrays("replay-0") if with_replay else None
        parts.replay.call("load", stored, state["replay"]).result()
    trainer.adopt(state, exact)
    trainer.loop.load(state["loop"], with_replay)
    if exact and state["exact"] and len(state["workers"]) == len(parts.pool.handles()):
        _restore_workers(ckpt, state, parts)
    else:
        parts.replay.call("forget_streams").result()
    if not with_replay:
        events.report("notice", text=f"{ckpt.path.name} holds no replay: it fills anew before learning goes on")


def _restore_workers(ckpt, state, parts):
    arrays = ckpt.arrays("workers")
    for index, handle in parts.pool.handles().items():
        prefix = f"{index}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        handle.call("load", own, state["workers"][str(index)]).result()
