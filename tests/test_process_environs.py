"""Environment variables that a config gives to the run's own process, and those that TensorFlow is loaded with."""

import sys

import pytest

from drl_cli import process


def test_set_environs_sets_and_takes_back_what_an_earlier_config_set():
    environ = {"SIM_PORT": "1", "HOME": "/root"}
    process.set_environs({"SIM_PORT": "2", "SIM_HOST": "box"}, environ)
    assert environ == {"SIM_PORT": "2", "SIM_HOST": "box", "HOME": "/root"}
    process.set_environs({"OTHER": "3"}, environ)
    assert environ == {"SIM_PORT": "1", "OTHER": "3", "HOME": "/root"}
    process.set_environs({}, environ)
    assert environ == {"SIM_PORT": "1", "HOME": "/root"}


@pytest.mark.parametrize(
    ("sees_images", "before", "after"),
    [(False, {}, None), (True, {}, "1"), (True, {process.ONEDNN: "0"}, "0"), (False, {process.ONEDNN: "1"}, "1")],
)
def test_images_switch_onednn_on_unless_the_user_has_set_it(sees_images, before, after):
    environ = dict(before)
    process.prepare_tensorflow(1, 1, 0, sees_images=sees_images, environ=environ)
    assert environ.get(process.ONEDNN) == after


@pytest.mark.parametrize(
    ("given", "devices", "expected"),
    [
        ({}, ("/nowhere",), "osmesa"),
        ({}, ("/proc",), "egl"),
        ({"MUJOCO_GL": "glfw"}, ("/proc",), "glfw"),
        ({"DISPLAY": ":0"}, ("/proc",), None),
        ({"WAYLAND_DISPLAY": "wayland-0"}, ("/proc",), None),
    ],
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere MuJoCo needs no display")
def test_mujoco_draws_without_a_display_where_there_is_none(monkeypatch, given, devices, expected):
    environ = dict(given)
    monkeypatch.setattr(process, "GPU_DEVICES", devices)
    process.prepare(environ)
    assert environ.get("MUJOCO_GL") == expected
