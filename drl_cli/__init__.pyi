from drl_cli.acting.callbacks import Callbacks as Callbacks
from drl_cli.acting.callbacks import register_callbacks as register_callbacks
from drl_cli.acting.evaluations import register_evaluation as register_evaluation
from drl_cli.acting.exploration.registering import register_exploration as register_exploration
from drl_cli.acting.own_creators import register_env as register_env
from drl_cli.algorithms.registering import register_algorithm as register_algorithm
from drl_cli.algorithms.table import Algorithm as Algorithm
from drl_cli.experiment.door import Trainer as Trainer
from drl_cli.loggers.registering import register_logger as register_logger
from drl_cli.networks.models import register_model as register_model

__version__: str
