"""CUDA 10.2's libraries as far as a wheel asks for them: all its symbols, and nothing that computes."""

import re
import tempfile
from pathlib import Path

from network import call

FUNCTION = "int {}(void) {{ return 100; /* cudaErrorNoDevice */ }}\n"


def build(folder: Path, library: Path, names: list[str]) -> None:
    """Fills the folder with libraries of these names, for what `library` was linked against."""
    folder.mkdir()
    wanted = call("nm", "-D", "--undefined-only", "--with-symbol-versions", str(library))
    for name in names:
        # NVIDIA's symbols have their library's name as version; NCCL's have none.
        has_versions = not name.startswith("libnccl")
        pattern = rf" U (\w+)@{re.escape(name)}$" if has_versions else r" U (nccl\w+)$"
        symbols = re.findall(pattern, wanted, re.MULTILINE)
        assert symbols, f"{library.name} asks {name} for nothing"
        _link(folder / name, symbols, has_versions)


def _link(path: Path, symbols: list[str], has_versions: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "versions")
        source.write_text("".join(FUNCTION.format(name) for name in symbols))
        script.write_text(f"{path.name} {{ global: *; }};\n")
        versions = [f"-Wl,--version-script,{script}"] if has_versions else []
        call("cc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", *versions, "-o", str(path), str(source))
