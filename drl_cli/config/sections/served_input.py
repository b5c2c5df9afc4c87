"""Keys of simulators that drive: ``input: policy_server``, where the steps of a run come from programs that ask it for actions.

``ServedInput`` is the key ``input`` of on-policy algorithms (those that learn from a buffer have ``offline.InputKeys``),
``PolicyServerKeys`` is mixed into all that sample. Names are RLlib's where it has any: ``PolicyServerInput(ioctx, address,
port)``, 1.0.1.
"""

from typing import Literal, Protocol, runtime_checkable

from drl_cli.config.schema import Section, Whole, key

POLICY_SERVER = "policy_server"
TOKEN_VARIABLE = "DRL_POLICY_TOKEN"


class PolicyServerConfig(Section):
    """Where clients reach the policy server of ``input: policy_server``, and what it expects of them."""

    address: str = key(
        "127.0.0.1",
        "IP address or host name that the server listens on; 127.0.0.1 is reached from this machine alone. Requests and "
        "token are not encrypted.",
        min_length=1,
        max_length=253,
    )
    port: Whole = key(
        9900,
        "TCP port of the first worker's server; each further worker has the next one. 0: any free one, without workers.",
        ge=0,
        le=65_535,
    )
    token_file: str | None = key(
        None,
        "The file that holds the token of the clients, readable by its owner only (mode 0600); made with a random token "
        f"if it does not exist. null: the token is in the environment variable {TOKEN_VARIABLE}.",
        allowed="a file, or null",
        min_length=1,
        max_length=4096,
    )
    episode_timeout_s: float = key(
        60.0,
        "Truncate an episode when its client has sent nothing for this long.",
        "s",
        gt=0,
        le=86_400,
    )


class PolicyServerKeys(Section):
    """The keys of a policy server."""

    policy_server: PolicyServerConfig = key(
        PolicyServerConfig(), "How external simulators reach the run with input policy_server."
    )


class ServedInput(Section):
    """Where the steps of an on-policy algorithm come from."""

    input: Literal["sampler", "policy_server"] = key(
        "sampler",
        "sampler: workers step the environment. policy_server: external simulators ask for actions over HTTP and report "
        "rewards; only the spaces of the environment are used.",
        allowed="sampler or policy_server: it is on-policy, and recorded steps are from another policy",
    )


@runtime_checkable
class HasInput(Protocol):
    """A config that says where its steps come from: one with ``ServedInput``, or with ``offline.InputKeys``."""

    @property
    def input(self) -> object: ...


def is_served(config: Section) -> bool:
    """Return whether the steps come from the clients of a policy server."""
    return isinstance(config, HasInput) and config.input == POLICY_SERVER
