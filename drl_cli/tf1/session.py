"""Sessions with the thread counts and GPU share of the configuration."""

from collections.abc import Mapping
from typing import Any

from drl_cli.errors import ConfigError
from drl_cli.tf1.tensorflow import Graph, Session, tf


def new_session(graph: Graph, options: Mapping[str, Any], num_gpus: float = 0) -> Session:
    """Return a ``tf.Session`` on ``graph``.

    ``options`` are ConfigProto fields by name (``tf_session_args`` of the config); ``num_gpus`` a fraction below 1 limits
    the share of that GPU's memory. Raises ConfigError when ``num_gpus`` is above 0 and TensorFlow sees no GPU.
    """
    proto = tf.ConfigProto(allow_soft_placement=True)
    for name, value in options.items():
        if name == "gpu_options":
            for key, setting in value.items():
                setattr(proto.gpu_options, key, setting)
        elif name == "device_count":
            proto.device_count.update(value)
        else:
            setattr(proto, name, value)
    if num_gpus > 0:
        if not tf.config.list_physical_devices("GPU"):
            raise ConfigError(
                f"num_gpus is {num_gpus}, but TensorFlow sees no GPU on this machine. Set num_gpus to 0, or install "
                "TensorFlow's CUDA libraries: pip install 'drl-cli[gpu]'"
            )
        proto.gpu_options.allow_growth = True
        if num_gpus < 1:
            proto.gpu_options.per_process_gpu_memory_fraction = num_gpus
    return tf.Session(graph=graph, config=proto)
