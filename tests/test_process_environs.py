"""Environment variables that a config gives to the run's own process."""

from drl_cli import process


def test_set_environs_sets_and_takes_back_what_an_earlier_config_set():
    environ = {"SIM_PORT": "1", "HOME": "/root"}
    process.set_environs({"SIM_PORT": "2", "SIM_HOST": "box"}, environ)
    assert environ == {"SIM_PORT": "2", "SIM_HOST": "box", "HOME": "/root"}
    process.set_environs({"OTHER": "3"}, environ)
    assert environ == {"SIM_PORT": "1", "OTHER": "3", "HOME": "/root"}
    process.set_environs({}, environ)
    assert environ == {"SIM_PORT": "1", "HOME": "/root"}
