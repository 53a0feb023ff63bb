"""The fixes of all rules about streaming at once: they meet in one option, and none undoes another."""

from __future__ import annotations

from glowplug.lint import fixing, registry
from glowplug.lint.run import Options
from tests.lint import checking
from tests.lint.streaming.pods import CHUNK, FORMAT, GUIDES, MODEL, deployment, extra, streamed

RULES = tuple(rule for rule in registry.RULES.values() if rule.area == "streaming")
SIZE = 67 * 10**9


def fixed(text: str, *, unsafe: bool) -> tuple[str, list[str]]:
    """The text, and the rules that still find something."""
    done = fixing.fix(checking.sources(text), Options(RULES, "", SIZE), unsafe=unsafe)
    assert done.report.failures == ()
    assert done.refused == ()
    return done.sources[0].text, [one.rule for one in done.findings]


def test_keys_of_several_rules_come_into_one_option() -> None:
    text = deployment(MODEL, FORMAT, "-tp", "2", spec="nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}")
    after, left = fixed(text, unsafe=True)
    assert left == []
    assert after.count("--model-loader-extra-config") == 1
    assert '{"distributed":true,"concurrency":18}' in after


def test_the_guides_settings_lose_what_harms() -> None:
    env = {
        **CHUNK,
        "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "3000",
        "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT": "1048576",
    }
    text = streamed("-tp", "2", extra(concurrency=17, distributed=True), image=GUIDES, env=env)
    after, left = fixed(text, unsafe=False)
    assert left == ["concurrency-formula", "concurrency-wasted", "distributed-corrupts"]
    assert "LOW_SPEED" not in after
    assert "'30000'" in after
    assert fixed(text, unsafe=True)[1] == []


def test_everything_that_is_misspelt_is_written_right() -> None:
    text = streamed(
        '--model-loader-extra-config={"concurency": "16"}',
        env={"RUNAI_STREAMER_CHUNK_SIZE": "4GiB", "AWS_ENDPOINT_URL": "http://minio:9000/"},
    ).replace("s3://", "S3://")
    after, left = fixed(text, unsafe=False)
    assert left == []
    assert '--model-loader-extra-config={"concurrency": 16}' in after
    assert "'4294967296'" in after
    assert "'http://minio:9000'" in after
    assert "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING" in after
    assert "s3://" in after
