"""The LearnerGraph of an algorithm that learns from transitions of a replay, with the filters of its policy applied.

Used by the graphs of the replay loop: ``dqn_graph``, ``ddpg_graph``, ``max_entropy_update_graph`` and the like.
"""

from drl_cli.policies import filters_tf
from drl_cli.tf1.graph import LearnerGraph


def learner_graph(columns, rates, update, spec, scope):
    """Return the LearnerGraph of ``update``, which has ``variables()``, ``number``, ``gradients`` and ``apply``.

    ``number``: the variable that counts updates. What the PolicySpec ``spec`` names is published, under ``scope``. Its filters
    are applied here: a replay holds raw observations and rewards, ``gradients`` sees them as the policy does.
    """
    filters = filters_tf.variables(spec, scope)
    made = [*update.variables(), *filters.values()]
    variables = {variable.op.name: variable for variable in made} | {"num_updates": update.number}
    published = tuple(scope + name for name in spec.weight_names())

    def gradients(batch, number):
        return update.gradients(filters_tf.filtered(batch, filters), number)

    return LearnerGraph(columns, rates, variables, published, gradients if filters else update.gradients, update.apply)
