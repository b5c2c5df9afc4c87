"""What must be right about recorded experience before anything heavy is loaded: files to learn from, and to estimate by.

Also what goes with a policy server. User: ``experiments.spec``.
"""

from collections.abc import Mapping
from typing import Any

from drl_cli import plugins
from drl_cli.actors.agents_reader import policy_setup
from drl_cli.actors.experience_reader import layout
from drl_cli.algorithms import table
from drl_cli.algorithms.row import Algorithm
from drl_cli.config.key_description import fields_of
from drl_cli.config.origins import Where
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.estimates import methods
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import InputKeys, reads, reads_only, streams
from drl_cli.config.sections.served_input import is_served
from drl_cli.envs.callbacks import HOOKS, is_overridden
from drl_cli.envs.preprocessors import frames_of
from drl_cli.errors import ConfigError, ExperienceError
from drl_cli.experience.action_likelihood import refusal
from drl_cli.experience.recorded import read
from drl_cli.experience.recorded_episodes import HELP, layout_of_policy
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import NumpyPolicy

PLAYED = ("episode_reward_mean", "episode_reward_max", "episode_reward_min", "episode_len_mean", "episodes_total")
"""Fields of a result that describe episodes played by rollout workers."""

PIECES, STEPS = 50, 20_000  # looked at for probabilities: the first episodes of a recording may have none


def problems(row: Algorithm, config: CommonKeys, mapping: Mapping[str, Any], where: Where) -> list[str]:
    """Return one line for each thing that ``config`` of the table's ``row`` needs and recorded files cannot give.

    ``mapping``: the experiment's, with its rules; ``where``: its Where.
    """
    if row.reads and not reads(config):
        place = where.place(("config", "input"))
        text = f"{row.name} learns from recorded experience, and input is sampler ({place}). "
        return [text + 'Give it files: --config \'{"input": "PATH"}\'; record them with output in another run.']
    if is_served(config):
        return served_misfits(row, config, where.inside("config"))
    if not reads_only(config):
        return []
    found = []
    for name in ("stop", "pass_criteria"):
        rules = mapping.get(name)
        for field in rules if isinstance(rules, dict) else ():
            if field in PLAYED:
                place = where.place((name, field))
                found.append(
                    f"{name}: {field} is never reported: the steps come from files, and no training episodes are "
                    f"played ({place}). Write evaluation/{field.replace('episodes_total', 'episode_reward_mean')}."
                )
    return found


def served_misfits(row: Algorithm, config: CommonKeys, where: Where) -> list[str]:
    """Return one line for each thing that does not go with ``input: policy_server``; ``where``: of the config's mapping."""
    if row.loop not in ("replay", "sync") or row.worker or row.team or row.reads:
        others = [one.name for one in table.rows() if one.loop in ("replay", "sync") and not (one.team or one.reads)]
        place = where.place(("input",))
        return [f"input: {row.name} does not learn from a policy server ({place}). These do: {', '.join(others)}."]
    fields, found = fields_of(type(config)), []
    for name, why in _NOT_SERVED.items():
        if name in fields and getattr(config, name) != fields[name].default:
            found.append(f"{name}: {why} ({where.place((name,))}). Leave it out with input policy_server.")
    if config.callbacks is not None:
        hooks = [hook for hook in HOOKS if hook != "on_train_result"]
        idle = [one for one in hooks if is_overridden(plugins.CALLBACKS.find(config.callbacks), one)]
        if idle:
            text = f"{config.callbacks} has {', '.join(idle)}, which nothing calls with input policy_server"
            found.append(
                f"callbacks: {text} ({where.place(('callbacks',))}). Use callbacks with on_train_result alone."
            )
    if config.num_workers > 1 and not config.policy_server.port:  # type: ignore[attr-defined]
        place = where.place(("policy_server", "port"))
        found.append(
            f"policy_server.port: with {config.num_workers} workers it must be a port of your choice ({place})."
        )
    return found


_NOT_SERVED = {
    "output": "steps of external simulators are not recorded",
    "horizon": "clients end their episodes",
    "remote_worker_envs": "the environments are the clients'",
    "fresh_envs": "the environments are the clients'",
    "record_env": "the environments are the clients'",
    "render_env": "the environments are the clients'",
    "batch_mode": "an episode that is not complete is learnt from up to its last step",
    "multiagent": "a client is one agent",
    "custom_eval_function": "episodes that clients start with training_enabled false are the evaluations",
    "evaluation_config": "episodes that clients start with training_enabled false are the evaluations",
    "evaluation_duration_unit": "evaluations are counted in episodes",
    "evaluation_num_workers": "clients play the evaluations",
}
"""Key → why it has no meaning where the steps come from external simulators."""


def check_files(config: CommonKeys, env: Mapping[str, Any]) -> None:
    """Read the first steps of every stream of files. Raises ExperienceError for what is missing or does not fit ``env``.

    ``env``: the facts of the environment, as in ``ExperimentSpec``.
    """
    spaces = env["spaces"] | {"frames": frames_of(env["preprocessing"])}
    setups: list[Any] = [{**env, "spaces": spaces}]
    if "agents" in env:
        trained = [name for name, own in env["agents"]["policies"].items() if own["is_trained"]]
        setups = [policy_setup(setups[0], name) for name in trained]
    for stream in streams(config):
        if stream.paths and isinstance(config, BufferedKeys):
            for setup in setups:
                read.check(stream.paths, layout(config, setup))


def check_estimates(row: Algorithm, config: CommonKeys, env: Mapping[str, Any]) -> None:
    """Refuse ``input_evaluation`` for a policy that it cannot evaluate, or files without probabilities of the actions.

    ``env``: as for ``check_files``. Raises ConfigError, ExperienceError.
    """
    estimators = methods(config)
    if not estimators:
        return
    spaces = env["spaces"] | {"frames": frames_of(env["preprocessing"])}
    policy = NumpyPolicy(load(row.nets).policy_spec(config, spaces))
    reason = refusal(policy)
    if reason:
        raise ConfigError(f"input_evaluation: {estimators[0]} is not for {row.name} here: {reason}. Leave it out.")
    normalized = isinstance(config, InputKeys) and config.actions_in_input_normalized
    recorded = layout_of_policy(policy.spec, normalized)
    for stream in streams(config):
        if stream.paths:
            _expect_probabilities(read.Source(stream.paths, recorded, passes=1))


def _expect_probabilities(source: read.Source) -> None:
    first, last, steps = None, None, 0
    try:
        for number, last in enumerate(source):
            if last.logp is not None or number == PIECES or steps >= STEPS:
                break
            first, steps = first or last, steps + last.steps
    finally:
        source.close()
    if first is not None and last is not None and last.logp is None:
        raise ExperienceError(
            f"{first.source}: the probabilities of its actions are not recorded (action_logp or action_prob), and "
            f"input_evaluation needs them. Leave it out. {HELP}"
        )
