import json
import re
import subprocess
import sys

import numpy as np
import pytest

from drl_cli import cli
from drl_cli.analysis.loaded_checkpoint import open_policy
from drl_cli.cli import checkpoint_card, exports
from drl_cli.errors import ExportFailed
from drl_cli.experiments.run import Outcome
from drl_cli.extras import load


def typed(capsys, *words, code=0):
    """Type ``drl checkpoint …`` in this process; return (stdout, stderr)."""
    assert cli.main(["checkpoint", *(str(word) for word in words)]) == code
    return capsys.readouterr()


def test_info_says_what_it_is_and_what_can_be_done(pendulum_run, capsys):
    out, _ = typed(capsys, "info", pendulum_run)
    lines = out.splitlines()
    assert lines[0] == "SAC on Pendulum-v1, iteration 10, 10,000 env steps"
    assert "observes  [3] float32" in lines
    assert "acts      Box of 1, from [-2] to [2], clipped" in lines
    assert "net       policy: obs 3 > 4 > mean 1 + log_std 1 (tanh), 26 weights" in lines
    assert "can       play it (drl rollout); start a new run from it (drl train --restore)" in out.replace(
        "\n          ", " "
    )
    assert "array" not in lines[-1]


def test_info_lists_arrays_when_asked(pendulum_run, capsys):
    out, _ = typed(capsys, "info", pendulum_run, "--latest", "--arrays")
    assert re.search(r"default_policy/policy/dense_0/kernel +float32 +\[3, 4\] +48 +weights.safetensors", out)


def test_info_json_has_the_keys_that_its_help_lists(pendulum_run, capsys):
    told = json.loads(typed(capsys, "info", pendulum_run, "--json")[0])
    text = typed(capsys, "info", "-h")[0]
    listed = re.search(r"JSON: (.*?);", text, re.DOTALL)[1]
    assert [name for name in told if f'"{name}"' not in listed] == []
    assert [name for name in told["policy"] if f'"{name}"' not in listed] == []
    assert [name for name in told["policy"]["nets"][0] if f'"{name}"' not in listed] == []
    assert told["can"]["play"] == {"possible": True, "why": None}


def test_card_says_what_it_is_how_it_was_trained_and_how_to_play_it(pendulum_run, capsys):
    out, _ = typed(capsys, "card", pendulum_run)
    lines = out.splitlines()
    assert lines[0].startswith("# ") and lines[0].endswith(" on Pendulum-v1")
    for part in ("## Training", "## Scores", "## Use", "## Versions", "## Licence", "- environment steps: "):
        assert any(line.startswith(part) for line in lines), part
    (played,) = (line.split()[2] for line in lines if line.startswith("drl rollout "))
    assert (pendulum_run / played).is_dir()


def test_card_escapes_markdown_and_html(pendulum_run):
    held = {
        "path": "/a/checkpoint_000001",
        "run": None,
        "size": 1,
        "algorithm": "SAC",
        "env": "<b>*a*|`</b>",
        "policy": None,
    }
    held |= {"counters": {}, "training_iteration": 1, "seed": 1, "saved": "now", "score": {}, "versions": {"drl": "1"}}
    text = "\n".join(checkpoint_card.lines_of(held, None))
    assert "# SAC on \\<b\\>\\*a\\*\\|\\`\\</b\\>" in text and "`<b>*a*¦'</b>`" in text


def test_verify_of_a_whole_run_exits_0(pendulum_run, capsys):
    out, err = typed(capsys, "verify", pendulum_run)
    assert [line.split()[0] for line in out.splitlines()] == ["intact", "intact"]
    assert err == "All 2 are intact.\n"


def test_verify_names_the_damaged_file_and_exits_2(pendulum_run, capsys):
    state = pendulum_run / "checkpoint_000020" / "state.json"
    state.write_text("[]")
    out, err = typed(capsys, "verify", pendulum_run, "-q", code=2)
    assert out == f"damaged  {state}: has 2 bytes, the manifest says 3 (damaged or modified)\n"
    told = json.loads(typed(capsys, "verify", pendulum_run, "--json", code=2)[0])
    assert (told["damaged"], [one["whole"] for one in told["checked"]]) == (1, [True, False])
    assert sorted(told["checked"][0]) == ["damage", "files", "note", "path", "size", "whole"]


def test_verify_names_a_best_that_is_not_there(pendulum_run, capsys):
    (pendulum_run / "best.json").write_text('{"checkpoint": "checkpoint_000015"}')
    out, err = typed(capsys, "verify", pendulum_run, code=2)
    assert "best.json: names checkpoint_000015, which does not exist" in out
    assert err == "1 of 3 damaged.\n"


def test_export_says_what_goes_in_and_out_and_how_far_it_is(pendulum_run, capsys, tmp_path):
    out, _ = typed(capsys, "export", pendulum_run, "-o", tmp_path / "policy.onnx")
    lines = out.splitlines()
    assert lines[0].startswith(f"{tmp_path}/policy.onnx: onnx, ")
    assert lines[1:3] == [
        "  in   obs     float32 [N, 3]: the observation",
        "  out  action  float32 [N, 1]: in the environment's units, clipped to its bounds",
    ]
    assert re.fullmatch(r"  largest difference of an action [\d.e-]+ on 1,024 sampled observations", lines[3])
    told = json.loads(typed(capsys, "export", pendulum_run, "--latest", "-o", tmp_path / "b.onnx", "--json")[0])
    assert told["checkpoint"].endswith("checkpoint_000020") and 0 <= told["difference"] < 1e-5
    listed = typed(capsys, "export", "-h")[0]
    assert [name for name in told if f'"{name}"' not in listed] == []


@pytest.mark.tensorflow
def test_format_follows_the_ending(pendulum_run, capsys, tmp_path):
    typed(capsys, "export", pendulum_run, "-q", "-o", tmp_path / "policy")
    typed(capsys, "export", pendulum_run, "-q", "-o", tmp_path / "policy.tflite")
    assert sorted(path.name for path in tmp_path.iterdir() if path != pendulum_run) == [
        "policy",
        "policy.tflite",
        "policy.tflite.json",
    ]
    assert (tmp_path / "policy" / "saved_model.pb").exists()


def test_export_that_fails_exits_1_and_leaves_nothing(pendulum_run, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(load("drl_cli.export.parity"), "TOLERANCE", 1e-12)
    _, err = typed(capsys, "export", pendulum_run, "-o", tmp_path / "policy.onnx", code=1)
    assert re.match(r"Error: onnx, loaded again: its actions differ by up to .* Nothing was kept.\n", err)
    assert list(tmp_path.iterdir()) == [pendulum_run]


def test_missing_extra_is_named(pendulum_run, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "drl_cli.export.onnx_file", raising=False)
    _, err = typed(capsys, "export", pendulum_run, "-o", tmp_path / "policy.onnx", code=2)
    assert "needs the package onnx, which is not installed. Run: pip install 'drl-cli[onnx]'" in err


def test_packed_and_unpacked_it_plays_the_same(pendulum_run, capsys, tmp_path):
    out, _ = typed(capsys, "pack", pendulum_run / "checkpoint_000020", "-o", tmp_path / "a.tar.gz")
    assert out.splitlines()[-1] == f"Unpack it  drl checkpoint unpack {tmp_path}/a.tar.gz"
    out, _ = typed(capsys, "unpack", tmp_path / "a.tar.gz", "-o", tmp_path / "new")
    assert out.splitlines()[-1] == f"Play it     drl rollout {tmp_path}/new/checkpoint_000020"
    obs = np.float32([[0.1, 0.2, 0.3]])
    actions = [
        open_policy(place / "checkpoint_000020")[2].act(obs, (), None, False)[0]
        for place in (pendulum_run, tmp_path / "new")
    ]
    np.testing.assert_array_equal(actions[0], actions[1])
    assert "already exists" in typed(capsys, "unpack", tmp_path / "a.tar.gz", "-o", tmp_path / "new", code=2)[1]


def test_pack_and_unpack_tell_json_with_the_keys_that_their_help_lists(pendulum_run, capsys, tmp_path):
    packed = json.loads(
        typed(capsys, "pack", pendulum_run / "checkpoint_000010", "-o", tmp_path / "a.zip", "--json")[0]
    )
    assert sorted(packed) == ["files", "kind", "left_out", "name", "packed", "path", "size"]
    unpacked = json.loads(typed(capsys, "unpack", tmp_path / "a.zip", "-o", tmp_path / "new", "--json")[0])
    assert unpacked == {
        "path": str(tmp_path / "new" / "checkpoint_000010"),
        "kind": "checkpoint",
        "files": packed["files"],
        "size": packed["size"],
    }


def test_rollout_of_an_archive_names_unpack(pendulum_run, capsys, tmp_path):
    typed(capsys, "pack", pendulum_run / "checkpoint_000010", "-o", tmp_path / "a.zip", "-q")
    assert cli.main(["rollout", str(tmp_path / "a.zip")]) == 2
    assert capsys.readouterr().err == (
        f"Error: {tmp_path}/a.zip: is an archive. Unpack it first: drl checkpoint unpack {tmp_path}/a.zip\n"
    )


def test_info_verify_pack_and_unpack_load_neither_tensorflow_nor_ray(pendulum_run, tmp_path):
    program = f"""
import sys
from drl_cli import cli
run, out = {str(pendulum_run)!r}, {str(tmp_path)!r}
for words in (["info", run], ["verify", run], ["pack", run + "/checkpoint_000010", "-o", out + "/a.zip"],
              ["unpack", out + "/a.zip", "-o", out + "/new"], ["verify", out + "/a.zip"]):
    assert cli.main(["checkpoint", *words]) == 0, words
print([name for name in ("tensorflow", "ray", "onnx", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("word", ["exprot", "verfy"])
def test_misspelt_command_is_refused_with_the_nearest(word, capsys):
    _, err = typed(capsys, word, code=2)
    assert f"No such command '{word}'. Did you mean '" in err


def _outcome(run, state="finished"):
    return Outcome(state, "why", 0, run, best=run / "checkpoint_000010")


@pytest.mark.tensorflow
def test_exports_of_a_run_go_into_its_folder_and_are_said(pendulum_run):
    made = exports.Exports(("savedmodel", "onnx"), _outcome(pendulum_run))
    assert made.paths() == {"exported": [f"{pendulum_run}/model", f"{pendulum_run}/model.onnx"]}
    assert [line.split(";")[0] for line in made.lines()] == [
        "  Exported  model (savedmodel",
        "  Exported  model.onnx (onnx",
    ]
    assert (pendulum_run / "model" / "saved_model.pb").exists() and made.raise_failure() is None


def test_run_without_exports_says_nothing_of_them(pendulum_run):
    made = exports.Exports((), _outcome(pendulum_run))
    assert (made.lines(), made.paths()) == ([], {})


def test_interrupted_run_is_not_exported_and_that_is_said(pendulum_run):
    made = exports.Exports(("onnx",), _outcome(pendulum_run, "interrupted"))
    assert made.lines() == ["  Exported  nothing, because the run was interrupted; use drl checkpoint export instead"]
    assert not (pendulum_run / "model.onnx").exists()


def test_export_of_a_run_that_fails_is_raised_after_the_summary(pendulum_run, monkeypatch):
    monkeypatch.setattr(load("drl_cli.export.parity"), "TOLERANCE", 1e-12)
    made = exports.Exports(("onnx",), _outcome(pendulum_run))
    assert made.lines() == []
    with pytest.raises(ExportFailed, match="its actions differ"):
        made.raise_failure()


@pytest.mark.parametrize(("out", "right"), [("x.onxx", "x.onnx"), ("x.ONNX", "x.onnx"), ("a/p.tflit", "a/p.tflite")])
def test_misspelt_ending_is_no_savedmodel(out, right, capsys):
    assert cli.main(["checkpoint", "export", "anything", "-o", out]) == 2
    assert f"Did you mean '{right}'?" in " ".join(capsys.readouterr().err.split())
