"""Loggers by name: registered ones, wandb, mlflow and aim over fakes of their packages, ids that outlive a run, failures."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from drl_cli import events
from drl_cli.errors import InputError
from drl_cli.runs import loggers
from drl_cli.runs.loggers import custom_loggers

pytestmark = pytest.mark.usefixtures("plug_ins")
FACTS = {
    "run": "PPO",
    "env": "CartPole-v1",
    "experiment": "tries",
    "seed": 7,
    "config": {"lr": 0.001, "model": {"fcnet_hiddens": [16, 16]}, "horizon": None},
}
ROW = {"training_iteration": 1, "timesteps_total": 1000, "done": False, "date": "now", "evaluation": {"mean": 2.5}}
NUMBERS = {"training_iteration": 1, "timesteps_total": 1000, "evaluation/mean": 2.5}


class Noting:
    """A logger that notes what happens to it; raises where ``fails`` names what is called."""

    made, fails = [], ()

    def __init__(self, folder, facts, resumed):
        self.rows, self.given, self.closed = [], (folder, facts, resumed), False
        self.made.append(self)
        self._may("make")

    def write(self, result):
        self.rows.append(result)
        self._may("write")

    def close(self):
        self.closed = True
        self._may("close")

    def _may(self, what):
        if what in self.fails:
            raise ConnectionError(f"no {what} today")


@pytest.fixture
def warnings():
    seen = []
    unsubscribe = events.subscribe(lambda kind, fields: seen.append(fields["text"]) if kind == "warning" else None)
    yield seen
    unsubscribe()


@pytest.fixture
def noting(monkeypatch):
    monkeypatch.setattr(Noting, "made", [])
    monkeypatch.setattr(Noting, "fails", ())
    return custom_loggers.register_logger("noting", Noting)


@pytest.fixture
def package(monkeypatch):
    """Function (name, **members) that puts a fake package, and what loads it anew, in the place of a real one."""

    def put(name, **members):
        parts = name.split(".")
        module = ModuleType(name)
        module.__dict__.update(members)
        module.__spec__ = SimpleNamespace(name=name)
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.delitem(sys.modules, f"drl_cli.runs.loggers.to_{parts[0]}", raising=False)
        return module

    return put


def run(folder, name, rows=(ROW,), resumed=False):
    made = loggers.Loggers(folder, None, FACTS, (name,), resumed)
    for row in rows:
        made.write(row)
    made.close()


def test_a_registered_logger_gets_folder_facts_every_result_and_the_end(noting, tmp_path, warnings):
    run(tmp_path, "noting", [ROW, {**ROW, "training_iteration": 2}], resumed=True)
    (one,) = noting.made
    assert one.given == (tmp_path, FACTS, True) and one.closed
    assert [row["training_iteration"] for row in one.rows] == [1, 2] and one.rows[0] == ROW
    assert warnings == []


@pytest.mark.parametrize("what", ["make", "write", "close"])
def test_a_logger_that_fails_is_one_warning_and_the_files_are_whole(what, noting, tmp_path, warnings):
    noting.fails = (what,)
    run(tmp_path, "noting", [ROW, ROW, ROW])
    (warning,) = warnings
    assert warning.startswith(f"logger noting cannot be written (ConnectionError: no {what} today ({__file__}:")
    assert warning.endswith("); training continues without it")
    assert len(loggers.read_rows(tmp_path)) == 3
    assert len(noting.made[0].rows) == (0 if what == "make" else 3)


def test_a_logger_may_change_its_row_and_no_other(noting, tmp_path):
    custom_loggers.register_logger("greedy", type("Greedy", (Noting,), {"write": lambda self, result: result.clear()}))
    made = loggers.Loggers(tmp_path, None, FACTS, ("greedy", "noting"))
    made.write(ROW)
    made.close()
    assert noting.made[1].rows == [ROW] and loggers.read_rows(tmp_path) == [ROW]


@pytest.mark.parametrize("thing", [3, print, {}, type("Half", (), {"write": lambda self, result: None})])
def test_what_cannot_log_is_refused(thing):
    with pytest.raises(InputError, match="is no logger: a class with write\\(result\\) and close\\(\\)"):
        custom_loggers.register_logger("thing", thing)


def test_the_names_of_those_that_come_along_are_taken():
    with pytest.raises(InputError, match="'wandb' is the name of a logger that comes with drl"):
        custom_loggers.register_logger("wandb", Noting)


def test_problems_are_said_before_a_run(noting, monkeypatch):
    monkeypatch.setattr(custom_loggers, "find_spec", lambda name: None)
    assert custom_loggers.problems(["noting", "wandb"]) == [
        "logger wandb: the package wandb is not installed. Run: pip install 'drl-cli[wandb]'"
    ]
    (line,) = custom_loggers.problems(["notting"])
    assert line.startswith("logger: 'notting' is neither aim, ") and "Did you mean 'noting'?" in line
    monkeypatch.setattr(custom_loggers, "find_spec", lambda name: object())
    assert custom_loggers.problems(["wandb", "mlflow", "aim"]) == []


class Wandb:
    """wandb.init and the run that it returns."""

    def __init__(self):
        self.inits, self.defined, self.logged, self.finished = [], [], [], 0

    def init(self, **given):
        self.inits.append(given)
        return self

    def define_metric(self, name, step_metric=None):
        self.defined.append((name, step_metric))

    def log(self, row):
        self.logged.append(row)

    def finish(self):
        self.finished += 1


def test_wandb_gets_config_and_numbers_and_a_resumed_run_is_the_same_there(package, tmp_path, monkeypatch, warnings):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    fake = Wandb()
    package("wandb", init=fake.init, Settings=lambda **given: given)
    run(tmp_path, "wandb")
    run(tmp_path, "wandb", resumed=True)
    first, second = fake.inits
    assert (first["project"], first["group"], first["name"]) == ("drl", "tries", tmp_path.name)
    assert first["config"] == {
        "run": "PPO",
        "env": "CartPole-v1",
        "lr": 0.001,
        "model/fcnet_hiddens": [16, 16],
        "horizon": None,
    }
    assert first["id"] == second["id"] == json.loads((tmp_path / "loggers.json").read_text())["wandb"]
    assert (first["resume"], len(first["id"])) == ("allow", 8)
    assert fake.logged == [NUMBERS, NUMBERS] and fake.finished == 2
    assert fake.defined[:2] == [("timesteps_total", None), ("*", "timesteps_total")]
    run(tmp_path, "wandb")  # anew, in whatever folder
    assert fake.inits[2]["id"] != first["id"] and warnings == []


class Mlflow:
    """MlflowClient, one store for all of them."""

    def __init__(self):
        self.experiments, self.runs, self.batches, self.states = {}, [], [], []

    def get_experiment_by_name(self, name):
        found = self.experiments.get(name)
        return found and SimpleNamespace(experiment_id=found)

    def create_experiment(self, name):
        self.experiments[name] = str(len(self.experiments) + 1)
        return self.experiments[name]

    def create_run(self, experiment, run_name, tags):
        self.runs.append((experiment, run_name, tags["run"]))
        return SimpleNamespace(info=SimpleNamespace(run_id=f"run{len(self.runs)}"))

    def log_batch(self, run, metrics=(), params=()):
        self.batches.append((run, [(m.key, m.value, m.step) for m in metrics], {p.key: p.value for p in params}))

    def set_terminated(self, run, status=None):
        self.states.append((run, status))


def test_mlflow_gets_params_and_metrics_and_a_resumed_run_is_the_same_there(package, tmp_path, monkeypatch, warnings):
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    fake = Mlflow()
    entities = {
        "Metric": lambda key, value, timestamp, step: SimpleNamespace(key=key, value=value, step=step),
        "Param": lambda key, value: SimpleNamespace(key=key, value=value),
    }
    package("mlflow", MlflowClient=lambda: fake)
    package("mlflow.entities", **entities)
    package("mlflow.exceptions", MlflowException=type("MlflowException", (Exception,), {}))
    run(tmp_path, "mlflow")
    run(tmp_path, "mlflow", resumed=True)
    assert fake.runs == [("1", tmp_path.name, "PPO")] and fake.experiments == {"tries": "1"}
    assert json.loads((tmp_path / "loggers.json").read_text()) == {"mlflow": "run1"}
    params, first, second = fake.batches
    assert params[2]["model/fcnet_hiddens"] == "[16, 16]" and params[2]["lr"] == "0.001"
    assert first == second == ("run1", [(name, float(value), 1000) for name, value in NUMBERS.items()], {})
    assert fake.states == [("run1", None), ("run1", "RUNNING"), ("run1", None)] and warnings == []


class AimRun(dict):
    """aim.Run."""

    made = []

    def __init__(self, known, repo, experiment, **_):
        super().__init__()
        self.known, self.experiment, self.hash, self.tracked, self.closed = known, experiment, known or "abc", [], False
        self.made.append(self)

    def track(self, value, name, step):
        self.tracked.append((name, value, step))

    def close(self):
        self.closed = True


def test_aim_gets_config_and_numbers_and_a_resumed_run_is_the_same_there(package, tmp_path, warnings):
    package("aim", Run=AimRun)
    run(tmp_path, "aim")
    run(tmp_path, "aim", resumed=True)
    first, second = AimRun.made
    assert (first.known, second.known, first.experiment, first.name) == (None, "abc", "tries", tmp_path.name)
    assert first["hparams"]["lr"] == 0.001 and first["hparams"]["env"] == "CartPole-v1"
    assert first.tracked == second.tracked == [(name, value, 1000) for name, value in NUMBERS.items()]
    assert first.closed and second.closed and warnings == []


def test_a_package_that_raises_is_one_warning(package, tmp_path, warnings):
    package("wandb", init=lambda **given: 1 / 0, Settings=lambda **given: None)
    run(tmp_path, "wandb")
    (warning,) = warnings
    assert warning.startswith(f"logger wandb cannot be written (ZeroDivisionError: division by zero ({__file__}:")
