"""EC2 and EKS on 127.0.0.1 (lab/aws.py), one server for all tests, and the network that each test is about."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab import aws


@pytest.fixture(scope="session")
def moto() -> Iterator[aws.Server]:
    with aws.serve() as server:
        yield server


@pytest.fixture(scope="session")
def one_front(moto: aws.Server) -> Iterator[aws.Front]:
    with aws.Front(moto) as front:
        yield front


@pytest.fixture(scope="session")
def topologies(one_front: aws.Front) -> aws.Topologies:
    return aws.Topologies(one_front)


@pytest.fixture
def front(one_front: aws.Front, monkeypatch: pytest.MonkeyPatch) -> Iterator[aws.Front]:
    """Without faults, and with the variables by which boto3 finds it; no others of AWS's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in one_front.server.env().items():
        monkeypatch.setenv(name, value)
    yield one_front
    one_front.reset()


@pytest.fixture(scope="session")
def forgotten(topologies: aws.Topologies) -> aws.Made:
    """A cluster with NAT gateways, and a gateway endpoint that one route table lacks."""
    return topologies.endpoint_forgotten("forgotten")
