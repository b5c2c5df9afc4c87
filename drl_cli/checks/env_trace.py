"""An environment's first steps under seeded actions, in a process of its own: ``python -m drl_cli.checks.env_trace``.

Started by ``checks.env_check``, whose own hashes of these steps must be the same. Reads from stdin one JSON object {"id",
"env_config", "imports", "seed", "steps"}; writes one JSON line {"hashes": [...]}.
"""

from __future__ import annotations

import json
import sys

from drl_cli.envs import make
from drl_cli.envs.carry_over import hashes


def main() -> None:
    """Answer the question on stdin."""
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        make.import_module(module)
    make.resolve(asked["id"], trusted=True)
    env = make.make_raw(asked["id"], asked["env_config"])
    print(json.dumps({"hashes": hashes(env, asked["seed"], asked["steps"])}), flush=True)
    env.close()


if __name__ == "__main__":
    main()
