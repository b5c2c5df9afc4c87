"""Environment variables in a config: what is a setting passes, what could load code does not."""

import pytest
from pydantic import ValidationError

from drl_cli.config.environment_variables import as_strings
from drl_cli.config.sections.resources import ResourceKeys

WORKER, DRIVER = "extra_python_environs_for_worker", "extra_python_environs_for_driver"


def refusal(key, given):
    with pytest.raises(ValidationError) as caught:
        ResourceKeys(**{key: given})
    return caught.value.errors()[0]["msg"]


def test_settings_pass_and_become_texts():
    given = {"SIM_PORT": 9000, "SIM_HOST": "box:1", "OMP_NUM_THREADS": "2", "MUJOCO_GL": "egl", "EMPTY": ""}
    config = ResourceKeys(**{WORKER: given})
    assert as_strings(config.extra_python_environs_for_worker) == {**given, "SIM_PORT": "9000"}


@pytest.mark.parametrize("key", [WORKER, DRIVER])
@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PYTHONBREAKPOINT",
        "PATH",
        "HOME",
        "TMPDIR",
        "BASH_ENV",
        "ENV",
        "IFS",
        "RAY_RUNTIME_ENV_HOOK",
        "RAY_ADDRESS",
        "TF_XLA_FLAGS",
        "XLA_FLAGS",
        "TF_PLUGGABLE_DEVICE_LIBRARY_PATH",
        "MPLBACKEND",
        "MPLCONFIGDIR",
        "SDL_DYNAMIC_API",
        "GIO_EXTRA_MODULES",
        "QT_PLUGIN_PATH",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "CUDA_HOME",
        "NODE_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "LIBGL_DRIVERS_PATH",
        "VK_ICD_FILENAMES",
        "KERAS_BACKEND",
        "DRL_IMPORT",
        "DRL_TRAIN_IMPORT",
        "PYTEST_PLUGINS",
        "GYMNASIUM_PLUGINS",
        "ld_preload",
        "SETUPTOOLS_USE_MODULE",
        "OMP_TOOL_LIBRARIES",
    ],
)
def test_names_that_may_load_code_are_refused(key, name):
    assert f"{name} may load code" in refusal(key, {name: "x"})


@pytest.mark.parametrize("value", ["/tmp/x", "../x", "~/x", "a\nb", "$HOME", "a`b`", "module://x", "x" * 201])
def test_values_that_could_be_a_path_or_more_are_refused(value):
    assert "so that it is no path" in refusal(WORKER, {"SIM_MAP": value})


@pytest.mark.parametrize("name", ["", "A B", "A=B", "1A", "É"])
def test_what_is_no_name_is_refused(name):
    assert "is no name of an environment variable" in refusal(WORKER, {name: "x"})


def test_variables_that_keys_set_name_the_key():
    assert "TF_CPP_MIN_LOG_LEVEL: log_level says it" in refusal(DRIVER, {"TF_CPP_MIN_LOG_LEVEL": 1})
    assert "num_gpus and num_gpus_per_worker" in refusal(WORKER, {"CUDA_VISIBLE_DEVICES": "0"})


def test_threads_are_taken_for_driver_and_workers():
    given = {"OMP_NUM_THREADS": "1"}
    assert ResourceKeys(**{DRIVER: given}).extra_python_environs_for_driver == given
    assert ResourceKeys(**{WORKER: given}).extra_python_environs_for_worker == given
