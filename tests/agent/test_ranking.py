"""Which keys a node holds: what pods ask for, then what was used last, as much as fits; and the same again next time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.agent.ranking import Listed, Size, Wish, chosen, ordered
from glowplug.cache import layout
from tests.cache import making


def listed(used: float = 0.0, **changes: object) -> Listed:
    place = layout.parse_manifest_path(layout.manifest_path(making.key(**changes)))
    assert place is not None
    return Listed(place, "v1", used)


A, B, C = (("default", name) for name in "abc")
WISH = Wish("vllm", "s3://bucket/model", 1, "0.21.0")


class TestAWish:
    def test_is_met_by_the_key_of_its_engine_model_and_layout(self) -> None:
        assert WISH.fits(listed().place) == 2

    def test_of_unknown_or_other_version_is_met_less_well(self) -> None:
        assert Wish("vllm", "s3://bucket/model", 1).fits(listed().place) == 1
        assert Wish("vllm", "s3://bucket/model", 1, "0.30.0").fits(listed().place) == 1

    @pytest.mark.parametrize(
        "wish",
        [
            Wish("vllm", "s3://bucket/model", 2),
            Wish("vllm", "s3://bucket/other", 1),
            Wish("torch", "s3://bucket/model", 1),
        ],
    )
    def test_is_not_met_by_another_layout_model_or_engine(self, wish: Wish) -> None:
        assert wish.fits(listed().place) == 0


def test_what_pods_ask_for_comes_first_and_then_what_was_used_last() -> None:
    asked, new, old = listed(used=1), listed(used=9, model="m2"), listed(used=5, model="m3")
    order = ordered({"default": [old, new, asked]}, {"default": [WISH]})
    assert order == tuple(("default", one.place.key_digest) for one in (asked, new, old))


def test_a_wish_says_nothing_of_another_domain() -> None:
    mine, theirs = listed(used=9, model="m2"), listed(used=1, domain="other")
    order = ordered({"default": [mine], "other": [theirs]}, {"default": [WISH]})
    assert order == (("default", mine.place.key_digest), ("other", theirs.place.key_digest))


def test_a_key_that_does_not_fit_leaves_its_place_to_smaller_ones() -> None:
    sizes = {A: Size(6, 1), B: Size(6, 1), C: Size(4, 1)}
    assert chosen([A, B, C], sizes, Size(10, 10)) == (A, C)
    assert chosen([A, B, C], sizes, Size(100, 2)) == (A, B)


def test_a_key_of_unknown_size_is_left_out() -> None:
    assert chosen([A, B], {B: Size(1, 1)}, Size(10, 10)) == (B,)


KEYS = st.tuples(st.sampled_from(["default", "other"]), st.text("abcdef", min_size=1))
SIZES = st.dictionaries(KEYS, st.builds(Size, st.integers(0, 50), st.integers(0, 50)))


@given(SIZES, st.builds(Size, st.integers(0, 100), st.integers(0, 100)))
def test_what_is_chosen_fits_and_is_chosen_again(sizes: dict[tuple[str, str], Size], most: Size) -> None:
    order = list(sizes)
    taken = chosen(order, sizes, most)
    assert sum(sizes[one].bytes for one in taken) <= most.bytes
    assert sum(sizes[one].inodes for one in taken) <= most.inodes
    assert chosen(taken, sizes, most) == taken
    assert not order or sizes[order[0]].bytes > most.bytes or sizes[order[0]].inodes > most.inodes or order[0] in taken
