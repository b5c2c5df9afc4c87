"""The Python door: ``Trainer``, as RLlib's tutorials use theirs, over the run that ``drl train`` drives.

    from drl_cli import Trainer

    with Trainer("SAC", env="Pendulum-v1", config={"gamma": 0.98}) as trainer:
        for _ in range(10):
            result = trainer.train()
        path = trainer.save()
        action = trainer.compute_action(obs)

A run begins with the first ``train`` (or whatever else needs its parts) and leaves the folder of any other run: drl rollout,
evaluate, runs, train --resume work on it. Errors are those of ``drl_cli.errors``. Nothing is printed, and no signal handler
changed; variables of the environment that TensorFlow and Ray read are set where they are not set yet (``process``).

Deviations from RLlib's Trainer: the constructor checks everything and starts nothing; what is trained behind a ``restore`` goes
into a run folder of its own; ``compute_action`` is greedy unless told otherwise.
"""

import atexit
import contextlib
import dataclasses
import signal
import threading
import weakref

from drl_cli import checkpoints, process
from drl_cli.algorithms import table
from drl_cli.api.compute_action import OneByOne
from drl_cli.api.log_listener import Passing
from drl_cli.api.python_experiment import spec_of
from drl_cli.config.episode_metrics import summary
from drl_cli.envs.preprocessors import for_scoring, frames_of
from drl_cli.errors import CheckpointError, InputError, ResourcesExhausted, RunFailed
from drl_cli.experiments.run import stepwise
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy
from drl_cli.randomness import generator, number
from drl_cli.runs import retention
from drl_cli.runtime import assembly, run_restore, weight_access
from drl_cli.runtime.cluster import ACTOR, InlineCluster

SERVER = "drl_cli.actors.parameter_server:ParameterServer"
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_running = None  # a weak reference to the Trainer whose run is open: events, and a Ray of our own, are the process's


class Trainer:
    """One run of one algorithm on one environment, an iteration at a time. Close it with ``stop``, or use ``with``."""

    def __init__(self, algorithm, env=None, config=None, *, experiment_name="default", verbose=False, **settings):
        """Check everything; nothing is started or written yet.

        ``algorithm``: a name that --run takes. ``env``: an id, a name of ``register_env``, or a class or function that makes
        environments (as ``register_env`` takes it); ``config`` may hold it instead. ``config``: keys of the algorithm, as in
        RLlib's tutorials; numbers of NumPy and tuples are fine, and so are classes for callbacks and model.custom_model, and a
        function for custom_eval_function: they are registered under their names. ``verbose``: print what happens, one line
        each, on stderr. ``settings``: keys of an experiment file, such as local_dir (default ~/ray_results), stop (default:
        none, the program decides), checkpoint_freq, keep_checkpoints_num, restore; and ray_address, ray_num_cpus, ….

        Raises ConfigError, EnvError or another InputError with everything that is wrong.
        """
        process.prepare()
        self._passing = Passing(verbose)
        weakref.finalize(self, self._passing.stop)  # for a program that lets go of it without stop()
        self._passing.start()
        try:
            restore = settings.pop("restore", None)
            self._spec = spec_of(algorithm, env, config, experiment_name, settings)
            self._row = table.find(self._spec.run)
            self._steps = self._moment = self._request = self._outcome = None
            facts = self._spec.env_facts
            spaces = facts["spaces"] | {"frames": frames_of(facts["preprocessing"])}
            self._policy_spec = load(self._row.nets).policy_spec(self._spec.config, spaces)
            self._first = weight_access.first(self._row, self._spec.config, self._policy_spec)
            self._weights, self._own = (
                self._first,
                False,
            )  # what acts while no run is open; whether a run begins with it
            self._acting = None
            self._evaluations = 0
            self._rng = generator(self._spec.seed, "door")
            if restore is not None:
                self.restore(restore)
        finally:
            self._passing.stop()

    def __repr__(self) -> str:
        """Name the algorithm, the environment, how far it is, and the run's folder once there is one."""
        where = f", {self.run_folder}" if self.run_folder else ""
        state = "over" if self._outcome is not None else f"iteration {self.iteration}" if self._moment else "not begun"
        return f"<Trainer {self._spec.run} on {self._spec.env}, {state}{where}>"

    # -- what a run is -----------------------------------------------------------------------------------------------

    @property
    def config(self):
        """The frozen config, complete: every key of the algorithm is an attribute."""
        return self._spec.config

    @property
    def run_folder(self):
        """The folder of the run as a Path, None before it has begun."""
        if self._outcome is not None:
            return self._outcome.run_folder
        return self._moment.run_folder if self._moment else None

    @property
    def iteration(self):
        """Iterations trained so far, those before a restored checkpoint counted; 0 before the run has begun."""
        return self._moment.trainer.iteration if self._moment else 0

    # -- training ----------------------------------------------------------------------------------------------------

    def train(self):
        """Train one iteration and return its result: nested plain data with RLlib's field names.

        Its ``done`` is true when a rule of ``stop`` was met: the run is closed then. Raises what ends a run (Diverged,
        WorkersFailed, ResourcesExhausted, …), and InputError when it is over.
        """
        self._begin()
        self._moment = self._next()
        self._acting = None
        result = self._moment.result
        if result["done"]:
            self._end(None)
        return result

    def save(self):
        """Write a checkpoint of the present moment, and return its path; behind the end of a run, that of its last one.

        It is kept, whatever ``keep_checkpoints_num`` says.
        Raises InputError when nothing has been trained, ResourcesExhausted when the disk refuses.
        """
        if self._outcome is not None and self._outcome.final is not None:
            return str(self._outcome.final)
        if self._steps is None or self._moment.result is None:
            raise InputError("save: nothing has been trained yet. Call train() first.")
        path = self._moment.save(for_good=True)
        if path is None:
            raise ResourcesExhausted(f"The checkpoint could not be written; {self.run_folder}/drl.log says why.")
        return str(path)

    def restore(self, path):
        """Go on from a checkpoint, or from the best one of a run folder: act with it at once, train in a new run.

        A run that is open is ended first. Raises CheckpointError when it is damaged or of something else.
        """
        found = checkpoints.load(retention.find(path))
        facts = {**self._spec.env_facts, "imports": ()}
        run_restore.check_fits(self._row, self._spec.config, facts, found)
        held = weight_access.chosen(found.arrays("weights", finite=True), self._first)
        try:
            weight_access.fit({name: held.get(name) for name in self._first}, self._first)
        except InputError as error:
            raise CheckpointError(f"{found.path}: it is of other nets than this config's. {error}") from error
        self._end(("finished", f"ended to go on from {found.path}"))
        self._spec = dataclasses.replace(self._spec, restore=found.path)
        self._weights, self._own, self._acting = held, False, None
        self._outcome = self._moment = None

    def stop(self):
        """End the run: the last state is saved, all parts and a Ray of our own are closed. Safe to call at any time."""
        self._end(("finished", "stopped by the program"))
        self._close_acting()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.stop()
            return
        with contextlib.suppress(ResourcesExhausted, RunFailed):  # what is under way tells more
            self._end(("interrupted", f"ended by {kind.__name__}"))
        self._close_acting()

    # -- acting ------------------------------------------------------------------------------------------------------

    def compute_action(self, obs, state=None, explore=False, prev_reward=None):
        """Return the action for one observation, in the environment's units; with ``state`` (action, next state, {}).

        ``obs``: as the environment gives it, or as its wrappers make it (images of Atari games). ``explore``: draw from the
        policy, where it has a distribution, instead of taking the best action. ``state``: of policies that remember, recurrent
        ones and those that see several frames: a list, ``get_initial_state()`` at the beginning of an episode and what the
        last call returned afterwards. ``prev_reward``: what the last action brought, for lstm_use_prev_action_reward.

        Raises InputError for an observation of another shape, and for a state that is missing or does not fit.
        """
        acting = self._acting_policy()
        action, after = acting.act(obs, list(state or []), self._rng if explore else None, prev_reward)
        return (action, after, {}) if state else action

    def get_initial_state(self):
        """Return the state of an episode that begins, for ``compute_action``; an empty list where nothing is remembered."""
        return self._acting_policy().initial_state()

    def evaluate(self, episodes=None):
        """Play ``episodes`` (default: evaluation_num_episodes) greedy episodes with the present weights, in this process.

        Returns {"evaluation": {episode_reward_mean, …}}, the fields of a result; with ``custom_eval_function`` those of that
        function. ``evaluation_config`` holds, and every call plays other episodes. Raises EnvError when an environment breaks.
        """
        config, facts = self._spec.config, self._spec.env_facts
        episodes = config.evaluation_num_episodes if episodes is None else episodes
        if not isinstance(episodes, int) or isinstance(episodes, bool) or episodes < 1:
            raise InputError(f"evaluate: episodes {str(episodes)[:40]!r} is not a whole number of 1 or more.")
        cluster = InlineCluster()
        try:
            server = cluster.spawn("parameter server", SERVER, (), ACTOR)
            version = server.call("push", {DEFAULT_POLICY: self._policy_weights()}, True).result()
            tester = assembly.make_tester(config, facts, self._policy_spec, cluster, server)
            self._evaluations += 1
            seeds = [number(config.seed, "door", self._evaluations, index) for index in range(episodes)]
            if config.custom_eval_function:
                return {"evaluation": tester.call("evaluate_otherwise", version, seeds).result()}
            return {"evaluation": summary(tester.call("evaluate", version, seeds).result())}
        finally:
            cluster.close()

    def get_weights(self):
        """Return {"default_policy": {name: array}}: the nets, their targets and filters, copies."""
        return {DEFAULT_POLICY: {name: array.copy() for name, array in self._present().items()}}

    def set_weights(self, given):
        """Go on with other weights, as ``get_weights`` returns them; what is left out stays as it is.

        What the optimiser remembers stays too. Raises InputError for names or shapes that are not there.
        """
        if not isinstance(given, dict) or list(given) != [DEFAULT_POLICY]:
            raise InputError(
                f'set_weights: it takes {{"{DEFAULT_POLICY}": {{name: array}}}}, as get_weights returns it.'
            )
        mine, present = given[DEFAULT_POLICY], self._present()
        weight_access.fit(mine, present)
        if self._steps is not None:
            weight_access.write(self._moment.trainer, mine)
        else:
            self._weights, self._own = present | mine, True
        self._acting = None

    def _present(self):
        if self._steps is not None:
            return weight_access.read(self._moment.trainer, self._first)
        return self._weights

    def _policy_weights(self):
        present = self._present()
        return {name: present[name] for name in self._policy_spec.weight_names()}

    def _acting_policy(self):
        if self._acting is None:
            facts = self._spec.env_facts
            policy = NumpyPolicy(self._policy_spec, self._policy_weights())
            self._acting = OneByOne(policy, facts["id"], facts["env_config"], for_scoring(facts["preprocessing"]))
        return self._acting

    def _close_acting(self):
        if self._acting is not None:
            self._acting.close()
        self._acting = None

    # -- the run underneath ------------------------------------------------------------------------------------------

    def _begin(self):
        """Open the run and make its parts, unless it is open."""
        global _running
        if self._steps is not None:
            return
        if self._outcome is not None:
            raise InputError(
                f"This run is over ({self._outcome.text.splitlines()[0]}). restore(CHECKPOINT) goes on from there in a new "
                f"run; its folder is {self._outcome.run_folder}."
            )
        other = _running() if _running else None
        if other is not None:
            raise InputError(
                f"Another Trainer of this process is training ({other.run_folder}). A process runs one at a time: call its "
                "stop() first."
            )
        self._passing.start()
        self._request, _running = _Request(), weakref.ref(self)
        self._steps = stepwise(self._spec, self._request, at_start=True)
        with _signals_kept():
            self._moment = self._next()
        atexit.register(_stop_at_exit, _running)  # behind Ray's own, so that it comes before
        if self._own:
            weight_access.write(self._moment.trainer, self._weights)

    def _next(self):
        """Go on to the next Moment; when the run ends instead, close it and raise why."""
        try:
            return next(self._steps)
        except StopIteration as end:
            self._over(end.value)
        except BaseException:
            self._over(None)
            raise
        if self._outcome.error is not None:
            raise self._outcome.error
        raise KeyboardInterrupt

    def _end(self, ending):
        """Let the open run, if there is one, come to its end; ``ending``: (state, text), None where a rule was met."""
        if self._steps is None:
            return
        self._weights, self._own = self._present(), False
        self._request.ending = ending
        outcome = None
        try:
            while True:
                self._moment = next(self._steps)
        except StopIteration as end:
            outcome = end.value
        finally:
            self._over(outcome)
        if outcome.error is not None:
            raise outcome.error
        if outcome.exit_code == ResourcesExhausted.exit_code:
            raise ResourcesExhausted(outcome.text)

    def _over(self, outcome):
        global _running
        self._steps, self._outcome, _running = None, outcome, None
        self._passing.stop()


class _Request:
    """Becomes true when the program ends its run."""

    exit_code = 0

    def __init__(self):
        self.ending = None

    def __bool__(self):
        return self.ending is not None


@contextlib.contextmanager
def _signals_kept():
    """Give signals back to whoever had them: Ray takes SIGTERM when it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _stop_at_exit(reference):
    """End the run of a program that ends without having done so."""
    trainer = reference()
    if trainer is not None:
        trainer.stop()
