"""A ring of steps in stream order, from which n-step transitions are read by index arithmetic.

Every step of every environment is one row; ``link`` holds the row of the step that followed it. The observation behind
an episode's last step is a row of its own (an *end* row), so that ``obs[link[i]]`` is always the real next
observation, never one after a reset, and frames are stored once. The last steps of a stream have no successor yet
(link −1): windows that would need it are not drawn until it has come, so that fragment borders change nothing.

A successor is always written later than its step and is therefore overwritten later: a row that is still there
finds its whole window. Rows wander over one ring for all workers, whatever their number.
"""

import numpy as np

from drl_cli.data.columns import BATCH

STEP, ENDED, TERMINATED = 1, 2, 4  # bits of `flags`; an end row has none of them
NONE = -1
COLUMNS = ("obs", "action", "reward", "link", "flags")
MAX_DRAWS = 1000  # rounds of drawing before it is plain that hardly any window is complete


class Ring:
    """Rows of (obs, action, reward) with links; fixed capacity, the oldest rows make room."""

    def __init__(self, capacity, obs_shape, action_shape):
        """``capacity`` counts rows: env steps plus one for every episode's last observation."""
        self.capacity = capacity
        self.written = 0  # rows ever written; the next one goes to written % capacity
        self.obs = np.empty((capacity, *obs_shape), np.float32)
        self.action = np.empty((capacity, *action_shape), np.float32)
        self.reward = np.empty(capacity, np.float32)
        self.link = np.full(capacity, NONE, np.int32)
        self.flags = np.zeros(capacity, np.uint8)
        self._heads = {}  # (worker, env) -> (serial number of the stream's last step, its next observation)

    def __len__(self):
        """Rows present."""
        return min(self.written, self.capacity)

    def add(self, worker, columns):
        """Append a fragment (``data.columns.FRAGMENT``) of ``worker``."""
        steps, envs = columns["reward"].shape
        ended = columns["terminated"] | columns["truncated"]
        self._join(worker, columns["obs"][0], columns["cut"])
        first = self.written
        rows = self._reserve(steps * envs)
        flat = {
            name: columns[name].reshape(steps * envs, *columns[name].shape[2:]) for name in ("obs", "action", "reward")
        }
        self.obs[rows], self.action[rows], self.reward[rows] = flat["obs"], flat["action"], flat["reward"]
        self.flags[rows] = STEP + ENDED * ended.ravel() + TERMINATED * columns["terminated"].ravel()
        serials = first + np.arange(steps * envs)
        following = (serials + envs) % self.capacity
        following[-envs:] = NONE
        self.link[rows] = following
        which = np.flatnonzero(ended.ravel())
        if len(which):
            self.link[rows[which]] = self._end_rows(columns["end_obs"])
        for env in range(envs):
            if not ended[-1, env]:
                serial = first + (steps - 1) * envs + env
                self._heads[worker, env] = (serial, columns["tail_obs"][env].copy())

    def cut(self, worker):
        """End the streams of ``worker``: what it sends from now on does not continue them."""
        for env in [env for stream, env in self._heads if stream == worker]:
            self._end(worker, env)

    def workers(self):
        """Return the workers whose streams may go on."""
        return sorted({worker for worker, _ in self._heads})

    def _join(self, worker, first_obs, cut):
        """Link the heads of the worker's streams to the fragment that is about to be written, or end them."""
        for env in range(len(first_obs)):
            if cut[env]:
                self._end(worker, env)
        start = self.written
        for env in range(len(first_obs)):
            head = self._heads.pop((worker, env), None)
            if head is not None and head[0] > start - self.capacity:
                self.link[head[0] % self.capacity] = (start + env) % self.capacity

    def _end(self, worker, env):
        serial, next_obs = self._heads.pop((worker, env), (None, None))
        if serial is None or serial <= self.written - self.capacity:
            return
        row = serial % self.capacity
        self.flags[row] |= ENDED
        self.link[row] = self._end_rows(next_obs[None])[0]

    def _end_rows(self, obs):
        """Write ``obs`` [E, …] as end rows; returns where they are."""
        rows = self._reserve(len(obs))
        # Nobody reads their actions and rewards, but a checkpoint holds them: equal runs have equal bytes.
        self.obs[rows], self.action[rows], self.reward[rows] = obs, 0.0, 0.0
        self.link[rows], self.flags[rows] = NONE, 0
        return rows

    def _reserve(self, count):
        rows = (self.written + np.arange(count)) % self.capacity
        self.written += count
        return rows

    def windows(self, rows, n_step, gamma):
        """Follow up to ``n_step`` steps from each of ``rows`` (int [M]).

        Returns (reward [M] float32, discount [M] float32, last [M] int: the row behind the window, valid [M] bool).
        A window ends where the episode does, terminated or truncated; the exponent of γ is its number of real steps.
        """
        reward = np.zeros(len(rows), np.float64)
        factor = np.ones(len(rows), np.float64)
        valid = (self.flags[rows] & STEP) > 0
        alive = valid.copy()
        at = rows.copy()
        terminated = np.zeros(len(rows), bool)
        for _ in range(n_step):
            flags, following = self.flags[at], self.link[at]
            reward += np.where(alive, factor * self.reward[at], 0.0)
            factor = np.where(alive, factor * gamma, factor)
            terminated |= alive & ((flags & TERMINATED) > 0)
            valid &= ~alive | (following != NONE)
            at = np.where(alive & (following != NONE), following, at)
            alive &= (flags & ENDED) == 0
        return reward.astype(np.float32), (factor * ~terminated).astype(np.float32), at, valid

    def draw(self, count, n_step, gamma, rng):
        """Return ``count`` transitions drawn uniformly from all complete windows, as {column: array [count, …]}."""
        chosen, found = [], 0
        for _ in range(MAX_DRAWS):
            rows = rng.integers(0, len(self), size=count - found + count // 16 + 8)
            reward, discount, last, valid = self.windows(rows, n_step, gamma)
            keep = np.flatnonzero(valid)[: count - found]
            chosen.append((rows[keep], reward[keep], discount[keep], last[keep]))
            found += len(keep)
            if found >= count:
                break
        else:
            raise ValueError(f"no {count} complete windows of {n_step} steps in {len(self)} rows")
        rows, reward, discount, last = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        batch = (self.obs[rows], self.action[rows], reward, discount, self.obs[last])
        return dict(zip(BATCH, batch, strict=True))

    def state(self):
        """Return ({name: array}, {name: plain data}): the rows present and the heads of the streams."""
        size = len(self)
        arrays = {name: getattr(self, name)[:size] for name in COLUMNS}
        heads = sorted(self._heads)
        shape = (0, *self.obs.shape[1:])
        arrays["head_obs"] = np.stack([self._heads[h][1] for h in heads]) if heads else np.zeros(shape, np.float32)
        facts = {"written": self.written, "capacity": self.capacity, "heads": [[*h, self._heads[h][0]] for h in heads]}
        return arrays, facts

    def load(self, arrays, facts):
        """Restore what ``state`` returned; ValueError, and nothing changed, when it does not fit or cannot be a ring's."""
        if facts["capacity"] != self.capacity:
            raise ValueError(f"a replay of {facts['capacity']} rows; this run's buffer_size is {self.capacity}")
        written, heads = facts["written"], facts["heads"]
        if not isinstance(written, int) or written < 0:
            raise ValueError(f"written is {str(written)[:40]!r}, no number of rows")
        if not isinstance(heads, list) or not all(_is_head(head, written) for head in heads):
            raise ValueError("a head of its streams is no step that was written")
        size = min(written, self.capacity)
        for name in COLUMNS:
            mine = getattr(self, name)
            _expect(name, arrays, (size, *mine.shape[1:]), mine.dtype)
        _expect("head_obs", arrays, (len(heads), *self.obs.shape[1:]), self.obs.dtype)
        if size and (arrays["link"].min() < NONE or arrays["link"].max() >= size):
            raise ValueError("a link of the replay points outside of it")
        if size and arrays["flags"].max() > STEP | ENDED | TERMINATED:
            raise ValueError("flags of the replay that this version does not know")
        for name in COLUMNS:
            getattr(self, name)[:size] = arrays[name]
        self.written = written
        rows = zip(heads, arrays["head_obs"], strict=True)
        self._heads = {(worker, env): (serial, obs.copy()) for (worker, env, serial), obs in rows}


def _is_head(head, written):
    whole = isinstance(head, list) and len(head) == 3 and all(isinstance(number, int) for number in head)
    return whole and 0 <= head[2] < written


def _expect(name, arrays, shape, dtype):
    found = (arrays[name].shape, arrays[name].dtype) if name in arrays else "nothing"
    if found != (shape, dtype):
        raise ValueError(f"replay column {name}: {found}, expected {(shape, dtype)}")
