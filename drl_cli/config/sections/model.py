"""Keys of networks: convolutions for images, then dense layers. Names and meanings are RLlib's (MODEL_DEFAULTS, 1.0.1).

``FullyConnected`` and ``Vision`` are sections of their own where an algorithm keeps its dense layers elsewhere (SAC's
``policy_model``); ``Network`` has both. ``conv_filters`` returns the convolutions of a ``Vision`` for an image size. A
registered network (``OwnNetwork``) replaces the layers of its section.
Deviations: after the convolutions come the dense layers (RLlib's last convolution is the last hidden layer); sizes of
images that RLlib has no filters for get some (RLlib refuses them). A custom model gets its own arguments only (RLlib passes the
whole section), and all nets of an algorithm use the same model, each with weights of its own.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, PlainMapping, Section, Whole, Widths, key
from drl_cli.errors import ConfigError

ACTIVATIONS = Literal["relu", "tanh", "elu", "swish", "linear"]

_RLLIB_FILTERS = {
    (84, 84): ((16, 8, 4), (32, 4, 2), (256, 11, 1)),
    (42, 42): ((16, 4, 2), (32, 4, 2), (256, 11, 1)),
}
REPLACED = ("fcnet_hiddens", "fcnet_activation", "layer_norm", "residual_blocks", "conv_filters", "conv_activation")
"""Keys of ``model`` that have no effect beside a ``custom_model``, which replaces such layers."""
REGISTERED = ("custom_model", "custom_preprocessor", "custom_action_dist")
"""Keys of ``model`` that name something registered, which gets ``custom_model_config``."""
RESIDUAL = (
    "SimBa's residual blocks instead of plain hidden layers: a linear embedding, a block for each entry of {hiddens} (layer "
    "normalisation, a layer of four times the units, the activation, back to the units, added to the block's input), and a "
    "last layer normalisation. All entries must be equal. In the paper observations are normalised too: set "
    "observation_filter MeanStdFilter."
)
"""What ``residual_blocks`` means, but for the key that lists the blocks."""
_SMALL = 8  # pixels of the longer side at which our own filters stop halving


def _square(triple: Any) -> Any:
    """Let ``[16, [8, 8], 4]``, RLlib's own way of writing, be ``[16, 8, 4]``."""
    if isinstance(triple, (list, tuple)) and len(triple) == 3:
        kernel = triple[1]
        if isinstance(kernel, (list, tuple)) and len(kernel) == 2 and kernel[0] == kernel[1]:
            return (triple[0], kernel[0], triple[2])
    return triple


_Filter = Annotated[
    tuple[
        Annotated[Whole, Field(ge=1, le=4096)],
        Annotated[Whole, Field(ge=1, le=512)],
        Annotated[Whole, Field(ge=1, le=512)],
    ],
    Field(strict=False),
    BeforeValidator(_square),
]
Filters = Annotated[tuple[_Filter, ...], Field(strict=False, min_length=1, max_length=16)]
"""``[[filters, kernel, stride], …]``; a list in files, a tuple in Python."""


Name = Annotated[str, Field(min_length=1, max_length=200)]
"""A name under which something is registered."""


class FullyConnected(Section):
    """A stack of dense layers."""

    fcnet_hiddens: Widths = key(
        (64, 64),
        "Units of each hidden layer, first to last.",
        "units",
        allowed="a list of whole numbers in [1, 65536], at most 32",
        rllib=[256, 256],
        why=(
            "2x64 makes six times the updates per second of 2x256 on one core and suffices for small and medium tasks"
        ),
    )
    fcnet_activation: ACTIVATIONS = key("relu", "Activation of each hidden layer.")
    layer_norm: bool = key(False, "Layer normalisation before the activation of each hidden layer.")
    residual_blocks: bool = key(False, RESIDUAL.format(hiddens="fcnet_hiddens"))

    @model_validator(mode="after")
    def _has_blocks_of_one_width(self) -> Self:
        if self.residual_blocks:
            residual_misfit("fcnet_hiddens", self.fcnet_hiddens, self.layer_norm)
        return self


class OwnNetwork(Section):
    """A network of one's own, see ``policies.custom_models``."""

    custom_model: Name | None = key(
        None,
        "A custom network, by the name registered with register_model: it replaces this section's convolutions and "
        "hidden layers in every network of the algorithm. Load its module with --import.",
        allowed="the name of a registered model, or null",
    )
    custom_model_config: PlainMapping = key(
        {},
        "Keyword arguments of custom_model's class, plain data; custom_preprocessor and custom_action_dist get them as one "
        "mapping.",
    )

    custom_preprocessor: Name | None = key(
        None,
        "What observations become before all other preprocessing, by the name registered with register_preprocessor; Atari "
        "games get no other wrappers beside it. Load its module with --import.",
        allowed="the name of a registered preprocessor, or null",
    )

    @model_validator(mode="after")
    def _configures_a_model(self) -> Self:
        if self.custom_model_config and not any(dict(self).get(name) for name in REGISTERED):
            raise MisfitError("custom_model_config", "it needs custom_model, whose arguments it holds")
        return self


class Vision(OwnNetwork):
    """How images are preprocessed, and the convolutions that they pass.

    Of observations that are vectors only boards pass convolutions, see ``conv_filters``.
    """

    conv_filters: Filters | None = key(
        None,
        "The convolutions, first to last; the last is unpadded, the others have output size / stride (rounded up). "
        "null: RLlib's for images of 84x84 and 42x42, drl's own for other sizes. Of a Dict observation the only Box of three "
        "axes, a board, passes them too, and the rest joins after them; null: no convolutions there.",
        allowed="null or a list of [filters, kernel, stride], at most 16, whole numbers of at least 1",
    )
    conv_activation: ACTIVATIONS = key("relu", "Activation of each convolution.")
    dim: Annotated[Whole, Field(ge=8, le=1024)] | None = key(
        None,
        "Height and width to which images are resized; null: 84 for Atari games unless preprocessor_pref is null, "
        "otherwise unchanged.",
        "pixels",
        rllib=84,
        why="RLlib's value is for Atari games; other images are usually small, or set this key",
    )
    grayscale: bool | None = key(
        None,
        "Whether images are converted to grayscale; null: true for Atari games with preprocessor_pref deepmind, "
        "otherwise false.",
        rllib=False,
        why="in RLlib, deepmind games are gray whatever the key says; here false keeps their colours",
    )
    zero_mean: bool = key(True, "Whether image bytes are scaled to [-1, 1]; false: to [0, 1].")
    framestack: bool | Annotated[Whole, Field(ge=1, le=16)] | None = key(
        None,
        "Number of stacked observations; true is 4, false 1, null: 4 for Atari games with preprocessor_pref "
        "deepmind, otherwise 1.",
        "observations",
        "true, false, null or a whole number in [1, 16]",
        rllib=True,
        why="RLlib's true stacks only deepmind's Atari games, which is what null does here",
    )


class Network(FullyConnected, Vision):
    """The network of an algorithm that has one: convolutions for images, then dense layers."""


class Memory(Section):
    """An LSTM before the heads."""

    use_lstm: bool = key(False, "Whether an LSTM follows the hidden layers.")
    lstm_cell_size: Whole = key(
        64,
        "Number of cells of the LSTM.",
        "units",
        ge=1,
        le=65536,
        rllib=256,
        why="as wide as the layers before it; 256 cells need fourteen times the arithmetic",
    )
    max_seq_len: Whole = key(20, "Length of the sequences on which the LSTM is trained.", "env steps", ge=1, le=1000)


class RecurrentNetwork(Memory, Network):
    """A network that may end in an LSTM, before the heads."""


def residual_misfit(name: str, hiddens: tuple[int, ...], layer_norm: bool) -> None:
    """Raise MisfitError where residual blocks of ``hiddens``, the value of the key ``name``, cannot be."""
    if len(set(hiddens)) != 1:
        raise MisfitError(
            name, f"residual_blocks needs one or more entries that are all equal, such as [64, 64], not {list(hiddens)}"
        )
    if layer_norm:
        raise MisfitError("layer_norm", "residual_blocks have layer normalisation of their own; leave it out")


def conv_filters(model: Vision, height: int, width: int) -> list[tuple[int, int, int, str]]:
    """Return the convolutions of a ``Vision`` for images of ``height`` and ``width``, in pixels.

    A list of (filters, kernel, stride, padding), padding "same" for all but the last, which is "valid". With
    ``conv_filters`` null other sizes than RLlib's get ours: from 64 pixels on one layer of 8x8 with stride 4, then 4x4
    with stride 2 until the longer side has 8 pixels or fewer, last 64 filters of 3x3. Raises ConfigError where the last
    kernel is larger than what is left of the image.
    """
    asked = model.conv_filters or _RLLIB_FILTERS.get((height, width)) or _own_filters(height, width)
    sides = [height, width]
    for _, _, stride in asked[:-1]:
        sides = [_left(side, stride) for side in sides]
    kernel = asked[-1][1]
    if kernel > min(sides):
        raise ConfigError(
            f"model.conv_filters: the last kernel is {kernel}x{kernel}, and images of {height}x{width} are "
            f"{sides[0]}x{sides[1]} by then. Take a smaller kernel, smaller strides, or null for filters that fit."
        )
    return [(*layer, "valid" if number == len(asked) else "same") for number, layer in enumerate(asked, 1)]


def _left(side: int, stride: int) -> int:
    """Return what "same" padding leaves of a side: its size over the stride, rounded up."""
    return -(-side // stride)


def _own_filters(height: int, width: int) -> tuple[tuple[int, int, int], ...]:
    found: list[tuple[int, int, int]] = []
    sides = [height, width]
    while max(sides) > _SMALL:
        kernel, stride = (8, 4) if max(sides) >= 64 and not found else (4, 2)
        found.append((32 if found else 16, kernel, stride))
        sides = [_left(side, stride) for side in sides]
    return (*found, (64, min(3, *sides), 1))
