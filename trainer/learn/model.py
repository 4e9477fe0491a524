"""The network that a configuration names, and the values that its parameters start from."""

import contextlib
import difflib
import io
from pathlib import Path

import mxnet as mx
from mxnet.gluon import HybridBlock
from mxnet.gluon.model_zoo import vision

from trainer.config import Config
from trainer.errors import ConfigError
from trainer.learn.parameters import read_parameters, set_parameters
from trainer.learn.resnet import ResNet

# Gluon numbers networks as they are made (resnet0_, resnet1_): a fixed prefix gives the parameters of the same
# network the same names in every process, so that an exported file fits a network made later.
PREFIX = "network_"
# Heights that some network of the zoo was made for, to tell which one a network needs.
_USUAL_PIXELS = (32, 64, 96, 128, 160, 192, 224, 256, 299, 320, 384, 448)


def build_network(config: Config) -> HybridBlock:
    """[n, 3, height, width] -> [n, num_classes] logits; not initialised, the parameters' shapes are known.

    ConfigError for a network that is unknown or does not work at this image_shape.
    """
    network = _make(config)
    shapes = _parameter_shapes(network, config.image_shape, config.num_classes)
    if shapes is None:
        raise ConfigError(_shape_problem(network, config))
    for name, parameter in network.collect_params().items():
        parameter.shape = shapes[name]
    return network


def initialise_network(network: HybridBlock, config: Config, contexts: list[mx.Context]) -> dict | None:
    """Gives the parameters their first values on every context.

    Random ones, or those of PREFIX-NNNN.params (load_epoch), or those of `init_from`; for the last it returns what
    `set_parameters` does: which parameters were taken and which are new.
    """
    network.initialize(_he_normal(), ctx=contexts, force_reinit=True)
    if config.load_epoch is not None:
        path = Path(f"{config.model_prefix}-{config.load_epoch:04d}.params")
        set_parameters(network, read_parameters(path, key="load_epoch"), path, complete=True)
    if config.init_from is None:
        return None
    return set_parameters(network, read_parameters(config.init_from, key="init_from"), config.init_from)


def set_weight_decay(network: HybridBlock) -> None:
    """Frees batch norm and biases from weight decay (Goyal et al. 2017, section 5.3; He et al. 2018, section 3.2)."""
    for name, parameter in network.collect_params().items():
        if name.endswith(("_gamma", "_beta", "_bias")):
            parameter.wd_mult = 0.0


def _he_normal() -> mx.init.Initializer:
    """Gaussian with variance 2 / fan in: He et al. 2015 (arXiv:1502.01852), equation 10, as MXNet's own recipe.

    Not fan out (their equation 14): a last layer of few classes would begin with outputs of 70 instead of 1.
    """
    return mx.init.MSRAPrelu(factor_type="in", slope=0)


def _make(config: Config) -> HybridBlock:
    if config.network == "resnet":
        return ResNet(config.num_layers, config.image_shape, config.num_classes, prefix=PREFIX)
    try:
        return vision.get_model(config.network, classes=config.num_classes, prefix=PREFIX)
    except ValueError as error:
        raise ConfigError(_unknown_network(config.network, str(error))) from error


def _unknown_network(name: str, zoo_message: str) -> str:
    """The zoo's message is its only list of names: a headline, then one name a line."""
    names = ["resnet", *(line.strip() for line in zoo_message.splitlines()[1:])]
    near = difflib.get_close_matches(name.lower(), names, n=3) or names
    return f'network must be "resnet" or a name of Gluon\'s model zoo (near: {", ".join(near)}), got "{name}"'


def _parameter_shapes(network: HybridBlock, image_shape: tuple, num_classes: int) -> dict[str, tuple] | None:
    """The shape of each parameter by name; None when the network does not make num_classes numbers of such an image."""
    symbol = network(mx.sym.var("data"))
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # a failing infer_shape prints
            arguments, outputs, states = symbol.infer_shape(data=(1, *image_shape))
    except mx.MXNetError:
        return None
    if outputs != [(1, num_classes)]:
        return None
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    return dict(zip(names, arguments + states, strict=True))


def _shape_problem(network: HybridBlock, config: Config) -> str:
    sizes = [pixels for pixels in _USUAL_PIXELS if _parameter_shapes(network, (3, pixels, pixels), config.num_classes)]
    works = " or ".join(f"[3, {pixels}, {pixels}]" for pixels in sizes[:1]) or "of another size"
    return f'image_shape must be {works} (or near) for network "{config.network}", got {list(config.image_shape)}'
