"""Which part of the package may import which: the rules that keep training and watching apart."""

import ast
from pathlib import Path

import pytest

import trainer

PACKAGE = Path(trainer.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imports(module: Path) -> set[str]:
    """Dotted names that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def breaks(module: Path, *forbidden: str) -> list[str]:
    return [name for name in imports(module) if any(name == f or name.startswith(f + ".") for f in forbidden)]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_nobody_imports_the_commands_but_main_and_the_commands(module):
    if module.parts[0] not in ("commands", "__main__.py"):
        assert not breaks(module, "trainer.commands", "trainer.__main__")


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] in ("observe", "spot")], ids=str)
def test_watching_and_stopping_know_nothing_of_training(module):
    assert not breaks(module, "mxnet", "trainer.learn", "trainer.data")


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] == "data"], ids=str)
def test_data_knows_nothing_of_learning(module):
    assert not breaks(module, "trainer.learn", "trainer.observe", "trainer.spot")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_library_has_its_room(module):
    if module.parts[0] not in ("learn", "data"):
        assert not breaks(module, "mxnet")
    if module != Path("observe/gpu.py"):
        assert not breaks(module, "pynvml")
    if module != Path("spot/mirror.py"):
        assert not breaks(module, "boto3", "botocore")
    assert not breaks(module, "pickle")


def test_the_rules_see_an_import():
    assert "mxnet.nd" in imports(Path("learn/checkpoint.py"))
