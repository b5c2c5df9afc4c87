"""A NetSpec as graph variables and its forward pass: the twin of ``networks.forward`` for learning.

Layers are variables and ``matmul`` (TensorFlow's compat layer no longer has ``tf.layers``). With ``copies > 1`` all
variables have a leading axis and one batched matmul runs every copy.
"""

from drl_cli.networks.forward import NORM_EPSILON
from drl_cli.tf1.tensorflow import tf

ACTIVATION = {"relu": tf.nn.relu, "tanh": tf.tanh, "elu": tf.nn.elu, "swish": tf.nn.swish, "linear": tf.identity}


def variables_of(shapes, initial, scope="", trainable=True):
    """Create one float32 resource variable per entry of ``shapes`` ({name: shape}) in the current graph.

    ``initial`` maps the same names to arrays of these shapes; the variable's name is ``scope + name``. Returns
    {name: variable} with the names as given. Resource variables, because XLA refuses reference ones.
    """
    made = {}
    for name, shape in shapes.items():
        if tuple(initial[name].shape) != tuple(shape):
            raise ValueError(f"{name}: initial value of shape {initial[name].shape}, expected {shape}")
        made[name] = tf.Variable(
            initial[name], name=scope + name, dtype=tf.float32, use_resource=True, trainable=trainable
        )
    return made


class Net:
    """The forward pass of ``net`` (NetSpec) with the given {name: variable or tensor}."""

    def __init__(self, net, weights):
        self._net = net
        self._weights = weights

    def __call__(self, *inputs):
        """Map inputs, tensors [B, size] in the order of the spec, to {head: [B, size]}, or [copies, B, size]."""
        net = self._net
        x = tf.concat(inputs, axis=-1) if len(inputs) > 1 else inputs[0]  # [B, I]
        if net.copies > 1:
            x = tf.broadcast_to(x, [net.copies, *x.shape])  # [C, B, I]
        for index, layer in enumerate(net.layers):
            scope = f"{net.name}/dense_{index}"
            x = self._affine(x, scope)  # [(C,) B, U]
            if layer.layer_norm:
                x = self._normalised(x, scope)  # [(C,) B, U]
            x = ACTIVATION[layer.activation](x)  # [(C,) B, U]
        return {head: self._affine(x, f"{net.name}/{head}") for head, _ in net.heads}

    def _affine(self, x, scope):
        bias = self._weights[f"{scope}/bias"]
        if self._net.copies > 1:
            bias = tf.expand_dims(bias, 1)  # [C, 1, U]
        return tf.matmul(x, self._weights[f"{scope}/kernel"]) + bias

    def _normalised(self, x, scope):
        scale, offset = self._weights[f"{scope}/norm_scale"], self._weights[f"{scope}/norm_offset"]
        if self._net.copies > 1:
            scale, offset = tf.expand_dims(scale, 1), tf.expand_dims(offset, 1)  # [C, 1, U]
        x = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        x = x / tf.sqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + NORM_EPSILON)
        return x * scale + offset
