"""check/policy.py: an endpoint's policy says allow or deny only where that is certain."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.check import policy
from glowplug.check.policy import Verdict

READING = policy.reading("weights", "llama/8b", "us-west-2")
LIST = "arn:aws:s3:::weights"
OBJECTS = "arn:aws:s3:::weights/llama/8b/"


def _allow(**changes: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*", **changes}
    return {name: value for name, value in statement.items() if value is not None}


def _deny(**changes: Any) -> dict[str, Any]:
    return _allow(Effect="Deny", **changes)


ALL = _allow()
BOTH = [LIST, f"{LIST}/*"]
CASES: list[tuple[str, list[dict[str, Any]], Verdict]] = [
    ("everything", [ALL], Verdict.ALLOW),
    ("no statement", [], Verdict.DENY),
    ("s3 alone", [_allow(Action="s3:*")], Verdict.ALLOW),
    ("case of actions does not matter", [_allow(Action=["S3:getobject", "s3:LISTBucket"])], Verdict.ALLOW),
    ("wildcards inside actions", [_allow(Action=["s3:Get*", "s3:?istBucket"])], Verdict.ALLOW),
    ("reading without listing", [_allow(Action="s3:GetObject")], Verdict.DENY),
    ("another service", [_allow(Action="dynamodb:*")], Verdict.DENY),
    ("bucket and objects", [_allow(Resource=BOTH)], Verdict.ALLOW),
    ("objects only", [_allow(Resource=f"{LIST}/*")], Verdict.DENY),
    ("bucket only", [_allow(Resource=LIST)], Verdict.DENY),
    ("one pattern for both", [_allow(Resource=f"{LIST}*")], Verdict.ALLOW),
    ("exactly the prefix", [_allow(Resource=[LIST, f"{OBJECTS}*"])], Verdict.ALLOW),
    ("a longer prefix", [_allow(Resource=[LIST, f"{OBJECTS}fp8/*"])], Verdict.UNKNOWN),
    ("one kind of file", [_allow(Resource=[LIST, f"{LIST}/*.safetensors"])], Verdict.UNKNOWN),
    ("another prefix", [_allow(Resource=[LIST, f"{LIST}/qwen/*"])], Verdict.DENY),
    ("another bucket", [_allow(Resource=["arn:aws:s3:::other", "arn:aws:s3:::other/*"])], Verdict.DENY),
    (
        "a bucket of a longer name",
        [_allow(Resource=["arn:aws:s3:::weights-2", "arn:aws:s3:::weights-2/*"])],
        Verdict.DENY,
    ),
    ("case of buckets matters", [_allow(Resource="arn:aws:s3:::Weights*")], Verdict.DENY),
    ("another partition", [_allow(Resource="arn:aws-cn:s3:::*")], Verdict.DENY),
    ("a policy variable", [_allow(Resource="arn:aws:s3:::${aws:PrincipalTag/bucket}*")], Verdict.UNKNOWN),
    ("all but another bucket", [_allow(Resource=None, NotResource="arn:aws:s3:::other*")], Verdict.ALLOW),
    ("all but ours", [_allow(Resource=None, NotResource=f"{LIST}*")], Verdict.DENY),
    ("all but some of ours", [_allow(Resource=None, NotResource=f"{OBJECTS}old/*")], Verdict.UNKNOWN),
    ("all but deleting", [_allow(Action=None, NotAction="s3:Delete*")], Verdict.ALLOW),
    ("all but reading", [_allow(Action=None, NotAction=["s3:Get*"])], Verdict.DENY),
    ("an account", [_allow(Principal={"AWS": "123456789012"})], Verdict.UNKNOWN),
    ("everyone by the other spelling", [_allow(Principal={"AWS": "*"})], Verdict.ALLOW),
    ("everyone in a list", [_allow(Principal={"AWS": ["*"]})], Verdict.ALLOW),
    ("all but a role", [_allow(Principal=None, NotPrincipal={"AWS": "arn:aws:iam::1:role/r"})], Verdict.UNKNOWN),
    ("under a condition", [_allow(Condition={"StringEquals": {"aws:PrincipalOrgID": "o-1"}})], Verdict.UNKNOWN),
    ("an empty condition is none", [_allow(Condition={})], Verdict.ALLOW),
    ("a condition, and without", [_allow(Condition={"Bool": {"aws:SecureTransport": "true"}}), ALL], Verdict.ALLOW),
    (
        "a condition on another bucket",
        [_allow(Resource="arn:aws:s3:::o*", Condition={"Bool": {"a": "b"}}), ALL],
        Verdict.ALLOW,
    ),
    ("deny wins", [ALL, _deny()], Verdict.DENY),
    ("deny of ours", [ALL, _deny(Resource=f"{LIST}/*")], Verdict.DENY),
    ("deny of another bucket", [ALL, _deny(Resource="arn:aws:s3:::other*")], Verdict.ALLOW),
    ("deny of writing", [ALL, _deny(Action=["s3:Put*", "s3:Delete*"])], Verdict.ALLOW),
    ("deny of some of ours", [ALL, _deny(Resource=f"{OBJECTS}old/*")], Verdict.UNKNOWN),
    ("deny under a condition", [ALL, _deny(Condition={"Bool": {"aws:SecureTransport": "false"}})], Verdict.UNKNOWN),
    ("deny of all but ours", [ALL, _deny(Resource=None, NotResource=f"{LIST}*")], Verdict.ALLOW),
    ("deny of all but another", [ALL, _deny(Resource=None, NotResource="arn:aws:s3:::other*")], Verdict.DENY),
    ("deny to a role", [ALL, _deny(Principal={"AWS": "arn:aws:iam::1:role/r"})], Verdict.UNKNOWN),
    ("nothing allowed beats a perhaps denied", [_deny(Condition={"Bool": {"a": "b"}})], Verdict.DENY),
    ("both actions are written", [_allow(NotAction="s3:*")], Verdict.UNKNOWN),
    ("no action is written", [_allow(Action=None)], Verdict.UNKNOWN),
    ("actions that are no text", [_allow(Action=[1])], Verdict.UNKNOWN),
    ("no resources in the list", [_allow(Resource=[])], Verdict.UNKNOWN),
]


@pytest.mark.parametrize(("statements", "verdict"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_verdict(statements: list[dict[str, Any]], verdict: Verdict) -> None:
    answer = policy.ask(json.dumps({"Version": "2012-10-17", "Statement": statements}), READING)
    assert answer.verdict is verdict
    assert bool(answer.why) is (verdict is not Verdict.ALLOW)


def test_a_statement_without_a_list_around_it() -> None:
    assert policy.ask(json.dumps({"Statement": ALL}), READING).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "1",
        '"x"',
        "{}",
        '{"Statement": "x"}',
        '{"Statement": [1]}',
        '{"Statement": [{"Effect": "allow"}]}',
        "[" * 100_000,
        '{"Statement":' * 20_000,
        json.dumps({"Statement": [ALL] * 100_000}),
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_what_is_no_policy_is_unknown(text: str) -> None:
    assert policy.ask(text, READING).verdict is Verdict.UNKNOWN


def test_a_hostile_pattern_takes_no_time() -> None:
    begin = time.monotonic()
    for pattern in ("*" * 20_000, "*a" * 10_000, "?" * 20_000, f"{'*?' * 10_000}x"):
        policy.ask(
            json.dumps({"Statement": [_allow(Resource=pattern)]}), policy.reading("b" * 63, "p/" * 400, "us-west-2")
        )
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("region", "arn"), [("us-west-2", "arn:aws:"), ("cn-north-1", "arn:aws-cn:"), ("us-gov-west-1", "arn:aws-us-gov:")]
)
def test_partitions(region: str, arn: str) -> None:
    assert all(question.resource.startswith(arn) for question in policy.reading("b", "", region))


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["*", "Allow", "Deny", "s3:*", f"{LIST}*"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Statement",
                    "Effect",
                    "Action",
                    "NotAction",
                    "Resource",
                    "NotResource",
                    "Principal",
                    "Condition",
                    "AWS",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(_json)
def test_any_json_has_an_answer(value: object) -> None:
    assert policy.ask(json.dumps(value), READING).verdict in Verdict
    assert policy.ask(json.dumps({"Statement": value}), READING).verdict in Verdict


@given(st.text(max_size=200))
def test_any_text_has_an_answer(text: str) -> None:
    assert policy.ask(text, READING).verdict in Verdict


_letters = st.text("ab*?", max_size=8)


@given(_letters, st.text("ab", max_size=8))
def test_patterns_match_as_globs_do(pattern: str, text: str) -> None:
    import re

    wanted = re.fullmatch("".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern), text)
    assert policy.match_all(pattern, text) is (wanted is not None)


@given(_letters, st.text("ab", max_size=5), st.text("ab", max_size=5))
def test_a_whole_prefix_is_covered_only_if_each_of_its_objects_is(pattern: str, prefix: str, rest: str) -> None:
    """Allow means allow for every object below; deny by "no statement" means for none of them."""
    text = json.dumps({"Statement": [_allow(Resource=pattern)]})
    verdict = policy.ask(text, [policy.Question("s3:GetObject", prefix, below=True)]).verdict
    one = policy.ask(text, [policy.Question("s3:GetObject", prefix + rest)]).verdict
    assert verdict is Verdict.UNKNOWN or verdict is one
