"""Filters and pages of EC2's describe calls."""

import base64
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from moto.ec2.exceptions import EC2ClientError

Keys = Mapping[str, Callable[[dict[str, Any]], Any]]


def keep(rows: list[dict[str, Any]], filters: list[dict[str, Any]], keys: Keys) -> list[dict[str, Any]]:
    """Rows that pass every filter; values may hold * and ?. An unknown filter is an error, as at AWS."""
    for name in (row["Name"] for row in filters):
        if name not in keys:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return [row for row in rows if all(_passes(keys[f["Name"]](row), f.get("Values", [])) for f in filters)]


def _passes(value: Any, patterns: list[str]) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(fnmatchcase(_text(one), pattern) for one in values for pattern in patterns)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def page(rows: list[Any], token: str | None, size: int, empty_first: bool = False) -> tuple[list[Any], str | None]:
    """A page and the token of the next one. With `empty_first` each page is preceded by an empty one with a token."""
    start, served_empty = _read_token(token)
    if empty_first and not served_empty:
        return [], _make_token(start, True)
    end = start + size
    return rows[start:end], _make_token(end, False) if end < len(rows) else None


def _make_token(start: int, served_empty: bool) -> str:
    return base64.b64encode(f"{start} {int(served_empty)}".encode()).decode()


def _read_token(token: str | None) -> tuple[int, bool]:
    if not token:
        return 0, False
    try:
        start, served_empty = base64.b64decode(token, validate=True).decode().split()
        return int(start), served_empty == "1"
    except ValueError as error:
        raise EC2ClientError("InvalidNextToken", "The token 'NextToken' is invalid") from error
