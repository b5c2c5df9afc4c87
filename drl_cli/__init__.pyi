from drl_cli.actors.custom_evaluation import register_evaluation as register_evaluation
from drl_cli.algorithms.custom_algorithms import register_algorithm as register_algorithm
from drl_cli.algorithms.row import Algorithm as Algorithm
from drl_cli.api.python_search import run_search as run_search
from drl_cli.api.trainer import Trainer as Trainer
from drl_cli.envs.callbacks import Callbacks as Callbacks
from drl_cli.envs.callbacks import register_callbacks as register_callbacks
from drl_cli.envs.custom_envs import register_env as register_env
from drl_cli.envs.custom_preprocessors import register_preprocessor as register_preprocessor
from drl_cli.envs.env_tasks import register_env_task_fn as register_env_task_fn
from drl_cli.envs.env_wrappers import register_env_wrapper as register_env_wrapper
from drl_cli.envs.multi_agent.agent_functions import register_observation_fn as register_observation_fn
from drl_cli.envs.multi_agent.agent_functions import register_opponent as register_opponent
from drl_cli.envs.multi_agent.agent_functions import register_policy_mapping as register_policy_mapping
from drl_cli.policies.custom_distributions import register_action_dist as register_action_dist
from drl_cli.policies.custom_models import register_model as register_model
from drl_cli.policies.exploration.custom_exploration import register_exploration as register_exploration
from drl_cli.runs.loggers.custom_loggers import register_logger as register_logger

__version__: str
