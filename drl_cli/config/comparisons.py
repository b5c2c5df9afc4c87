"""The signs with which a demand compares a field of a result: ``--assert 'episode_reward_mean>=200'``.

Used by ``runs.demands`` (one run) and ``search.trial_ranks`` (the mean over the trials of a search).
"""

import operator

COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
