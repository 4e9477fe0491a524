import json

import pytest
from typer.testing import CliRunner

from trainer.commands.app import app
from trainer.errors import ConfigError


def bench(data, *options):
    command = ["bench", "pipeline", "--data", str(data), "--rounds", "1", "--seconds", "0.05", "--size", "24", *options]
    return CliRunner().invoke(app, command, catch_exceptions=True)


def test_each_engine_at_each_number_of_threads_gets_a_row(tiny_data):
    ended = bench(tiny_data["train"], "--threads", "1,2", "--engines", "kit,kit-wheel,mxnet,decode", "--json")
    assert ended.exit_code == 0, ended.output
    rows = json.loads(ended.stdout)
    engines = ("kit", "kit-wheel", "mxnet", "decode")
    assert [(row["engine"], row["threads"]) for row in rows] == [(e, t) for e in engines for t in (1, 2)]
    for row in rows:
        assert row["images_per_second"] > 0
        assert row["cpu_ms_per_image"] > 0
        assert (row["share_of_linear"] == 1) == (row["threads"] == 1)


def test_the_table_names_them(tiny_data):
    output = bench(tiny_data["train"], "--engines", "kit", "--threads", "1", "--dtype", "uint8").stdout
    assert "CPU ms/image" in output
    assert "kit " in output


@pytest.mark.parametrize("options", [("--engines", "kit,dali"), ("--threads", "1,0"), ("--dtype", "float16")])
def test_wrong_options_are_named(tiny_data, options):
    error = bench(tiny_data["train"], *options).exception
    assert isinstance(error, ConfigError)
    assert options[0] in str(error)
    assert options[1] in str(error)
