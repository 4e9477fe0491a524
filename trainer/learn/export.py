"""The trained model as files that plain MXNet loads: PREFIX-symbol.json and PREFIX-NNNN.params, and its card."""

import json
from pathlib import Path

import mxnet as mx
from mxnet.gluon import HybridBlock, SymbolBlock

from trainer import __version__
from trainer.config import Config, build
from trainer.data.augment import validation_enlargement
from trainer.errors import ConfigError, DataError
from trainer.files import draft_of, write_whole
from trainer.learn import checkpoint
from trainer.learn.model import build_network, initialise_network
from trainer.learn.optimizer import make_trainer
from trainer.learn.parameters import current_values, last_line, write_arrays
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
    write_whole(run.model_card, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    return [*paths, run.model_card]


def export_newest_checkpoint(run: Run, start: dict) -> list[Path]:
    """The same from the newest checkpoint of a run; its network is built on the CPU. `start`: the run's start event.

    A model whose checkpoints are gone stays as it is. ConfigError when the run has neither.
    """
    path = checkpoint.newest(run)
    if path is None and run.model_card.exists():
        return [*model_paths(run.model_prefix, 0), run.model_card]
    if path is None:
        raise ConfigError(f"--run must be a run with a checkpoint, got {run.directory}, which has none")
    state = checkpoint.read_state(path)
    config = build(state["config"] | {"init_from": None, "load_epoch": None}, source=str(path), folder=path)
    network = build_network(config)
    # One copy for each device of the training: each has batch-norm statistics of its own.
    initialise_network(network, config, [mx.cpu(number) for number in range(len(config.devices))])
    checkpoint.load(path, network, make_trainer(network, config))
    progress = checkpoint.progress_of(state)
    examples = config.num_examples or start["records_train"]
    return export_model(
        network, run, config, classes=start["classes"], top1=progress.top1, epoch=progress.samples / examples
    )


def read_card(run: Run) -> dict:
    """The card of a run's exported model; ConfigError when there is no exported model."""
    try:
        return json.loads(run.model_card.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"--run must be a run with an exported model, got {run.directory}, which is not finished; "
            f"its newest checkpoint becomes one by: ./kit trainer export --run {run.name}"
        ) from error
    except ValueError as error:
        raise DataError(f"{run.model_card}: must be the card of a model, but cannot be read: {error}") from error


def load_exported(run: Run) -> SymbolBlock:
    """The exported model on the CPU: [n, 3, height, width] -> [n, num_classes] logits; DataError when damaged."""
    symbol_path, params_path = model_paths(run.model_prefix, 0)
    try:
        network = SymbolBlock(mx.sym.load(str(symbol_path)), mx.sym.var("data", dtype="float32"))
        network.collect_params().load(str(params_path), mx.cpu())
    except (mx.MXNetError, UnicodeDecodeError, AssertionError) as error:
        raise DataError(f"{run.directory}: the exported model cannot be read: {last_line(error)}") from error
    return network


def model_paths(prefix: Path, epoch: int) -> tuple[Path, Path]:
    """The symbol's and the parameters' file, named as MXNet's load_checkpoint expects."""
    return Path(f"{prefix}-symbol.json"), Path(f"{prefix}-{epoch:04d}.params")


def write_symbol_and_params(network: HybridBlock, prefix: Path, epoch: int) -> list[Path]:
    """Writes PREFIX-symbol.json (logits, float32, no casts of mixed precision) and PREFIX-NNNN.params.

    Each file appears whole or not at all. Returns the paths. DiskError, OSError.
    """
    symbol = network(mx.sym.var("data"))
    prefix.parent.mkdir(parents=True, exist_ok=True)
    symbol_path, params_path = model_paths(prefix, epoch)
    with draft_of(params_path) as draft:
        write_arrays(draft, _arrays(network, symbol))
    write_whole(symbol_path, symbol.tojson(remove_amp_cast=True))
    return [symbol_path, params_path]


def _arrays(network: HybridBlock, symbol: mx.sym.Symbol) -> dict[str, mx.nd.NDArray]:
    states = set(symbol.list_auxiliary_states())
    return {f"{'aux' if name in states else 'arg'}:{name}": array for name, array in current_values(network).items()}


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
