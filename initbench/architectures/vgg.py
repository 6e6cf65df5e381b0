"""VGG networks for small images (Simonyan & Zisserman, 2015), with one linear layer as the classifier."""

from __future__ import annotations

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm
from initbench.architectures.style import Style
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, register_architecture

# Convolutions in each of the five stages, by the number of layers: table 1 of the paper, columns A, B, D, E.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_CHANNELS = (64, 128, 256, 512, 512)


@register_architecture(
    "vgg",
    reference="Simonyan & Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR 2015, "
    "table 1; with one linear layer as in Zhu et al., GradInit, NeurIPS 2021, appendix A.1",
)
class VGG(nn.Module):
    """VGG network for small images, VGG-11 to VGG-19, with a single linear layer instead of three.

    Five max poolings reduce an image of 32 to one pixel, whose channels the classifier takes. For larger images it
    takes the mean over the remaining pixels, and halving an odd side rounds up, so any size works. With batch norm and
    `conv_bias` VGG-19 is the network of GradInit's authors: 20,040,522 parameters for 10 classes.

    Args:
        depth: 11, 13, 16 or 19: the convolutions and linear layers of the paper's network; one linear layer is kept.
        width: multiplies the stages' 64, 128, 256, 512 and 512 channels; a multiple of 1/64, and of 1/4 for norm group.
        norm: none, batch or group, after each convolution.
        activation: relu, swish, beta_swish, tanh or linear.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any that needs no residual branches; schemes that replace norms, such as weight_norm, need norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm or biases are combined with a scheme.
    """

    def __init__(
        self,
        depth: int = 19,
        width: float = 1.0,
        norm: Norm = "batch",
        activation: Activation = "relu",
        conv_bias: bool = False,
        *,
        inputs: Inputs = Inputs((3, 32, 32)),
        outputs: int = 10,
        scheme: str = STANDARD,
    ) -> None:
        super().__init__()
        if depth not in _STAGES:
            raise ArgumentError(f"must be 11, 13, 16 or 19, got {depth}", "depth")
        if width <= 0 or _CHANNELS[0] * width % 1:
            raise ArgumentError(f"must be a multiple of 1/64 above 0, so that channels are whole, got {width}", "width")
        style = Style(norm=norm, activation=activation, conv_bias=conv_bias, scheme=scheme)
        self.features = nn.Sequential()
        channels, index = inputs.shape[0], 0
        for stage, (convolutions, full) in enumerate(zip(_STAGES[depth], _CHANNELS, strict=True), start=1):
            for _ in range(convolutions):
                index += 1
                out_channels = int(full * width)
                # Named, not numbered by position: adding a norm must not change the names by which others are drawn.
                self.features.add_module(f"convolution{index}", style.make_convolution(channels, out_channels, 3))
                self.features.add_module(f"norm{index}", style.make_norm(out_channels, "width"))
                self.features.add_module(f"activation{index}", style.make_activation())
                channels = out_channels
            # Rounded up, so that at least one pixel of any image is left.
            self.features.add_module(f"pool{stage}", nn.MaxPool2d(2, ceil_mode=True))
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        return self.classifier(self.features(x).mean((2, 3)))
