"""The trained model as files that plain MXNet loads: PREFIX-symbol.json and PREFIX-NNNN.params, and its card."""

import json
import os
from pathlib import Path

import mxnet as mx
from mxnet.gluon import HybridBlock, Parameter

from trainer import __version__
from trainer.config import Config
from trainer.data.augment import validation_enlargement
from trainer.learn.parameters import write_arrays
from trainer.run import Run


def export_model(
    network: HybridBlock,
    run: Run,
    config: Config,
    *,
    classes: list[str] | None,
    top1: float | None,
    epoch: float | None = None,
) -> list[Path]:
    """Writes model-symbol.json, model-0000.params and the card model.json into the run's directory.

    `epoch`: how many epochs were trained (None: all). Returns the paths. DiskError, OSError.
    """
    paths = write_symbol_and_params(network, run.model_prefix, 0)
    card = _card(config) | {"classes": classes, "top1": top1, "epoch": config.epochs if epoch is None else epoch}
    _write(run.model_card, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    return [*paths, run.model_card]


def write_symbol_and_params(network: HybridBlock, prefix: Path, epoch: int) -> list[Path]:
    """Writes PREFIX-symbol.json (logits, float32, no casts of mixed precision) and PREFIX-NNNN.params.

    Each file appears whole or not at all. Returns the paths. DiskError, OSError.
    """
    symbol = network(mx.sym.var("data"))
    prefix.parent.mkdir(parents=True, exist_ok=True)
    symbol_path, params_path = Path(f"{prefix}-symbol.json"), Path(f"{prefix}-{epoch:04d}.params")
    unfinished = params_path.with_name(f"{params_path.name}.unfinished")
    write_arrays(unfinished, _arrays(network, symbol))
    _rename(unfinished, params_path)
    _write(symbol_path, symbol.tojson(remove_amp_cast=True))
    return [symbol_path, params_path]


def _arrays(network: HybridBlock, symbol: mx.sym.Symbol) -> dict[str, mx.nd.NDArray]:
    states = set(symbol.list_auxiliary_states())
    return {
        f"{'aux' if name in states else 'arg'}:{name}": _value(parameter)
        for name, parameter in network.collect_params().items()
    }


def _value(parameter: Parameter) -> mx.nd.NDArray:
    """Weights are the same on every device; batch norm's statistics are each device's own, so their mean."""
    arrays = [array.as_in_context(mx.cpu()) for array in parameter.list_data()]
    return arrays[0] if parameter.grad_req != "null" else sum(arrays) / len(arrays)


def _card(config: Config) -> dict:
    return {
        "network": config.network,
        "num_layers": config.num_layers,
        "num_classes": config.num_classes,
        "image_shape": config.image_shape,
        "mean": config.mean,
        "std": config.std,
        "resize": _resize(config.image_shape),
        "version": __version__,
    }


def _resize(image_shape: tuple[int, int, int]) -> str:
    """How a picture becomes the network's input, for whoever uses the model without this package."""
    _, height, width = image_shape
    enlargement = validation_enlargement(height)
    return (
        f"scale to cover {round(height * enlargement)} x {round(width * enlargement)} (height x width), keeping the "
        f"aspect ratio; cut {height} x {width} from the centre; RGB 0-255, minus mean, divided by std; channels first"
    )


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    _rename(unfinished, path)


def _rename(unfinished: Path, path: Path) -> None:
    """Gives a file its name once it is on disk, so that a crash leaves the old one or the new one."""
    with open(unfinished, "rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, path)
