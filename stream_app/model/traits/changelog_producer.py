"""Lists the changelog producers, and the traits that readers, checks and compactions need.

Source: Paimon `CoreOptions.java` (`ChangelogProducer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTraits:
    """Facts of one changelog producer: which process writes the changelog, and when.

    Attributes:
        writes_changelog: whether a changelog is written; otherwise changes are read from files that
            an APPEND adds.
        writes_on_flush: whether the writer itself writes each incoming change.
        writes_by_lookup: whether each compaction of level 0 writes it, by looking up older rows.
        writes_on_full_compaction: whether a full compaction writes the changes since the previous
            one.
    """

    writes_changelog: bool = True
    writes_on_flush: bool = False
    writes_by_lookup: bool = False
    writes_on_full_compaction: bool = False

    @property
    def by_compaction(self) -> bool:
        """Whether compactions write the changelog, so that snapshots order the changes of a key."""
        return self.writes_by_lookup or self.writes_on_full_compaction


CHANGELOG_PRODUCERS: Mapping[str, ProducerTraits] = {
    "none": ProducerTraits(writes_changelog=False),
    "input": ProducerTraits(writes_on_flush=True),
    "full-compaction": ProducerTraits(writes_on_full_compaction=True),
    "lookup": ProducerTraits(writes_by_lookup=True),
}
"""The changelog producers by the value of ``changelog-producer``, in lower case."""


def producer_traits(name: str) -> ProducerTraits:
    """Return the producer's traits; an unknown producer counts as one that writes a changelog."""
    return CHANGELOG_PRODUCERS.get(name, ProducerTraits())
