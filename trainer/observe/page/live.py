"""The live page: HTML without data, and the files that it loads from beside itself."""

import hashlib
from functools import cache
from pathlib import Path

from plotly.offline import get_plotlyjs

from trainer.observe.page import environment

_FOLDER = Path(__file__).parent
_OWN = (
    "report.css", "live.css", "charts.js", "strips.js", "live-feed.js", "live-words.js", "live-charts.js", "live.js",
)  # fmt: skip
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


def page(run_name: str) -> bytes:
    names = {stem.replace(".", "_").replace("-", "_"): name for name, (stem, _) in _files().items()}
    return environment().get_template("live.html").render(run=run_name, assets=names).encode()


def asset(name: str) -> tuple[bytes, str] | None:
    if name not in _files():
        return None
    content = _files()[name][1]
    return content, _TYPES[Path(name).suffix]


@cache
def _files() -> dict[str, tuple[str, bytes]]:
    """By a name that holds the digest of the content, so that browsers may keep it for ever: plain name, content."""
    contents = {name: (_FOLDER / name).read_bytes() for name in _OWN}
    contents["plotly.js"] = get_plotlyjs().encode()
    return {_with_digest(name, content): (name, content) for name, content in contents.items()}


def _with_digest(name: str, content: bytes) -> str:
    path = Path(name)
    return f"{path.stem}-{hashlib.sha256(content).hexdigest()[:12]}{path.suffix}"
