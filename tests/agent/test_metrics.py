"""Metrics by Prometheus' conventions, and label values that no pod can multiply."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from glowplug.agent import bounding, metrics
from glowplug.agent.metrics import METRICS, Kind, Metric, Metrics
from glowplug.launch import reasons

_UNITS = ("seconds", "bytes")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
class TestEveryMetric:
    def test_has_a_name_by_the_conventions(self, metric: Metric) -> None:
        assert re.fullmatch(r"glowplug_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        words = set(metric.name.split("_"))
        assert not words & {"ms", "milliseconds", "mb", "kb", "ratio", "percent"}
        if metric.kind is Kind.HISTOGRAM:
            assert metric.name.endswith(_UNITS) and list(metric.buckets) == sorted(metric.buckets)

    def test_says_what_it_means(self, metric: Metric) -> None:
        assert metric.means.endswith((".", ")"))

    def test_is_scraped_under_its_name(self, metric: Metric) -> None:
        made = Metrics()
        labels = dict.fromkeys(metric.labels, "x")
        if metric.kind is Kind.COUNTER:
            made.add(metric, 2, **labels)
            made.add(metric, -5, **labels)
        elif metric.kind is Kind.GAUGE:
            made.set(metric, 2, **labels)
        else:
            made.observe(metric, 2, **labels)
            made.observe(metric, None, **labels)
        found = {
            sample.name: sample.value
            for family in text_string_to_metric_families(made.render().decode())
            for sample in family.samples
            if sample.value and sample.name.startswith(metric.name)
        }
        expected = f"{metric.name}_sum" if metric.kind is Kind.HISTOGRAM else metric.name
        assert found[expected] == 2


def test_names_are_given_once() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    stated = [value for value in vars(metrics).values() if isinstance(value, Metric)]
    assert {metric.name for metric in stated} == {metric.name for metric in METRICS}


def test_two_agents_in_one_process_do_not_count_together() -> None:
    one, other = Metrics(), Metrics()
    one.add(metrics.EVENTS, outcome="posted")
    assert b'outcome="posted"' in one.render() and b'outcome="posted"' not in other.render()


class TestBounding:
    @pytest.mark.parametrize(
        ("reason", "word"),
        [
            ("key:tp,args.max_model_len", "key"),
            ("guard:triton", "guard"),
            ("claim:env.VLLM_USE_V1", "claim:env"),
            ("claim:model", "claim:model"),
            ("secret_found: the value of X occurs in Y", "secret_found"),
            ("store_unavailable", "store_unavailable"),
            ("", "none"),
            ("whatever I like 12345", "other"),
            ("claim:whatever I like", "claim:other"),
            ("claim:disabled", "claim:disabled"),
            ("claim:guards", "claim:guards"),
            ("node_not_ready", "node_not_ready"),
        ],
    )
    def test_keeps_known_words_without_their_details(self, reason: str, word: str) -> None:
        assert bounding.word(reason) == word

    def test_names_fields_once(self) -> None:
        assert bounding.fields("key:tp,args.a,args.b,zzz") == ("tp", "args", "other")
        assert bounding.fields("no_keys") == ()

    @given(st.text(max_size=50), st.text(max_size=50))
    def test_makes_no_word_of_its_own(self, name: str, detail: str) -> None:
        known = bounding.REASONS | {"other", "none"}
        word = bounding.word(f"{name}:{detail}")
        assert word in known or word.removeprefix("claim:") in bounding.FIELDS | reasons.CLAIMS | {"other"}
        assert set(bounding.fields(f"key:{name},{detail}")) <= bounding.FIELDS | {"other"}

    @given(st.floats(allow_nan=False) | st.none())
    def test_makes_durations_that_can_be(self, number: float | None) -> None:
        found = bounding.seconds(number)
        assert found is None if number is None else found is not None and 0 <= found <= 7 * 86_400
