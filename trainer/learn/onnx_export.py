"""The exported model as ONNX, so that it outlives MXNet; checked against MXNet before it gets its name."""

import json
from pathlib import Path

import mxnet as mx
import numpy as np
import onnx
import onnxruntime
from mxnet.onnx import export_model as mxnet_to_onnx

from trainer.errors import TrainerError
from trainer.files import draft_of
from trainer.learn.export import load_exported, model_paths, read_card
from trainer.run import Run

# MXNet 1.9.1 writes operators as opset 13 defines them and stamps them with the newest opset that onnx knows.
OPSET = 13
_IR_VERSION = 7  # the format that came with opset 13
# Of the largest output (or of 1): float32 sums in another order.
TOLERANCE = 1e-4


def export_onnx(run: Run) -> Path:
    """Writes model.onnx from a run's exported model: any batch size, logits, the card in its metadata.

    ConfigError without an exported model, TrainerError when onnxruntime computes something else than MXNet.
    """
    card = read_card(run)
    path = run.model_prefix.with_suffix(".onnx")
    with draft_of(path) as draft:
        _convert(run, tuple(card["image_shape"]), draft)
        onnx.save(_completed(onnx.load(draft), card), draft)
        _verify(run, draft, card["image_shape"])
    return path


def _convert(run: Run, image_shape: tuple[int, int, int], path: Path) -> None:
    symbol_path, params_path = model_paths(run.model_prefix, 0)
    mxnet_to_onnx(
        mx.sym.load(str(symbol_path)),
        {name.split(":", 1)[1]: array for name, array in mx.nd.load(str(params_path)).items()},
        [(1, *image_shape)],
        np.float32,
        str(path),
        dynamic=True,
        dynamic_input_shapes=[(None, *image_shape)],
    )


def _completed(model: onnx.ModelProto, card: dict) -> onnx.ModelProto:
    """Right version, weights as constants instead of optional inputs, named axes, the card."""
    model.opset_import[0].version, model.ir_version = OPSET, _IR_VERSION
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    batch, classes = model.graph.output[0].type.tensor_type.shape.dim
    batch.dim_param, classes.dim_value = "batch", card["num_classes"]
    onnx.helper.set_model_props(model, {key: json.dumps(value, ensure_ascii=False) for key, value in card.items()})
    return model


def _verify(run: Run, path: Path, image_shape: list[int]) -> None:
    """Another batch size than the one it was converted with, so that the batch axis is proven too."""
    onnx.checker.check_model(str(path))
    images = np.random.default_rng(0).standard_normal((3, *image_shape)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {"data": images})
    expected = load_exported(run)(mx.nd.array(images)).asnumpy()
    difference = np.abs(outputs - expected).max() / max(1.0, np.abs(expected).max())
    if not difference <= TOLERANCE:
        raise TrainerError(
            f"{path}: onnxruntime's outputs must equal MXNet's up to {TOLERANCE:g}, but differ by {difference:g}"
        )
