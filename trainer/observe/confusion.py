"""The confusion matrix of the last validation, and what it says of each class."""

from trainer.observe.history import History


def confusion(history: History) -> dict | None:
    """{labels, counts, epoch, records, classes} of the last validation that has a matrix; None without one.

    counts: [true class][predicted class]. classes: by class {label, records, right (share, None without records),
    taken_for (label and count of the most frequent mistake, None without mistakes)}.
    """
    event = next((event for event in reversed(history.validations) if _is_matrix(event.get("confusion"))), None)
    if event is None:
        return None
    counts = event["confusion"]
    labels = _labels(history, len(counts))
    classes = [_class(labels, row, index) for index, row in enumerate(counts)]
    return {
        "labels": labels,
        "counts": counts,
        "epoch": event.get("epoch"),
        "records": sum(map(sum, counts)),
        "classes": classes,
    }


def _class(labels: list[str], row: list[int], index: int) -> dict:
    records = sum(row)
    wrong = max((other for other in range(len(row)) if other != index), key=row.__getitem__, default=index)
    return {
        "label": labels[index],
        "records": records,
        "right": row[index] / records if records else None,
        "taken_for": {"label": labels[wrong], "count": row[wrong]} if wrong != index and row[wrong] else None,
    }


def _labels(history: History, count: int) -> list[str]:
    names = history.start.get("classes") or []
    return [str(name) for name in names] if len(names) == count else [str(index) for index in range(count)]


def _is_matrix(counts) -> bool:
    return isinstance(counts, list) and bool(counts) and all(len(row) == len(counts) for row in counts)
