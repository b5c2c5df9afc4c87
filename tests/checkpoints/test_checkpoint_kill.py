"""A process that saves without pause is killed at random moments: what it had acknowledged is there and whole."""

import os
import random
import subprocess
import sys

from checkpoint_maker import read_everything

from drl_cli.runs import retention

SAVER = """
import sys
sys.path.insert(0, {here!r})
from checkpoint_maker import save
from drl_cli.runs import retention, run_folder
run_folder.remove_leftovers(sys.argv[1])
for number in range(int(sys.argv[2]), 10**6):
    save(sys.argv[1], number)
    retention.prune(sys.argv[1], keep=1)
    print(number, flush=True)
"""


def test_killed_saver_leaves_its_last_acknowledged_checkpoint_or_the_one_after(tmp_path):
    rng, number = random.Random(4), 1
    code = SAVER.format(here=os.path.dirname(os.path.dirname(__file__)))
    for _ in range(6):
        command = [sys.executable, "-c", code, str(tmp_path), str(number)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        acknowledged = [int(child.stdout.readline()) for _ in range(rng.randrange(1, 30))][-1]
        child.kill()
        rest = child.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        found, skipped = retention.newest_valid(tmp_path)
        assert skipped == []
        assert found.number in (acknowledged, acknowledged + 1)
        assert read_everything(found.path)["state"]["iteration"] == found.number
        assert len([name for name in os.listdir(tmp_path) if name.startswith(".")]) <= 1
        number = found.number + 1
