"""The rows of ES and ARS, which learn in NumPy; their keys, net and updates stand in ``drl_cli.evolution``."""

from drl_cli.algorithms.row import Algorithm
from drl_cli.evolution.keys import ARSConfig, ESConfig

ES = Algorithm(
    name="ES",
    config=ESConfig,
    nets="drl_cli.evolution.net",
    graph="drl_cli.evolution.es_update",
    postprocess="fitness",
    loop="evolution",
    actions=("Box", "Discrete"),
    observations=("Box1d",),
    tensorflow=False,
)
ARS = ES._replace(name="ARS", config=ARSConfig, graph="drl_cli.evolution.ars_update")
