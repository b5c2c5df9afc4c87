"""Whole episodes, one a line, as ``drl rollout --out`` writes them (``analysis.play`` says what is in a line).

User: ``json_lines``. They hold actions as the environment got them, and how each episode ended.
"""

from drl_cli.experience.recorded.decode import Reader
from drl_cli.experience.recorded.episode_parts import Part
from drl_cli.experience.recorded.pieces import Piece

FORMAT = "drl-episodes-1"
_FIELDS = ("obs", "action", "reward", "terminated", "truncated")


def parts(data, layout, where):
    """Return [Part] of the line ``data`` (dict), or [] of an episode without a step. Raises ExperienceError."""
    reader = Reader(layout, where)
    missing = [name for name in _FIELDS if name not in data]
    if missing:
        reader.refuse(f"the episode has no {', '.join(missing)}.")
    if data["reward"] == []:
        return []
    reward = reader.rewards(data["reward"], "reward")
    steps = len(reward)
    obs = reader.observations(data["obs"], "obs")
    if len(obs) != steps + 1:
        reader.refuse(f"obs: {len(obs)} rows for {steps} steps; one more than steps is meant.")
    ends = [reader.flags(data[name], name, steps) for name in ("terminated", "truncated")]
    if any(flags[:-1].any() for flags in ends):
        reader.refuse("the episode ends before its last step.")
    action = reader.actions(data["action"], "action", steps, 0 if layout.is_box else layout.action.get("start", 0))
    episode = data.get("episode", 0)
    if isinstance(episode, bool) or not isinstance(episode, (int, str)):
        reader.refuse("episode: is neither a number nor a text.")
    terminated, truncated = (bool(flags[-1]) for flags in ends)
    piece = Piece(obs[:-1], action, reward, terminated, truncated, obs[-1], None, 0, episode, where)
    return [Part(piece, ("line", where))]
