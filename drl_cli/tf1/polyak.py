"""Variables that follow others: target networks, running averages, and doing so only now and then.

Sources: soft targets, Lillicrap et al. 2016 (arXiv 1509.02971), section 3; averaged iterates, Polyak & Juditsky 1992.
"""

from drl_cli.tf1.tensorflow import tf


def follow(followers, leaders, share):
    """Move each follower by ``share`` of the way to its leader; two lists of variables in the same order."""
    for follower, leader in zip(followers, leaders, strict=True):
        follower.assign((1.0 - share) * follower + share * leader)


def every(count, number, action, phase=0):
    """Run ``action()`` at updates whose ``number`` (int64 scalar) is ``phase`` modulo ``count``.

    With ``count`` 1 it runs without a conditional, which costs more than a small update's step.
    """
    if count == 1:
        action()
        return

    def act():
        action()
        return tf.constant(0)

    tf.cond(tf.equal(number % count, phase), act, lambda: tf.constant(0))
