"""Creates and deletes branches of the table, whose files must stay.

They are made as Paimon makes them, from a tag, between two rounds: Paimon asks nobody whether what
the tag names is just going.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from stream_app.filestore.versions.branch_folders import branch_names, branch_root
from stream_app.format.snapshot_json import encode_snapshot
from stream_app.table.file_store_table import FileStoreTable
from tests.simulation.model.named_files import branches_of
from tests.simulation.model.oracle import Oracle
from tests.simulation.model.promises import demand
from tests.simulation.scenario import Verb
from tests.simulation.world import World
from tests.support.tables.merge_read import MergeRead


@dataclass
class Branches:
    """Makes and deletes branches of one table, past all faults.

    Attributes:
        count: how many were made.
    """

    world: World
    table: FileStoreTable
    oracle: Oracle
    count: int = 0

    def do(self, verb: Verb, rng: random.Random) -> None:
        """Make a branch, or delete one, if there can be one."""
        if verb is Verb.BRANCH:
            self._make(rng)
        else:
            self._delete(rng)

    def check(self) -> None:
        """See that all branches read as they did."""
        branches = branches_of(self._seen())
        demand(len(branches) == len(self._names()), f"{self._names()} are not all there")
        for branch in branches:
            for number in branch.snapshots.ids():
                self.oracle.check_rows(branch.snapshots.snapshot(number), MergeRead(branch))

    def _make(self, rng: random.Random) -> None:
        table, files = self._seen(), self.world.files
        # A tagger that died may leave a tag that holds nothing.
        sure = [
            tag
            for tag in table.tags.tags()
            if self.oracle.kept_versions.tags.get(tag.name) is not None
        ]
        if not sure:
            return
        tag = rng.choice(sure)
        self.count += 1
        root = branch_root(table.location, f"b{self.count}")
        data = files.read_bytes(f"{table.location}/tag/tag-{tag.name}")
        assert files.create_if_absent(f"{root}/tag/tag-{tag.name}", data)
        number, schema = tag.snapshot.snapshot_id, f"schema-{tag.snapshot.schema_id}"
        data = encode_snapshot(tag.snapshot)
        assert files.create_if_absent(f"{root}/snapshot/snapshot-{number}", data)
        data = files.read_bytes(f"{table.location}/schema/{schema}")
        assert files.create_if_absent(f"{root}/schema/{schema}", data)

    def _delete(self, rng: random.Random) -> None:
        if names := self._names():
            root, files = branch_root(self.table.location, rng.choice(names)), self.world.files
            for folder in ("tag", "snapshot", "schema"):
                for name in files.list_names(f"{root}/{folder}"):
                    files.delete(f"{root}/{folder}/{name}")
                files.delete_empty_folder(f"{root}/{folder}")
            files.delete_empty_folder(root)

    def _names(self) -> list[str]:
        return branch_names(self.world.files, self.table.location)

    def _seen(self) -> FileStoreTable:
        """The table as it lies there."""
        table = self.table
        return FileStoreTable(table.location, table.schema, self.world.files, self.world.clock)
