"""pip's settings on this machine in the words of uv, which does not read them: where packages come from."""

import ast
import os
from urllib.parse import urlsplit

SECTIONS = ("global", "install", ":env:")
OPTIONS_OF_PIP_ALONE = (
    "cache-dir", "config-file", "default-timeout", "disable-pip-version-check", "no-cache-dir", "no-color", "no-input",
    "progress-bar", "quiet", "retries", "root-user-action", "timeout", "verbose",
)  # fmt: skip
ENVIRONMENT = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "extra-index-url": ("UV_INDEX",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY"),
}


def uv_settings(config_list):
    """Environment of uv that means what `pip config list` says; None where uv may understand it otherwise.

    Not options: addresses may hold passwords, and everybody may read a command line.
    """
    environment = {}
    for line in config_list.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section not in SECTIONS or key in OPTIONS_OF_PIP_ALONE:
            continue
        words = str(ast.literal_eval(value)).split()
        if not words:
            continue
        # Said twice: which one counts is pip's affair.
        if key not in ENVIRONMENT or ENVIRONMENT[key][0] in environment or not _means_the_same(key, words):
            return None
        environment |= dict.fromkeys(ENVIRONMENT[key], " ".join(words))
    return environment


def _means_the_same(key, words):
    if key == "cert":
        return os.path.isfile(" ".join(words))  # pip knows ~ and directories, too
    if key.endswith("index-url"):
        return all(map(_is_safe, words))
    return True


def _is_safe(address):
    """pip passes over what anybody on the way may change; uv does not."""
    parts = urlsplit(address)
    return parts.scheme != "http" or parts.hostname in ("localhost", "127.0.0.1")
