"""ExternalWorker: what clients of the policy server do is what is learnt from, and no client harms another one.

The clients here are written with ``http.client`` alone, from docs/external_simulators.rst.
"""

import http.client
import json
import threading
import time

import numpy as np
import psutil
import pytest

from drl_cli.actors import policy_server
from drl_cli.actors.external_worker import ExternalWorker
from drl_cli.algorithms import table
from drl_cli.config.sections.served_input import PolicyServerConfig
from drl_cli.errors import ClusterUnavailable, ConfigError
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from tests.actors import parts

TOKEN = "a token of this test"
OBS = {"kind": "Box", "shape": [2], "dtype": "float32", "low": [None, None], "high": [None, None]}
CHOICE = {"kind": "Discrete", "n": 3, "start": 5, "shape": [], "dtype": "int64"}
BOX = {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]}
KEYS = {"num_envs_per_worker": 2, "rollout_fragment_length": 4}


class Client:
    """One connection."""

    def __init__(self, url, token=TOKEN):
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        self._headers = {"Authorization": f"Bearer {token}"}

    def post(self, command, expect=200, **body):
        """Return the answer to ``command``, the text of the error where another status is expected."""
        self._connection.request("POST", f"/v1/{command}", json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status == expect, found
        return found if expect == 200 else found["error"]

    def act(self, episode, obs, reward=0.0, **expected):
        return self.post("get_action", episode_id=episode, observation=obs, reward=reward, **expected)

    def get(self):
        self._connection.request("GET", "/v1", headers=self._headers)
        return json.loads(self._connection.getresponse().read())


class Served:
    """A worker whose ``collect`` is called again and again in a thread, as a loop does; the fragments that came."""

    def __init__(self, name, action=CHOICE, **keys):
        row = table.find(name)
        config = load(row.config).model_validate({**KEYS, "policy_server": {"port": 0} | keys.pop("served", {})} | keys)
        spaces = {"obs": OBS, "action": action, "frames": 1}
        self.spec = load(row.nets).policy_spec(config, spaces)
        server = parts.server()
        self.weights = load(row.nets).initial_weights(config, self.spec, 3)
        weights = {name: self.weights[name] for name in self.spec.weight_names()}
        server.call("push", {DEFAULT_POLICY: weights}).result()
        place = {"random_steps": 0, "stream": 0, "streams": 2, "base": 0}
        identity = {"seed": 7, "index": 0, "incarnation": 0} | place
        self.worker = ExternalWorker(
            config, {"id": "x", "env_config": {}, "spaces": spaces}, self.spec, identity, server
        )
        self.tokens, self.fragments, self._is_over = [], [], False
        self.noted = threading.Event()  # a token brought a note
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self):
        while not self._is_over:
            token, columns = self.worker.collect()
            if columns is not None:
                self.tokens.append(token)
                self.fragments.append(columns)
                if token.notes:
                    self.noted.set()

    def stop(self):
        """Return the tokens and fragments, all of them."""
        self._is_over = True
        self._thread.join()
        return self.tokens, self.fragments

    def client(self, **how):
        return Client(self.worker.url, **how)


@pytest.fixture
def serve(monkeypatch):
    """Function (algorithm, action space, **keys) → a Served, which is closed after the test."""
    monkeypatch.setenv("DRL_POLICY_TOKEN", TOKEN)
    made = []

    def start(*args, **keys):
        made.append(Served(*args, **keys))
        return made[-1]

    yield start
    for one in made:
        one.stop()
        one.worker.close()


def play(client, episode, steps, first=0.0, **end):
    """Play an episode whose observations are [number of the step, first]; returns its actions."""
    actions = []
    for step in range(steps):
        actions.append(client.act(episode, [float(step), first], reward=10.0 * step if step else 0.0)["action"])
    client.post("end_episode", episode_id=episode, observation=[float(steps), first], reward=10.0 * steps, **end)
    return actions


def rows_of(fragments):
    """Return the steps of each stream, in order: (obs, action, reward, terminated, truncated), of several fragments."""
    found = {}
    for columns in fragments:
        lengths = columns.get("steps", [len(columns["reward"])] * columns["reward"].shape[1])
        for stream, length in enumerate(lengths):
            for step in range(int(length)):
                values = (
                    columns[name][step, stream] for name in ("obs", "action", "reward", "terminated", "truncated")
                )
                found.setdefault(stream, []).append([value.tolist() for value in values])
    return found


def test_episodes_of_two_clients_become_the_steps_of_two_streams(serve):
    served = serve("DQN")
    one, two = served.client(), served.client()
    first = one.post("start_episode", episode_id="one")["episode_id"]
    second = two.post("start_episode")["episode_id"]
    assert first == "one" and len(second) == 16
    actions = [play(one, first, 3, 1.0), play(two, second, 2, 2.0, truncated=True)]
    tokens, fragments = served.stop()
    assert set(actions[0] + actions[1]) <= {5, 6, 7}
    rows = rows_of(fragments)
    assert rows[0] == [
        [[0.0, 1.0], actions[0][0] - 5, 10.0, False, False],
        [[1.0, 1.0], actions[0][1] - 5, 20.0, False, False],
        [[2.0, 1.0], actions[0][2] - 5, 30.0, True, False],
    ]
    assert [row[0] for row in rows[1]] == [[0.0, 2.0], [1.0, 2.0]]
    assert rows[1][-1][3:] == [False, True]
    ends = np.concatenate([columns["end_obs"] for columns in fragments])
    assert sorted(map(tuple, ends.tolist())) == [(2.0, 2.0), (3.0, 1.0)]
    assert sorted(episode for token in tokens for episode in token.episodes) == [(30.0, 2), (60.0, 3)]
    assert sum(token.steps for token in tokens) == 5


def test_on_policy_fragments_have_exactly_their_steps_end_to_end(serve):
    served = serve("PPO")
    client = served.client()
    name = client.post("start_episode")["episode_id"]
    for step in range(17):
        client.act(name, [float(step), 0.0], reward=float(step))
    tokens, fragments = served.stop()
    assert [token.steps for token in tokens] == [8, 8]
    first = fragments[0]
    assert first["reward"].shape == (4, 2) and first["logp"].shape == (4, 2)
    assert first["obs"][:, :, 0].tolist() == [[0.0, 4.0], [1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]
    assert first["reward"].tolist() == [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]]
    assert first["tail_obs"][:, 0].tolist() == [4.0, 8.0]
    assert not first["truncated"].any() and len(first["end_obs"]) == 0
    assert fragments[1]["obs"][0, 0, 0] == 8.0


def test_silent_client_loses_its_episode_and_nobody_else_does(serve):
    served = serve("DQN", served={"episode_timeout_s": 0.3})
    gone, other = served.client(), served.client()
    lost, kept = gone.post("start_episode")["episode_id"], other.post("start_episode")["episode_id"]
    gone.act(lost, [0.0, 0.0])
    gone.act(lost, [1.0, 0.0], reward=4.0)
    acts = 0
    while not served.noted.wait(0.02) and acts < 1000:
        other.act(kept, [0.0, 9.0])
        acts += 1
    other.act(kept, [0.0, 9.0])
    assert gone.act(lost, [2.0, 0.0], expect=404).startswith("There is no such episode: it was never started, has")
    tokens, fragments = served.stop()
    (note,) = [note for token in tokens for note in token.notes]
    assert note == f"policy server: the episode {lost!r} was truncated: no request for 0.3 s."
    stream = next(rows for rows in rows_of(fragments).values() if rows[0][0] == [0.0, 0.0])
    assert stream == [[[0.0, 0.0], stream[0][1], 4.0, False, stream[0][4]]]
    assert not any(token.bad_transitions for token in tokens)


def test_wrong_token_is_refused_before_anything_is_read(serve):
    served = serve("DQN")
    text = served.client(token="a token of that test").post("start_episode", expect=401)
    assert text == "The token is missing or wrong: send the header 'Authorization: Bearer TOKEN'."
    assert served.client().get() == {"protocol": 1, "observation_space": OBS, "action_space": CHOICE}


def test_body_that_is_too_large_is_refused(serve):
    served = serve("DQN")
    assert served.client().post("start_episode", expect=413, more="x" * 10_000).startswith("The body has 100")
    assert served.client().post("start_episode")


def test_client_that_stops_in_its_body_holds_nobody_up(serve):
    served = serve("DQN")
    slow = http.client.HTTPConnection(served.worker.url.removeprefix("http://"), timeout=20)
    slow.putrequest("POST", "/v1/start_episode")
    slow.putheader("Authorization", f"Bearer {TOKEN}")
    slow.putheader("Content-Length", "100")
    slow.endheaders(b'{"episode_id":')
    other = served.client()
    assert play(other, other.post("start_episode")["episode_id"], 2)
    slow.close()


def test_episode_id_that_is_running_is_refused(serve):
    served = serve("DQN")
    client = served.client()
    client.post("start_episode", episode_id="mine")
    assert client.post("start_episode", episode_id="mine", expect=409) == (
        "The episode 'mine' is running; choose another episode_id."
    )
    client.act("mine", [0.0, 0.0])


def test_more_episodes_than_streams_have_to_wait(serve):
    served = serve("DQN")
    client = served.client()
    names = [client.post("start_episode")["episode_id"] for _ in range(2)]
    assert "2 episodes are running, the most at once (num_envs_per_worker)" in client.post("start_episode", expect=503)
    play(client, names[0], 1)
    assert client.post("start_episode")


@pytest.mark.parametrize(
    ("command", "body", "text"),
    [
        ("get_action", {"observation": [1.0]}, "observation has the shape [1]; the space says [2]."),
        ("get_action", {"observation": [1.0, "x"]}, "observation must be a JSON array of numbers of shape [2]."),
        ("get_action", {"observation": [1.0, float("nan")]}, "observation holds numbers that are not finite."),
        ("get_action", {"observation": [1.0, 2.0], "reward": "a"}, "reward must be one finite number."),
        ("get_action", {}, "observation has the shape []; the space says [2]."),
        (
            "log_action",
            {"observation": [1.0, 2.0], "action": 8},
            "action: 8 is not within the action space, from 5 to 7.",
        ),
        ("log_action", {"observation": [1.0, 2.0], "action": 5.5}, "action: 5.5 is no whole number."),
        ("end_episode", {"observation": [1.0, 2.0], "truncated": 1}, "truncated must be true or false."),
        ("start_episode", {"episode_id": 7}, "episode_id must be a string of 1 to 100 characters."),
    ],
)
def test_request_that_does_not_fit_is_refused_and_the_episode_goes_on(serve, command, body, text):
    served = serve("DQN")
    client = served.client()
    client.post("start_episode", episode_id="mine")
    assert client.post(command, expect=400, **{"episode_id": "mine"} | body) == text
    client.act("mine", [0.0, 0.0])


def test_unknown_command_names_those_that_there_are(serve):
    text = serve("DQN").client().post("reset", expect=404)
    assert text.startswith("There is no /v1/reset; POST /v1/COMMAND, one of start_episode, get_action")


def test_clients_own_actions_are_learnt_from_off_policy_and_refused_on_policy(serve):
    served = serve("TD3", BOX)
    client = served.client()
    client.post("start_episode", episode_id="mine")
    client.post("log_action", episode_id="mine", observation=[0.0, 0.0], action=[1.0])
    client.post("log_returns", episode_id="mine", reward=2.0)
    client.post("end_episode", episode_id="mine", observation=[1.0, 0.0], reward=1.0)
    _, fragments = served.stop()
    assert rows_of(fragments) == {0: [[[0.0, 0.0], [0.5], 3.0, True, False]]}
    other = serve("PPO").client()
    other.post("start_episode", episode_id="mine")
    text = other.post("log_action", expect=400, episode_id="mine", observation=[0.0, 0.0], action=5)
    assert text == "log_action: this algorithm learns only from actions of its own policy; use get_action."


def test_episodes_without_training_are_greedy_and_only_scored(serve):
    served = serve("DQN", exploration_config={"initial_epsilon": 1.0, "final_epsilon": 1.0})
    client = served.client()
    client.post("start_episode", episode_id="scored", training_enabled=False)
    actions = {client.act("scored", [1.0, 2.0], reward=1.0)["action"] for _ in range(30)}
    client.post("end_episode", episode_id="scored", observation=[1.0, 2.0])
    assert len(actions) == 1
    trained = client.post("start_episode")["episode_id"]
    assert len({client.act(trained, [1.0, 2.0])["action"] for _ in range(30)}) == 3
    client.post("end_episode", episode_id=trained, observation=[1.0, 2.0])
    tokens, _ = served.stop()
    assert [scored for token in tokens for scored in token.scored] == [(30.0, 30)]
    assert [episode for token in tokens for episode in token.episodes] == [(0.0, 30)]
    assert sum(token.steps for token in tokens) == 30


def test_worker_returns_soon_when_no_client_comes(serve):
    served = serve("PPO")
    served.stop()
    began = time.monotonic()
    token, columns = served.worker.collect()
    assert (token.steps, columns) == (0, None)
    assert time.monotonic() - began < 10


def test_state_is_loaded_without_the_episodes_that_were_running(serve):
    served = serve("DQN")
    client = served.client()
    client.post("start_episode", episode_id="mine")
    for step in range(9):
        client.act("mine", [float(step), 0.0])
    tokens, _ = served.stop()
    other = serve("DQN")
    other.stop()
    assert other.worker.load(*served.worker.state()) == 1
    token, columns = other.worker.collect()
    assert (token.meta.sequence, columns) == (len(tokens), None)


def listening():
    found = psutil.Process().net_connections("inet")
    return {tuple(one.laddr) for one in found if one.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize(("served", "address"), [({}, "127.0.0.1"), ({"address": "0.0.0.0"}, "0.0.0.0")])
def test_server_listens_on_loopback_alone_unless_an_address_is_given(serve, served, address):
    before = listening()
    port = int(serve("DQN", served=served).worker.url.rpartition(":")[2])
    assert listening() - before == {(address, port)}


def test_port_that_is_in_use_is_one_line(serve):
    port = int(serve("DQN").worker.url.rpartition(":")[2])
    with pytest.raises(ClusterUnavailable, match=f"policy_server: 127.0.0.1 port {port} cannot be listened on"):
        serve("DQN", served={"port": port})


def test_token_is_made_for_its_owner_alone(tmp_path, monkeypatch):
    path = tmp_path / "token"
    config = PolicyServerConfig(token_file=str(path))
    token = policy_server.token_of(config)
    assert len(token) >= 32 and path.stat().st_mode & 0o777 == 0o600
    assert policy_server.token_of(config) == token and list(tmp_path.iterdir()) == [path]
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"can be read by others \(mode 0640\). Type: chmod 600"):
        policy_server.token_of(config)
    monkeypatch.delenv("DRL_POLICY_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="clients need a token. Set policy_server.token_file to a file"):
        policy_server.token_of(PolicyServerConfig())
    monkeypatch.setenv("DRL_POLICY_TOKEN", "short")
    with pytest.raises(ConfigError, match="a token has at least 16 printable ASCII characters"):
        policy_server.token_of(PolicyServerConfig())
