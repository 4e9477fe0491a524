"""`export`: the model of a run's newest checkpoint, as files that live without this package."""

import json
from pathlib import Path
from typing import Annotated

import typer

from trainer.errors import ConfigError
from trainer.observe import events
from trainer.run import Run, find


def export(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write model.onnx too, checked against MXNet.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write the model of the newest checkpoint into the run's directory; the run need not be finished.

    Example: python -m trainer export --run fashion-mnist --onnx
    """
    paths = _export(find(run), onnx)
    if as_json:
        print(json.dumps({"files": [str(path) for path in paths]}))
    else:
        print("\n".join(map(str, paths)))


def _export(run: Run, onnx: bool) -> list[Path]:
    from trainer.learn.export import export_newest_checkpoint

    paths = export_newest_checkpoint(run, _last_start(run))
    if onnx:
        from trainer.learn.onnx_export import export_onnx

        paths.append(export_onnx(run))
    return paths


def _last_start(run: Run) -> dict:
    starts = [event for event in events.read(run.events) if event.get("kind") == "start"]
    if not starts:
        raise ConfigError(f"--run must be a run that has begun to train, got {run.directory}: no start in its events")
    return starts[-1]
