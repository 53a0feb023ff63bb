"""YAML as values in their places: what `lint` points at and what an edit changes.

PyYAML's composer (libyaml, which is five times as fast as the Python one) gives nodes with marks; a `Value` is a node seen
lazily, so that a thousand Deployments cost what is looked at. Aliases lead to the one node they mean, which is where the text
stands; merge keys (`<<`) are followed as YAML 1.1 has it. Scalars are typed as kubectl types them (sigs.k8s.io/yaml): dates
and sexagesimal numbers are strings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import yaml

    from glowplug.manifests.source import Place, Source, Span


class Value:
    """One value of a document. Equal only to itself; cheap to ask twice for the same child (children are kept)."""

    def __init__(self, source: Source, node: yaml.Node) -> None:
        self.source = source
        self.node = node

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        raise NotImplementedError

    @property
    def is_sequence(self) -> bool:
        """Whether it has elements."""
        raise NotImplementedError

    @property
    def is_text(self) -> bool:
        """Whether Kubernetes reads a string (`"8"` and `abc` are, `8`, `true`, `null` and `on` are not)."""
        raise NotImplementedError

    @property
    def span(self) -> Span:
        """The value as written, quotes and block indicators included; a block collection ends with its last value, before any
        comment or blank line that follows."""
        raise NotImplementedError

    @property
    def place(self) -> Place:
        """`span` with its source."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """A scalar as a string, whatever its type (`8` gives "8", null gives ""); "" for a collection."""
        raise NotImplementedError

    @property
    def data(self) -> Any:
        """Plain Python: dict, list, str, int, float, bool, None. Shared where the text has aliases."""
        raise NotImplementedError

    def get(self, *path: str | int) -> Value | None:
        """The value below these keys and indexes; None as soon as one is missing or of another shape."""
        raise NotImplementedError

    def key(self, name: str) -> Value | None:
        """The key of that name itself, to point at; None where it is missing or merged in."""
        raise NotImplementedError

    def items(self) -> Iterator[tuple[str, Value]]:
        """Keys (as strings) and values of a mapping, in order, merged ones last; nothing for another shape."""
        raise NotImplementedError

    def elements(self) -> Sequence[Value]:
        """Elements of a sequence, () for another shape."""
        raise NotImplementedError

    def part(self, start: int, end: int) -> Span:
        """Where characters `start` to `end` of `text` stand in the source, for every scalar style: escapes in double quotes,
        doubled single quotes, folded lines, block scalars. For an empty part the place between its neighbours."""
        raise NotImplementedError


def load(source: Source) -> list[Value]:
    """The documents of a text that hold something; [] for an empty one.

    Raises BadInputError (`bad-yaml`) with line and column for what is no YAML or exceeds its limits, with a hint where the text
    looks like a chart's template.
    """
    raise NotImplementedError
