"""An environment's first steps under seeded actions, in a process of its own: ``python -m drl_cli.checks.env_trace``.

Started by ``checks.env_check``, whose own hashes of these steps must be the same. Reads from stdin one JSON object {"id",
"env_config", "imports", "seed", "steps"}; writes one JSON line {"hashes": [...]}.
"""

import json
import sys

from drl_cli.acting import envs
from drl_cli.acting.carry_over import hashes


def main():
    """Answer the question on stdin."""
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        envs.import_module(module)
    envs.resolve(asked["id"], trusted=True)
    env = envs.make_raw(asked["id"], asked["env_config"])
    print(json.dumps({"hashes": hashes(env, asked["seed"], asked["steps"])}), flush=True)
    env.close()


if __name__ == "__main__":
    main()
