"""Sessions and the GPUs that they are asked to use."""

import pytest

from drl_cli.errors import ConfigError
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


def test_session_on_a_gpu_where_there_is_none_is_an_error_of_the_config_and_not_of_a_disk(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(
        ConfigError, match=r"^num_gpus is 1, but TensorFlow sees no GPU on this machine\. Set num_gpus to 0"
    ):
        new_session(tf.Graph(), {}, num_gpus=1)
    new_session(tf.Graph(), {}, num_gpus=0).close()
