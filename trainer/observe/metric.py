"""Metrics as prometheus_client collects them. What is not a finite number makes no series: never 0 for unknown."""

from collections.abc import Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from trainer.observe.history import is_number
from trainer.observe.totals import Histogram


def gauge(name: str, help_text: str, value) -> Metric:
    return _filled(GaugeMetricFamily(name, help_text, labels=()), {(): value})


def gauge_by(name: str, help_text: str, label: str, values: Mapping[str, float | None]) -> Metric:
    """One series for each value of the label."""
    return _filled(GaugeMetricFamily(name, help_text, labels=(label,)), {(key,): values[key] for key in values})


def counter(name: str, help_text: str, value) -> Metric:
    """`_total` is added to the name."""
    return _filled(CounterMetricFamily(name, help_text, labels=()), {(): value})


def counter_by(name: str, help_text: str, label: str, values: Mapping[str, float | None]) -> Metric:
    return _filled(CounterMetricFamily(name, help_text, labels=(label,)), {(key,): values[key] for key in values})


def histogram(name: str, help_text: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(name, help_text, buckets=values.buckets(), sum_value=values.sum)


def info(name: str, help_text: str, labels: dict[str, str]) -> Metric:
    """`_info` is added to the name."""
    return InfoMetricFamily(name, help_text, value=labels)


def _filled(family, values: Mapping[tuple, float | None]) -> Metric:
    for labels, value in values.items():
        if is_number(value):
            family.add_metric(labels, value)
    return family
