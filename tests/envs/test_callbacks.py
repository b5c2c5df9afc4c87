"""Callbacks by name: what can be registered, what is refused before a run, what a hook that raises becomes."""

from pathlib import Path

import pytest
import watched_callbacks
from watched_callbacks import Failing, Noting

from drl_cli.algorithms import table
from drl_cli.algorithms.sac import SACConfig
from drl_cli.envs import callbacks
from drl_cli.envs.callbacks import Callbacks, Hooks, name_of, register_callbacks
from drl_cli.errors import ConfigError, InputError, PluginFailed, RunFailed
from drl_cli.evolution.keys import ESConfig

pytestmark = pytest.mark.usefixtures("plug_ins")


class Wanted(Callbacks):
    """Its hook wants what hooks are not given."""

    def on_train_result(self, trainer):
        return trainer


class Costly(Callbacks):
    """Cannot be made."""

    def __init__(self):
        raise OSError("no licence")


class Unkept(Callbacks):
    """Wants to keep what is no plain data, and takes something away."""

    def state(self):
        return {"names": {1, 2}}

    def on_train_result(self, *, result, **more):
        del result["date"]


def hooks(kind):
    return Hooks(name_of(kind))


def test_a_class_is_found_under_its_name_and_a_name_is_left_as_it_is():
    assert register_callbacks("noting", Noting) is Noting
    assert (name_of(Noting), name_of("noting"), name_of(None)) == ("Noting", "noting", None)
    assert callbacks.make(SACConfig(callbacks="Noting")).name == "Noting"
    assert callbacks.make(SACConfig()) is None


@pytest.mark.parametrize("thing", [dict, Noting(), "noting"])
def test_what_is_no_subclass_is_refused(thing):
    with pytest.raises(InputError, match="is not a subclass of drl_cli.Callbacks"):
        register_callbacks("thing", thing)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("on_postprocess_trajectory", "on_postprocess_trajectory is no hook. Did you mean 'on_postprocess'"),
        ("on_episode_begin", "on_episode_begin is no hook. Did you mean 'on_episode_"),
    ],
)
def test_a_method_that_looks_like_a_hook_and_is_none_is_refused(method, text):
    with pytest.raises(InputError, match=text):
        register_callbacks("typo", type("Typo", (Callbacks,), {method: lambda self, **more: None}))


def test_an_unknown_name_is_one_line_with_the_nearest():
    (line,) = callbacks.problems(SACConfig(callbacks="notign"), table.find("SAC"))
    assert line.startswith("callbacks: No class of callbacks is registered as 'notign'. Did you mean 'noting'?")
    with pytest.raises(ConfigError, match="callbacks: No class of callbacks is registered as 'notign'"):
        Hooks("notign")


def test_hooks_on_steps_are_refused_where_no_steps_are_sent():
    (line,) = callbacks.problems(ESConfig(callbacks="shaping"), table.find("ES"))
    assert line.startswith("callbacks: shaping has on_postprocess, and ES has nothing to call it with")
    assert callbacks.problems(ESConfig(callbacks="noting"), table.find("ES")) == []
    assert callbacks.problems(SACConfig(callbacks="shaping"), table.find("SAC")) == []


def test_a_hook_that_raises_ends_the_run_with_its_file_and_line():
    class Episode:
        length = 1

    with pytest.raises(PluginFailed) as caught:
        Hooks("failing").call("on_episode_step", episode=Episode())
    source = Path(watched_callbacks.__file__).read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(source, 1) if "raise KeyError" in text)
    assert str(caught.value) == (
        f"callbacks 'failing': on_episode_step failed: KeyError: 'motor' ({watched_callbacks.__file__}:{line})."
    )
    assert isinstance(caught.value, RunFailed) and caught.value.exit_code == 3
    assert Failing.after == 0


def test_a_hook_with_other_arguments_is_named_with_the_line_where_it_begins():
    with pytest.raises(
        PluginFailed,
        match=r"on_train_result failed: TypeError: .*unexpected keyword argument .* \(.*test_callbacks.py:\d+\)",
    ):
        hooks(Wanted).call("on_train_result", result={})


def test_callbacks_that_cannot_be_made_end_the_run_in_one_line():
    with pytest.raises(
        PluginFailed, match=r"callbacks 'Costly' failed: OSError: no licence \(.*test_callbacks.py:\d+\)"
    ):
        hooks(Costly)


def test_only_hooks_that_do_something_are_called():
    made = hooks(Noting)
    assert made.has("on_episode_start", "on_postprocess") and not made.has("on_postprocess", "on_train_result")
    made.call("on_postprocess", nothing="that anybody would take")


def test_state_must_be_plain_data():
    with pytest.raises(PluginFailed, match="callbacks 'Unkept': state is no plain data"):
        hooks(Unkept).state()
    made = hooks(Noting)
    made.load({"steps": 4})
    assert made.state() == {"steps": 4}
    made.load(None)
    assert made.state() == {"steps": 4}


def test_a_result_keeps_what_it_had():
    with pytest.raises(PluginFailed, match="'Unkept': on_train_result removed date from the result"):
        hooks(Unkept).train_result({"date": "today", "pid": 3})
