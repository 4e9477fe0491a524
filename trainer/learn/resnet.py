"""Residual networks (He et al. 2015, arXiv:1512.03385) for large and for small images, as Gluon blocks in NCHW."""

from mxnet import init
from mxnet.gluon import HybridBlock, nn

from trainer.config_rules import is_small_image

# Layers -> blocks of each stage. Large: table 1 of the paper. Small: its section 4.2, 6n + 2 layers in three stages.
_BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
_LARGE_CHANNELS = (64, 128, 256, 512)
_SMALL_CHANNELS = (16, 32, 64)
_FIRST_BOTTLENECK_LAYERS = 50
_BOTTLENECK_EXPANSION = 4


class ResNet(HybridBlock):
    """[n, 3, height, width] -> [n, num_classes] logits.

    From 50 layers on (large images) the blocks are bottlenecks with the stride on the 3x3 convolution ("v1b"), which
    is more accurate than on the first 1x1 (Goyal et al. 2017, arXiv:1706.02677, section 5.1).
    """

    def __init__(self, num_layers: int, image_shape: tuple[int, int, int], num_classes: int, **block_options):
        super().__init__(**block_options)
        small = is_small_image(image_shape)
        bottleneck = not small and num_layers >= _FIRST_BOTTLENECK_LAYERS
        channels = _SMALL_CHANNELS if small else _LARGE_CHANNELS
        blocks = ((num_layers - 2) // 6,) * 3 if small else _BLOCKS[num_layers]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(*(_small_stem() if small else _large_stem()))
            self.features.add(*_stages(channels, blocks, bottleneck))
            self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            # Goyal et al. 2017, section 5.1: the last layer from a Gaussian of 0.01.
            self.output = nn.Dense(num_classes, weight_initializer=init.Normal(0.01))

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


class _Residual(HybridBlock):
    """relu(body(x) + shortcut(x)); the body's last gamma starts at 0, so the block starts as its shortcut."""

    def __init__(self, channels: int, stride: int, bottleneck: bool, project: bool, prefix: str):
        super().__init__(prefix=prefix)
        out_channels = channels * _BOTTLENECK_EXPANSION if bottleneck else channels
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            if bottleneck:
                self.body.add(*_convolution(channels, 1), nn.Activation("relu"))
                self.body.add(*_convolution(channels, 3, stride), nn.Activation("relu"))
                self.body.add(*_convolution(out_channels, 1, gamma="zeros"))
            else:
                self.body.add(*_convolution(channels, 3, stride), nn.Activation("relu"))
                self.body.add(*_convolution(channels, 3, gamma="zeros"))
            self.shortcut = nn.HybridSequential(prefix="")
            if project:
                self.shortcut.add(*_convolution(out_channels, 1, stride))

    def hybrid_forward(self, F, x):
        return F.Activation(self.body(x) + self.shortcut(x), act_type="relu")


def _stages(channels: tuple[int, ...], blocks: tuple[int, ...], bottleneck: bool) -> list[HybridBlock]:
    """Each stage but the first halves the image; a block that changes the shape projects its shortcut."""
    return [
        _Residual(
            width,
            stride=2 if stage > 0 and block == 0 else 1,
            bottleneck=bottleneck,
            project=block == 0 and (stage > 0 or bottleneck),
            prefix=f"stage{stage + 1}_block{block + 1}_",
        )
        for stage, (width, count) in enumerate(zip(channels, blocks, strict=True))
        for block in range(count)
    ]


def _large_stem() -> list[HybridBlock]:
    return [*_convolution(64, 7, 2), nn.Activation("relu"), nn.MaxPool2D(3, 2, padding=1)]


def _small_stem() -> list[HybridBlock]:
    return [*_convolution(_SMALL_CHANNELS[0], 3), nn.Activation("relu")]


def _convolution(channels: int, kernel: int, stride: int = 1, gamma: str = "ones") -> list[HybridBlock]:
    return [
        nn.Conv2D(channels, kernel, stride, padding=kernel // 2, use_bias=False),
        nn.BatchNorm(gamma_initializer=gamma),
    ]
