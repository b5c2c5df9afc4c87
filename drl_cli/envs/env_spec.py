"""What is known of an environment as plain data: its spaces, its preprocessing, and how a worker makes it.

All of it is JSON: it goes into checkpoints and to the processes of workers. ``envs.make`` describes environments,
``envs.preprocessors`` plans their preprocessing, every other room reads what stands here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from typing_extensions import NotRequired


class SpaceSpec(TypedDict):
    """A space, as ``envs.spaces.describe_space`` returns it; ``kind`` decides which of the other keys it has.

    Box: shape, dtype, low, high (nested lists with None where there is no bound, or a single value where many are equal).
    Discrete: n, start, shape, dtype. MultiDiscrete: nvec, start, shape, dtype. MultiBinary: n, shape, dtype. Composite (a
    Dict or Tuple of these): parts, each with its ``path``, shape, dtype, text. Any other kind: text, the space's own words.
    """

    kind: str
    shape: list[int]
    dtype: str
    low: Any
    high: Any
    n: int
    nvec: list[int]
    start: Any
    parts: list[Any]
    text: str


class _Spaces(TypedDict):
    obs: SpaceSpec
    action: SpaceSpec


class TeamLayout(TypedDict):
    """Where a team's observation (``envs.multi_agent.team``) holds what; the parts are [start, size].

    ``agents``: A of them, in order. ``obs``: numbers O of one agent's observation, padded to the longest; the first A·O numbers
    are those of all agents. ``actions``: of each agent, how many there are (Discrete) or how many dimensions (Box). ``mask``:
    which of max(actions) actions each agent may take, A·max(actions) numbers; [0, 0] for a Box. ``alive``: 1 for each agent
    that is there, else 0, A numbers. ``rewards``: of each agent since the observation before, A numbers. ``state``: what the
    environment says of its state, the observations of all agents where it says nothing.
    """

    agents: Sequence[str]
    obs: int
    actions: Sequence[int]
    mask: Sequence[int]
    alive: Sequence[int]
    rewards: Sequence[int]
    state: Sequence[int]


class EnvSpec(_Spaces, total=False):
    """The spaces of an environment as its policy sees them, as ``envs.make.describe`` and ``envs.make.check`` return them.

    ``obs``, ``action``: the two spaces. ``mask``: [start, n], where a flattened Dict observation holds its action mask.
    ``board``: [start, height, width, planes], where it holds a board. ``goal``: [achieved, desired, n], where its two goals
    of n numbers begin.
    ``frames``: how many observations are stacked along the last axis (1 where it is missing). ``team``: the parts of the
    observation of several agents that are seen as one.
    """

    mask: Sequence[int]
    board: Sequence[int]
    goal: Sequence[int]
    frames: int
    team: TeamLayout


class AtariPreprocessing(TypedDict):
    """How an Atari game is played.

    ``noop_max``: most no-ops at the start of a game; ``frame_skip``: frames per action where the game skips none itself;
    ``fire``: press FIRE where a game waits for it; ``lives``: a lost life ends the episode.
    """

    noop_max: int
    frame_skip: int
    fire: bool
    lives: bool


class Preprocessing(TypedDict):
    """What stands between an environment and its policy, as ``envs.preprocessors.plan`` returns it.

    ``frames``: observations in a stack. ``dim``: height and width that images are resized to, or None. ``grayscale``: whether
    images are converted to grayscale. ``atari``: None for all but Atari games. ``scale_bytes``: vectors of bytes are scaled to
    [-1, 1]. ``fresh_after``: steps after which the next game begins from a seed of its own, 0 where every episode does.
    ``wrappers``: (name, keywords) of ``env_wrappers``, the innermost first; absent without any.
    ``preprocessor``: (name, options) of ``model.custom_preprocessor``, which stands around these; absent without one.
    """

    frames: int
    dim: int | None
    grayscale: bool
    atari: AtariPreprocessing | None
    scale_bytes: bool
    fresh_after: int
    wrappers: NotRequired[Sequence[Sequence[Any]]]
    preprocessor: NotRequired[Sequence[Any]]


class PolicyAgents(TypedDict):
    """One policy of an environment with several agents.

    ``agents``: those that it may act for, in the environment's order; ``spaces``: theirs, which are equal; ``config``: the keys
    in which the policy differs from the run; ``is_trained``: whether it learns, or keeps its first weights.
    """

    agents: Sequence[str]
    spaces: EnvSpec
    config: Mapping[str, Any]
    is_trained: bool


class SelfPlaySetup(TypedDict):
    """Who plays against the policy ``learner``.

    ``slots``: ids of the policies that hold its frozen copies; ``scripted``: opponents by name; ``own_share``: share of the
    episodes in which the learner plays all sides; ``evaluate_against``: opponents by name in evaluations.
    """

    learner: str
    slots: Sequence[str]
    scripted: Sequence[str]
    own_share: float
    evaluate_against: Sequence[str]


class _OfSelfPlay(TypedDict, total=False):
    self_play: SelfPlaySetup


class AgentsSetup(_OfSelfPlay):
    """What is known of an environment with several agents: how it is opened, and which policy acts for whom.

    ``kind``: "parallel" or "aec" (PettingZoo's two forms), "dictionary" (RLlib's), "tuple" (gymnasium's with a space and a
    reward for each agent), "copies" (of an environment with one agent, ``count`` of them). ``spaces``: of every agent.
    ``mapping``: agent to policy id, the same in every episode; None where the function registered as ``mapping_fn`` chooses
    as an episode begins, or with ``self_play``. ``observation_fn``: name of the registered function that adds to
    observations, or None. ``self_play``: who plays against the policy that learns, where it does.
    """

    kind: str
    count: int
    is_turn_based: bool
    spaces: Mapping[str, EnvSpec]
    policies: Mapping[str, PolicyAgents]
    mapping: Mapping[str, str] | None
    mapping_fn: str | None
    observation_fn: str | None


class _Named(TypedDict):
    id: str
    env_config: Mapping[str, Any]


class EnvSetup(_Named, total=False):
    """What a worker or a tester needs to make its environments.

    ``id``, ``env_config``: the registered environment and the keyword arguments of its constructor. ``preprocessing``: a
    plan, or None. ``imports``: modules that register environments; ``plugins``: as of ``plugins.registered``.
    ``fresh_envs``: whether every episode has a new object; ``remote``: whether each environment has a process of its own
    where there are several. ``timeout_s``: how long such a process may take for an answer, None: without
    a limit. ``videos``: the folder for videos of training episodes. ``spaces``: for workers that read files.
    ``agents``: of an environment with several agents. ``policies``: of a reader there, the policy whose steps it reads, then
    the others. ``task``: a list with the task of a curriculum, where one has been set.
    """

    preprocessing: Preprocessing | None
    imports: Sequence[str]
    plugins: Any
    fresh_envs: bool
    remote: bool
    timeout_s: float | None
    videos: str | None
    spaces: EnvSpec
    agents: AgentsSetup
    policies: Sequence[str]
    task: Sequence[Any]


def agents_of(setup: EnvSetup) -> AgentsSetup:
    """Return what is known of the agents. Raises ValueError for an environment with one."""
    if "agents" not in setup:
        raise ValueError(f"{setup['id']} has one agent")
    return setup["agents"]
