"""What a library writes to descriptor 2 while it loads is not seen; everything else is."""

import os
import subprocess
import sys

from drl_cli import process


def test_what_is_written_while_a_module_loads_is_not_seen(capfd):
    with process.muted("no_such_module"):
        os.write(2, b"hello from C++\n")
    os.write(2, b"behind it\n")
    assert capfd.readouterr().err == "behind it\n"


def test_nothing_is_muted_for_a_module_that_has_been_loaded(capfd):
    with process.muted("os"):
        os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"


def test_tensorflow_says_nothing_of_gpus_that_nobody_asked_for():
    code = (
        "from drl_cli import process; process.prepare(); process.prepare_tensorflow(1, 1, 0)\n"
        "from drl_cli.tf1.tensorflow import tf\n"
        "graph = tf.Graph()\n"
        "with graph.as_default(): one = tf.constant(1.0)\n"
        "print(tf.Session(graph=graph).run(one))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("1.0\n", "")
