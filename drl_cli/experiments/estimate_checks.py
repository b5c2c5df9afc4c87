"""Whether recorded episodes can judge the policy of a run, before anything heavy is loaded. User: ``experiments.spec``."""

from drl_cli.config.sections.estimates import methods
from drl_cli.config.sections.offline import streams
from drl_cli.envs.preprocessors import frames_of
from drl_cli.errors import ConfigError, ExperienceError
from drl_cli.experience.action_likelihood import refusal
from drl_cli.experience.recorded.read import Source
from drl_cli.experience.recorded_episodes import HELP, layout_of_policy
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import NumpyPolicy

PIECES, STEPS = 50, 20_000  # looked at for probabilities: the first episodes of a recording may have none


def check(row, config, env):
    """Refuse ``input_evaluation`` for a policy that cannot be judged, or files that say nothing to judge by.

    ``row``: of the table; ``env``: dict(spaces, preprocessing). Raises ConfigError, ExperienceError.
    """
    asked = methods(config)
    if not asked:
        return
    spaces = env["spaces"] | {"frames": frames_of(env["preprocessing"])}
    policy = NumpyPolicy(load(row.nets).policy_spec(config, spaces))
    reason = refusal(policy)
    if reason:
        raise ConfigError(f"input_evaluation: {asked[0]} is not for {row.name} here: {reason}. Leave it out.")
    layout = layout_of_policy(policy.spec, config.actions_in_input_normalized)
    for stream in streams(config):
        if stream.paths:
            _expect_probabilities(Source(stream.paths, layout, passes=1))


def _expect_probabilities(source):
    first, steps = None, 0
    try:
        for number, piece in enumerate(source):
            if piece.logp is not None or number == PIECES or steps >= STEPS:
                break
            first, steps = first or piece, steps + piece.steps
    finally:
        source.close()
    if first is not None and piece.logp is None:
        raise ExperienceError(
            f"{first.source}: how likely these actions were is not recorded (action_logp or action_prob), and input_evaluation "
            f"is to judge by it. Leave it out. {HELP}"
        )
