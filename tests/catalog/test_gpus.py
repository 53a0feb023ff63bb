"""What a GPU's name means: one card, several, a part of one, or nothing."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.catalog.gpus import MIB, Gpu, gpu, gpus, meanings
from glowplug.core.errors import BadInputError, GlowplugError, UsageError

CARDS = {card.name: card for card in gpus()}
SPELLINGS = [(card, spelling) for card in gpus() for spelling in card.spellings]
SHARED_BY_CARDS = {"a100"}  # names of more than one card
BY_LABEL = [pytest.param(card, id=card.label) for card in gpus() if card.label]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100", "h100-80gb"),
        ("h100-80gb", "h100-80gb"),
        ("h100_80gb", "h100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("nvidia h100 80gb hbm3", "h100-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-80gb"),
        ("NVIDIA® H100", "h100-80gb"),
        ("A100 80GB", "a100-80gb"),
        ("A100-SXM4-40GB", "a100-40gb"),
        ("Tesla-T4", "t4"),
        ("Tesla T4", "t4"),
        ("nvidia-l4", "l4"),
        ("  L40S\n", "l40s"),
        ("RTX PRO 6000", "rtx-pro-server-6000"),
        ("NVIDIA-A10G-SHARED", "a10g"),
    ],
)
def test_names_that_people_and_machines_write(written: str, name: str) -> None:
    assert gpu(written).name == name


@pytest.mark.parametrize(("card", "spelling"), SPELLINGS, ids=[spelling for _, spelling in SPELLINGS])
def test_every_spelling_leads_back_to_its_card(card: Gpu, spelling: str) -> None:
    for written in (spelling, spelling.upper(), spelling.lower(), spelling.replace(" ", "-"), f" {spelling} "):
        assert card in meanings(written)
        if spelling not in SHARED_BY_CARDS:
            assert gpu(written) == card


@pytest.mark.parametrize("card", BY_LABEL)
def test_a_time_sliced_card_is_the_card(card: Gpu) -> None:
    assert gpu(f"{card.label}-SHARED") == card
    assert meanings(f"{card.label}-SHARED") == (card,)


@pytest.mark.parametrize("profile", ["1g.5gb", "3g.40gb", "1c.2g.10gb", "1g.10gb.me", "7g.80gb-SHARED"])
@pytest.mark.parametrize("card", BY_LABEL)
def test_a_part_is_never_taken_for_the_card_but_its_kernels_are_the_cards(card: Gpu, profile: str) -> None:
    for part in (f"{card.label}-MIG-{profile}", f"{card.nvml_name} MIG {profile}"):
        with pytest.raises(BadInputError) as caught:
            gpu(part)
        assert caught.value.code == "partial-gpu"
        assert card.name in caught.value.message
        assert meanings(part) == (card,)
        assert meanings(part, 4864) == (card,)


def test_a100_is_two_cards_told_apart_by_memory() -> None:
    both = (CARDS["a100-40gb"], CARDS["a100-80gb"])
    assert meanings("a100") == both
    assert meanings("a100", 40960) == both[:1]
    assert meanings("a100", 81920) == both[1:]
    with pytest.raises(BadInputError) as caught:
        gpu("A100")
    assert caught.value.code == "ambiguous-gpu"
    assert "a100-40gb or a100-80gb" in caught.value.message
    assert "a100-40gb or a100-80gb" in caught.value.hint


@pytest.mark.parametrize("card", BY_LABEL)
def test_memory_beside_a_label_may_be_ec2s_or_nvmls(card: Gpu) -> None:
    for size in {card.ec2_memory_bytes, card.nvml_memory_bytes or card.ec2_memory_bytes}:
        assert meanings(card.label, size // MIB) == (card,)


def test_memory_that_no_such_card_has_means_no_card() -> None:
    fraction_of_g6f_large = 2861
    assert meanings("l4", fraction_of_g6f_large) == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("h1000", "h100-80gb"),
        ("a10", "a10g"),
        ("NVIDIA H100 PCIe", "h100-80gb"),
        ("L40", "l40s"),
        ("NVIDIA-A100-SXM4-80GBx", "a100-80gb"),
    ],
)
def test_unknown_names_come_with_what_was_meant(written: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        gpu(written)
    assert caught.value.code == "unknown-gpu"
    assert "did you mean" in caught.value.hint
    assert meant in caught.value.hint
    assert meanings(written) == ()


@pytest.mark.parametrize(
    "other",
    [
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "NVIDIA RTX PRO 4500 Blackwell",
        "NVIDIA H200 NVL",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA H100 NVL",
    ],
)
def test_a_card_that_ec2_does_not_have_is_not_taken_for_one_that_it_has(other: str) -> None:
    assert meanings(other) == ()


def test_an_unlike_name_has_the_general_hint() -> None:
    with pytest.raises(UsageError) as caught:
        gpu("???")
    assert "did you mean" not in caught.value.hint
    assert caught.value.hint


@given(st.text() | st.sampled_from([spelling for _, spelling in SPELLINGS]).flatmap(lambda s: st.text().map(s.__add__)))
def test_any_text_is_a_card_or_one_of_our_errors(text: str) -> None:
    found = meanings(text, 40960)
    assert set(found) <= set(meanings(text))
    try:
        assert gpu(text) in gpus()
    except GlowplugError as error:
        assert error.code in {"unknown-gpu", "ambiguous-gpu", "partial-gpu"}
        assert "\n" not in error.message


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "-mig-" * 10**5, "h100" + " " * 10**6 + "x", "1" * 10**6, "-mig-" + "1" * 10**6]
)
def test_long_text_is_answered_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(GlowplugError) as caught:
        gpu(text)
    assert time.process_time() - began < 2
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("name", "mib"),
    [("a10g", 22888), ("l40s", 45776), ("h100-80gb", 81559), ("rtx-pro-server-6000", 97887), ("b300", 275040)],
)
def test_the_smaller_of_two_statements_counts(name: str, mib: int) -> None:
    assert CARDS[name].memory_bytes == mib * MIB


def test_without_nvmls_number_ec2s_counts() -> None:
    card = CARDS["rtx-pro-4500"]
    assert card.nvml_memory_bytes is None
    assert card.memory_bytes == card.ec2_memory_bytes
