"""The Python API: ``Trainer``, as RLlib's tutorials use theirs, over the same runs as ``drl train``.

    from drl_cli import Trainer

    with Trainer("SAC", env="Pendulum-v1", config={"gamma": 0.98}) as trainer:
        for _ in range(10):
            result = trainer.train()
        path = trainer.save()
        action = trainer.compute_action(obs)

A run begins with the first ``train`` and leaves the folder of any other run: drl rollout, evaluate, runs, train --resume work
on it. Errors are those of ``drl_cli.errors``. Nothing is printed, and no signal handler changed; variables of the environment
that TensorFlow and Ray read are set where they are not set yet (``process``).

Deviations from RLlib's Trainer: the constructor checks everything and starts nothing; what is trained after a ``restore`` goes
into a run folder of its own; ``compute_action`` is greedy by default.
"""

import atexit
import contextlib
import dataclasses
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from drl_cli import checkpoints, process
from drl_cli.algorithms import table
from drl_cli.api.compute_action import ActionComputer
from drl_cli.api.policy import Policy, Preprocessor, fetched, first_row
from drl_cli.api.python_experiment import spec_of
from drl_cli.api.run_session import LogForwarder, RunSession, SessionState
from drl_cli.config.episode_metrics import summary
from drl_cli.config.sections.common import CommonKeys
from drl_cli.envs.preprocessors import for_scoring
from drl_cli.errors import CheckpointError, InputError, ResourcesExhausted, RunFailed, suggestion
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.randomness import generator, number
from drl_cli.runs import retention, run_download
from drl_cli.runtime import assembly, run_restore, weight_access
from drl_cli.runtime.cluster import ACTOR, InlineCluster
from drl_cli.runtime.driver import Driver
from drl_cli.runtime.worker_set import WorkerSet

SERVER = "drl_cli.actors.parameter_server:ParameterServer"
Weights = weight_access.Weights


class Trainer:
    """One run of one algorithm on one environment, an iteration at a time. Close it with ``stop``, or use ``with``."""

    def __init__(
        self,
        algorithm: str,
        env: Any = None,
        config: Mapping[str, Any] | None = None,
        *,
        experiment_name: str = "default",
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        """Check everything; nothing is started or written yet.

        ``algorithm``: a name that --run takes. ``env``: an id, a name of ``register_env``, or a class or function that makes
        environments (as ``register_env`` takes it); ``config`` may hold it instead. ``config``: keys of the algorithm, as in
        RLlib's tutorials; NumPy's numbers and tuples are accepted, and so are classes for callbacks and model.custom_model, and
        a function for custom_eval_function: they are registered under their names. ``verbose``: print the lines of drl.log on
        stderr. ``settings``: keys of an experiment file, such as local_dir (default ~/ray_results), stop (default: none, the
        program decides), checkpoint_freq, keep_checkpoints_num, restore; and ray_address, ray_num_cpus, ….

        Raises ConfigError, EnvError or another InputError with everything that is wrong.
        """
        process.prepare()
        self._log = LogForwarder(verbose)
        weakref.finalize(self, self._log.stop)  # for a program that drops it without stop()
        self._log.start()
        try:
            restore = settings.pop("restore", None)
            self._spec = spec_of(algorithm, env, config, experiment_name, settings)
            self._row = table.find(self._spec.run)
            facts = self._spec.env_facts
            self._setup = assembly.setup_of(self._row, self._spec.config, facts)
            self._first: Weights = assembly.first_weights(self._setup)
            self._session = RunSession(self._spec, self._log)
            # The weights while no run is open, and whether a run that is opened takes them over.
            self._weights, self._were_set = self._first, False
            self._acting: dict[str, ActionComputer] = {}  # by policy id
            self._evaluations = 0
            self._rng = generator(self._spec.seed, "door")
            if restore is not None:
                self.restore(restore)
        finally:
            self._log.stop()

    def __repr__(self) -> str:
        """Name the algorithm, the environment, how far it is, and the run's folder once there is one."""
        session = self._session
        where = f", {self.run_folder}" if self.run_folder else ""
        has_trained = session.moment is not None and session.state is not SessionState.OVER
        state = f"iteration {self.iteration}" if has_trained else session.state.value
        return f"<Trainer {self._spec.run} on {self._spec.env}, {state}{where}>"

    # -- what a run is -----------------------------------------------------------------------------------------------

    @property
    def config(self) -> CommonKeys:
        """The frozen config, complete: every key of the algorithm is an attribute."""
        return self._spec.config

    @property
    def run_folder(self) -> Path | None:
        """The folder of the run, None before it has begun."""
        return self._session.run_folder

    @property
    def iteration(self) -> int:
        """Iterations trained so far, those before a restored checkpoint included; 0 before the run has begun."""
        return self._session.iteration

    @property
    def workers(self) -> WorkerSet:
        """The rollout workers: ``foreach_worker``, ``foreach_worker_with_index``, ``foreach_env``."""
        return WorkerSet(lambda: self._begin().parts.pool.handles())

    # -- training ----------------------------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Train one iteration and return its result: nested plain data with RLlib's field names.

        Its ``done`` is true when a rule of ``stop`` was met: the run is closed then. Raises what ends a run (Diverged,
        WorkersFailed, ResourcesExhausted, …), and InputError when it is over.
        """
        self._begin()
        result = self._session.step()
        self._close_acting()
        if result["done"]:
            self._end(None)
        return result

    def save(self) -> str:
        """Write a checkpoint of the present state, and return its path; after the end of a run, that of its last one.

        It is kept, whatever ``keep_checkpoints_num`` says.
        Raises InputError when nothing has been trained, ResourcesExhausted when the disk refuses.
        """
        session = self._session
        if session.outcome is not None and session.outcome.final is not None:
            return str(session.outcome.final)
        if not session.is_open or session.moment is None or session.moment.result is None:
            raise InputError("save: nothing has been trained yet. Call train() first.")
        path = session.moment.save(for_good=True)
        if path is None:
            raise ResourcesExhausted(f"The checkpoint could not be written; {self.run_folder}/drl.log says why.")
        return str(path)

    def restore(self, path: Path | str) -> None:
        """Go on from a checkpoint, or from the best one of a run folder: act with it at once, train in a new run.

        ``path`` may be a URI of a storage, such as s3://bucket/folder/default/RUN.

        A run that is open is ended first. Raises CheckpointError when it is damaged or of something else.
        """
        found = checkpoints.load(retention.find(run_download.placed(path)))
        facts = {**self._spec.env_facts, "imports": ()}
        run_restore.check_fits(self._row, self._spec.config, facts, found)
        held = weight_access.chosen(found.arrays("weights", finite=True), self._first)
        try:
            wanted = {policy: {name: held[policy].get(name) for name in own} for policy, own in self._first.items()}
            weight_access.fit(wanted, self._first)
        except InputError as error:
            raise CheckpointError(f"{found.path}: its networks differ from those of this config. {error}") from error
        self._end(("finished", f"ended to go on from {found.path}"))
        self._spec = dataclasses.replace(self._spec, restore=found.path)
        self._session = RunSession(self._spec, self._log)
        self._weights, self._were_set = held, False
        self._close_acting()

    def stop(self) -> None:
        """End the run: the last state is saved, all parts and a Ray of our own are closed. Safe to call at any time."""
        self._end(("finished", "stopped by the program"))
        self._close_acting()

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
            return
        with contextlib.suppress(ResourcesExhausted, RunFailed):  # the exception of the block says more
            self._end(("interrupted", f"ended by {kind.__name__}"))
        self._close_acting()

    # -- acting ------------------------------------------------------------------------------------------------------

    def compute_action(
        self,
        obs: Any,
        state: Sequence[Any] | None = None,
        explore: bool = False,
        prev_reward: float | None = None,
        policy_id: str = DEFAULT_POLICY,
        *,
        prev_action: Any = None,
        full_fetch: bool = False,
    ) -> Any:
        """Return the action for one observation, in the environment's units; with ``state`` (action, next state, extras).

        ``obs``: as the environment gives it, or as its wrappers make it (images of Atari games). ``explore``: sample from the
        policy, where it has a distribution, instead of taking the greedy action. ``state``: of recurrent policies and those
        with stacked frames: a list, ``get_initial_state()`` at the beginning of an episode and what the last call returned
        afterwards. ``prev_reward``, ``prev_action``: of the last step, for lstm_use_prev_action_reward; by default the action
        is the one that the last call returned. ``policy_id``: with several agents, the policy that acts; ``obs`` is that of one
        of its agents. ``full_fetch``: return (action, next state, extras) in any case, where the extras are those of
        ``policy.fetched``; otherwise they are {}.

        Raises InputError for an unknown policy, an observation of another shape, and a state that is missing or does not fit.
        """
        acting = self._acting_policy(policy_id)
        rng = self._rng if explore else None
        action, after, acted = acting.act(obs, list(state or []), rng, prev_reward, prev_action)
        if not (state or full_fetch):
            return action
        return action, after, first_row(fetched(acting.policy, *acted)) if full_fetch else {}

    compute_single_action = compute_action  # its name from RLlib 1.4 on

    def compute_actions(
        self,
        observations: Mapping[Any, Any],
        state: Mapping[Any, Sequence[Any]] | None = None,
        explore: bool = False,
        prev_reward: Mapping[Any, float] | None = None,
        policy_id: str = DEFAULT_POLICY,
        *,
        prev_action: Mapping[Any, Any] | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """Return {name: action} for ``observations`` {name: observation}, for example of several agents with one policy.

        The other mappings have the same names. With ``state`` or ``full_fetch``: (actions, states, extras), a mapping each. See
        ``compute_action``.
        """
        if not isinstance(observations, Mapping):
            raise InputError(
                "compute_actions: it takes {name: observation}. get_policy().compute_actions takes a batch."
            )
        states, rewards, before = state or {}, prev_reward or {}, prev_action or {}
        one = {
            name: self.compute_action(
                obs,
                states.get(name),
                explore,
                rewards.get(name),
                policy_id,
                prev_action=before.get(name),
                full_fetch=full_fetch or state is not None,
            )
            for name, obs in observations.items()
        }
        if not (state is not None or full_fetch):
            return one
        actions, after, extras = ({name: found[part] for name, found in one.items()} for part in range(3))
        return actions, after, extras if full_fetch else {name: {} for name in one}

    def get_policy(self, policy_id: str = DEFAULT_POLICY) -> Policy:
        """Return a Policy: actions for batches, the distribution, log-likelihoods, values, a summary of the nets.

        Raises InputError for an unknown policy.
        """
        self._expect_policy(policy_id)
        return Policy(policy_id, lambda: self._acting_policy(policy_id), self._rng)

    def get_preprocessor(self, policy_id: str = DEFAULT_POLICY) -> Preprocessor:
        """Return a Preprocessor: ``transform(obs)`` makes of the environment's observation the array that the policy sees."""
        shape = tuple(self._acting_policy(policy_id).policy.spec.obs_shape)
        return Preprocessor(shape, lambda obs: self._acting_policy(policy_id).transform(obs))

    def get_initial_state(self, policy_id: str = DEFAULT_POLICY) -> list[Any]:
        """Return the state at the beginning of an episode, for ``compute_action``; an empty list of a policy without one."""
        return self._acting_policy(policy_id).initial_state()

    def evaluate(self, episodes: int | None = None) -> dict[str, Any]:
        """Play ``episodes`` (default: evaluation_num_episodes) greedy episodes with the present weights, in this process.

        Returns {"evaluation": {episode_reward_mean, …}}, the fields of a result; with ``custom_eval_function`` those of that
        function. ``evaluation_config`` holds, and every call plays other episodes. Raises EnvError when an environment breaks.
        """
        config = self._spec.config
        episodes = config.evaluation_num_episodes if episodes is None else episodes
        if not isinstance(episodes, int) or isinstance(episodes, bool) or episodes < 1:
            raise InputError(f"evaluate: episodes {str(episodes)[:40]!r} is not a whole number of 1 or more.")
        cluster = InlineCluster()
        try:
            server = cluster.spawn("parameter server", SERVER, (), ACTOR)
            version = server.call("push", self._policy_weights(), True).result()
            tester = assembly.make_tester(self._setup, cluster, server)
            self._evaluations += 1
            seeds = [number(self._spec.seed, "door", self._evaluations, index) for index in range(episodes)]
            if config.custom_eval_function:
                return {"evaluation": tester.call("evaluate_otherwise", version, seeds).result()}
            return {"evaluation": summary(tester.call("evaluate", version, seeds).result())}
        finally:
            cluster.close()

    def get_weights(self, policies: Sequence[str] | None = None) -> Weights:
        """Return {policy id: {name: array}}: the nets, their targets and filters, copies.

        The only policy of a single agent is "default_policy". ``policies``: those to return, None for all. Raises InputError
        for one that is not there.
        """
        present = self._present()
        for name in policies or ():
            self._expect_policy(name)
        wanted = list(present) if policies is None else policies
        return {policy: {name: array.copy() for name, array in present[policy].items()} for policy in wanted}

    def set_weights(self, given: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace weights by those ``given`` as ``get_weights`` returns them; what is left out stays as it is, policies too.

        The state of the optimiser stays too. Raises InputError for policies, names or shapes that are not there.
        """
        named = ", ".join(f'"{policy}": {{name: array}}' for policy in self._first)
        if not isinstance(given, dict) or not given or not all(isinstance(own, dict) for own in given.values()):
            raise InputError(f"set_weights: it takes {{{named}}}, as get_weights returns it.")
        if unknown := [policy for policy in given if policy not in self._first]:
            raise InputError(
                f"set_weights: there is no policy {str(unknown[0])[:60]!r}; it takes {{{named}}}, as get_weights returns it."
            )
        mine, present = {policy: dict(own) for policy, own in given.items()}, self._present()
        weight_access.fit(mine, present)
        if self._session.is_open:
            weight_access.write(self._session.driver, mine)
        else:
            self._weights = {policy: own | mine.get(policy, {}) for policy, own in present.items()}
            self._were_set = True
        self._close_acting()

    def _present(self) -> Weights:
        if self._session.is_open:
            return weight_access.read(self._session.driver, self._first)
        return self._weights

    def _policy_weights(self) -> Weights:
        present = self._present()
        return {p: {name: present[p][name] for name in spec.weight_names()} for p, spec in self._setup.specs.items()}

    def _expect_policy(self, policy: str) -> None:
        if policy not in self._first:
            hint = suggestion(str(policy), self._first) or f" They are {', '.join(self._first)}; name it: policy_id=…"
            raise InputError(f"There is no policy {str(policy)[:60]!r}.{hint}")

    def _acting_policy(self, policy: str) -> ActionComputer:
        self._expect_policy(policy)
        if policy not in self._acting:
            facts = self._spec.env_facts
            agents = facts.get("agents")
            own = NumpyPolicy(self._setup.specs[policy], self._policy_weights()[policy])
            # Copies are of an environment with one agent; of others what an agent observes is known as its policy sees it.
            action = (
                None if agents is None or agents["kind"] == "copies" else agents["policies"][policy]["spaces"]["action"]
            )
            plan = for_scoring(facts["preprocessing"])
            self._acting[policy] = ActionComputer(own, facts["id"], facts["env_config"], plan, action)
        return self._acting[policy]

    def _close_acting(self) -> None:
        while self._acting:
            self._acting.popitem()[1].close()

    # -- the run underneath ------------------------------------------------------------------------------------------

    def _begin(self) -> Driver:
        """Open the run and start its parts, unless it is open; returns its driver."""
        session = self._session
        if not session.is_open:
            session.begin()
            atexit.register(_stop_at_exit, weakref.ref(self))  # registered after Ray's own, so that it runs before
            if self._were_set:
                weight_access.write(session.driver, self._weights)
        return session.driver

    def _end(self, ending: tuple[str, str] | None) -> None:
        """End the run, if it is open; ``ending``: (state, text), None where a rule was met."""
        if self._session.is_open:
            self._weights, self._were_set = self._present(), False
            self._session.end(ending)


def _stop_at_exit(reference: "weakref.ref[Trainer]") -> None:
    """End the run of a program that exits without having called ``stop``."""
    trainer = reference()
    if trainer is not None:
        trainer.stop()
