"""A function over many items in threads: results in the items' order, a bounded number of them ahead."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Pictures are worth some 0.1 to 2 ms each: this many at once hide what handing them over costs.
_ITEMS_A_TASK = 8


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """function(item) for each item, at most 2 tasks a thread ahead; raises what the function raised."""
    source = iter(items)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="pictures")
    tasks: deque = deque()
    try:
        while True:
            while len(tasks) < 2 * threads and (some := list(islice(source, _ITEMS_A_TASK))):
                tasks.append(pool.submit(_each, function, some))
            if not tasks:
                return
            yield from tasks.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _each(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [function(item) for item in items]
