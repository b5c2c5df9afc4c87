"""RLlib's batches, one a line, cut into parts of episodes. Used by ``json_lines``.

What RLlib 0.8 to 1.13 writes: ``{"type": "SampleBatch", column: values, …}``, or ``{"type": "MultiAgentBatch", "count": n,
"policy_batches": {policy id: {column: values}}}``, where a SampleBatch is of the policy ``default_policy``. Rows are steps of
one or several environments, one after the other or interleaved; ``eps_id`` and ``agent_index`` say to which episode each
belongs, ``t`` how many steps of it come before.

Deviations
- ``dones`` include time limits: an episode that ends at exactly the length of one was truncated, unless the columns
  ``terminateds`` and ``truncateds`` (of later versions, and of what is recorded here) or ``infos`` say more.
- Rows whose ``new_obs`` is several steps away are refused: DQN and its kin recorded sums of n_step rewards with them.
- ``t`` of several agents counts env steps in RLlib's files; there ``new_obs`` decides where rows come apart.
- Observations that a filter has normalised look like any others; ours are raw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.errors import suggestion
from drl_cli.experience.recorded.decode import Reader
from drl_cli.experience.recorded.pieces import Part, Piece

if TYPE_CHECKING:
    from drl_cli.experience.recorded.pieces import Layout

POLICY = "default_policy"
LOOK_AHEAD = 20  # rows within which the observation of an n-step transition is looked for
_ENDS = ("dones", "terminateds", "truncateds")


def parts(data: dict[str, Any], layout: Layout, where: str, notes: list[str]) -> list[Part]:
    """Return the Parts in the line ``data`` (dict). Raises ExperienceError."""
    reader = Reader(layout, where)
    columns = _columns(data, reader)
    return [] if columns is None else _Batch(columns, reader, notes).parts()


def _columns(data: dict[str, Any], reader: Reader) -> dict[str, Any] | None:
    """Return {column: values} of the policy of the layout, None where a line has no steps of it."""
    kind, wanted = data["type"], reader.layout.policies
    if kind == "SampleBatch" and not wanted:
        return data
    if kind == "SampleBatch":
        data, kind = {"policy_batches": {POLICY: data}}, "MultiAgentBatch"
    if kind != "MultiAgentBatch":
        known = ("SampleBatch", "MultiAgentBatch")
        reader.refuse(f"type: {str(kind)[:60]!r} is unknown. Known: {', '.join(known)}.{suggestion(kind, known)}")
    policies = data.get("policy_batches")
    if not isinstance(policies, dict) or not all(isinstance(columns, dict) for columns in policies.values()):
        reader.refuse("policy_batches: is no object of batches by policy.")
    if wanted:
        for name in policies:
            if name not in wanted:
                hint = suggestion(name, wanted)
                known = f"They are {', '.join(sorted(wanted))}"
                reader.refuse(f"policy_batches: {name[:60]!r} is no policy of this run.{hint} {known[:200]}.")
        return policies.get(wanted[0])
    if list(policies) != [POLICY]:
        names = ", ".join(sorted(policies))[:120] or "none"
        reader.refuse(f"policy_batches: {names}; only steps of the one policy {POLICY} can be read.")
    return policies[POLICY]


class _Batch:
    """The rows of one line as arrays."""

    def __init__(self, columns: dict[str, Any], reader: Reader, notes: list[str]) -> None:
        self._reader, self._notes = reader, notes
        missing = [name for name in ("obs", "actions", "rewards") if name not in columns]
        if not any(name in columns for name in _ENDS):
            missing.append("dones")
        if missing:
            reader.refuse(f"the batch has no {', '.join(missing)}.")
        if columns["rewards"] == []:
            self._rows = 0
            return
        self._reward = reader.rewards(columns["rewards"], "rewards")
        self._rows = rows = len(self._reward)
        self._obs = reader.observations(columns["obs"], "obs", rows)
        self._action = reader.actions(columns["actions"], "actions", rows)
        self._read_ends(columns)
        self._behind = reader.observations(columns["new_obs"], "new_obs", rows) if "new_obs" in columns else None
        self._logp = self._read_logp(columns)
        self._t = reader.whole(columns["t"], "t", rows) if "t" in columns else None
        if self._t is not None and self._t.min() < 0:
            reader.refuse("t: holds a negative number.")
        self._ids = [
            reader.whole(columns[name], name, rows)
            for name in ("eps_id" if "eps_id" in columns else "unroll_id", "agent_index")
            if name in columns
        ]
        self._named = "eps_id" in columns

    def _read_ends(self, columns: dict[str, Any]) -> None:
        """Note in which rows an episode ends, and of which of them it is known how."""
        reader, rows = self._reader, self._rows
        ends = {name: reader.flags(columns[name], name, rows) for name in _ENDS if name in columns}
        none = np.zeros(rows, bool)
        self._truncated = ends.get("truncateds", none)
        self._done = ends.get("dones", none) | ends.get("terminateds", none) | self._truncated
        self._terminated = ends.get("terminateds", self._done & ~self._truncated)
        self._known = "truncateds" in ends
        infos = columns.get("infos")
        if not self._known and isinstance(infos, list) and len(infos) == rows:
            for row in np.flatnonzero(self._done).tolist():
                if isinstance(infos[row], dict) and infos[row].get("TimeLimit.truncated") is True:
                    self._truncated, self._terminated = self._truncated.copy(), self._terminated.copy()
                    self._truncated[row], self._terminated[row] = True, False

    def _read_logp(self, columns: dict[str, Any]) -> np.ndarray | None:
        logp = self._written_logp(columns)
        layout = self._reader.layout
        if logp is None or not (layout.is_box and layout.normalized):
            return logp
        low, high = layout.bounds()  # actions have been stretched to them, so that densities are smaller
        return (logp - np.log((high - low).astype(np.float64) / 2).sum()).astype(np.float32)

    def _written_logp(self, columns: dict[str, Any]) -> np.ndarray | None:
        reader, rows = self._reader, self._rows
        if "action_logp" in columns:
            return reader.as_float32(reader.scalars(columns["action_logp"], "action_logp", rows), "action_logp")
        if "action_prob" not in columns:
            return None
        prob = reader.scalars(columns["action_prob"], "action_prob", rows)
        if (prob <= 0).any():
            reader.refuse("action_prob: holds a probability that is not above 0.")
        return np.log(prob).astype(np.float32)

    def parts(self) -> list[Part]:
        """Return the Parts, in the order in which they end in the batch."""
        if not self._rows:
            return []
        found = []
        for rows in self._groups():
            cuts = self._cuts(rows)
            found += [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        found.sort(key=lambda rows: rows[-1])
        return [self._part(rows) for rows in found]

    def _groups(self) -> list[np.ndarray]:
        """Rows of each episode, in order."""
        if not self._ids:
            return [np.arange(self._rows)]
        _, group = np.unique(np.stack(self._ids, axis=1), axis=0, return_inverse=True)
        group = group.reshape(-1)
        order = np.argsort(group, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)

    def _cuts(self, rows: np.ndarray) -> list[int]:
        """Where ``rows`` of one episode come apart: after ends, where t jumps, where another observation follows."""
        if len(rows) == 1:
            return []
        apart = self._done[rows[:-1]].copy()
        if self._t is not None:
            skips = np.diff(self._t[rows])
            apart |= (skips < 1) if self._reader.layout.policies and self._behind is not None else (skips != 1)
        if self._behind is not None:
            inner = ~apart
            differs = (self._behind[rows[:-1]] != self._obs[rows[1:]]).reshape(len(rows) - 1, -1).any(axis=1) & inner
            if differs.any():
                self._check_steps(rows, int(np.flatnonzero(differs)[0]), self._behind)
            apart |= differs
        return (np.flatnonzero(apart) + 1).tolist()

    def _check_steps(self, rows: np.ndarray, first: int, next_obs: np.ndarray) -> None:
        """Refuse rows whose next observation is that of a later row; else note that they come apart."""
        behind = next_obs[rows[first]]
        for ahead in range(first + 2, min(first + LOOK_AHEAD, len(rows))):
            if np.array_equal(self._obs[rows[ahead]], behind):
                self._reader.refuse(
                    f"new_obs: that of row {rows[first]} is the observation {ahead - first} steps later: it was "
                    f"recorded with n-step rewards. Record with n_step 1."
                )
        text = f"{self._reader.where}: from row {rows[first]} on, rows are not consecutive; they are read one by one"
        if self._named and not self._notes:
            self._notes.append(text)

    def _part(self, rows: np.ndarray) -> Part:
        reader, last = self._reader, int(rows[-1])
        ids = tuple(int(column[rows[0]]) for column in self._ids)
        start = int(self._t[rows[0]]) if self._t is not None else None
        key = ids if self._named else (reader.where, *ids, int(rows[0]))
        open_end = bool(self._done[last]) and not (self._known or self._truncated[last])
        piece = Piece(
            self._obs[rows],
            self._action[rows],
            self._reward[rows],
            bool(self._terminated[last]) and not open_end,
            bool(self._truncated[last]),
            self._behind[last].copy() if self._behind is not None else None,
            self._logp[rows] if self._logp is not None else None,
            start,
            ids[0] if self._named else ":".join(map(str, key)),
            reader.where,
        )
        return Part(piece, key, open_end, reader.layout.limits)
