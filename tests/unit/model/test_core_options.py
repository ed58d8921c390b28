"""Options are declared and read alike. tests/datadriven/model/options.txt has their meaning."""

from __future__ import annotations

import pytest

from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET_KEY
from stream_app.model.options.compaction_options import NUM_LEVELS, WRITE_ONLY
from stream_app.model.options.core_options import OPTIONS, CoreOptions
from stream_app.model.options.merge_options import IGNORE_DELETE, SEQUENCE_FIELD
from stream_app.model.options.option_support import IGNORED_KEYS, REFUSALS, Purpose
from stream_app.model.options.paimon_option_keys import PAIMON_KEYS, PAIMON_PREFIXES
from stream_app.model.options.write_options import COMMIT_TIMEOUT, WRITE_BUFFER_SIZE

KINDS = ("integer", "real", "size", "duration", "boolean", "text", "map")


@pytest.mark.parametrize("key", OPTIONS)
def test_an_option_is_well_declared(key: str) -> None:
    option = OPTIONS[key]
    assert option.key == key
    assert key not in PAIMON_KEYS, "its declaration is enough"
    assert option.meaning.endswith(".")
    assert option.kind.name in KINDS
    assert not option.only or option.default in option.only
    if option.default not in (None, "", {}):
        text = str(option.default)
        assert option.read({key: text.lower() if text in ("True", "False") else text}) == (
            option.default
        )


def test_only_options_of_file_indexes_have_a_prefix_of_other_options() -> None:
    read = {key for key in OPTIONS if key.startswith(PAIMON_PREFIXES)}
    assert read == {"file-index.in-manifest-threshold", "file-index.read.enabled"}


def test_each_key_of_paimon_has_one_decision() -> None:
    read = OPTIONS.keys() | {key for option in OPTIONS.values() for key in option.older_keys}
    refused_keys = {refusal.key for refusal in REFUSALS}
    # Of these some values are read, and others refused.
    assert refused_keys & read == {
        "data-evolution.enabled", "data-file.path-directory",
        "index-file-in-data-file-dir", "log.scan", "metadata.iceberg.database",
        "metadata.iceberg.hive-client-class", "metadata.iceberg.storage", "scan.mode",
    }  # fmt: skip
    assert not IGNORED_KEYS & (refused_keys | read)
    assert not PAIMON_KEYS & read
    decided_keys = IGNORED_KEYS | refused_keys
    undeclared_keys = {
        key for key in decided_keys - PAIMON_KEYS - read if not key.startswith(PAIMON_PREFIXES)
    }
    # lock.enabled is an option of catalogs; the maps may be written one key a line.
    maps = {"file.compression.per.level.", "file.format.per.level."}
    assert undeclared_keys == {"lock.enabled", *maps}


def test_what_is_refused_for_reading_is_refused_for_writing_unless_it_only_chooses_rows() -> None:
    reading = {refusal.key for refusal in REFUSALS if Purpose.READ in refusal.purposes}
    writing = {refusal.key for refusal in REFUSALS if Purpose.WRITE in refusal.purposes}
    assert all(
        key.startswith(("scan.", "log.scan", "incremental-")) or key.endswith("-scan-mode")
        for key in reading - writing - {"query-auth.enabled"}
    )


def test_keys_are_words_and_prefixes_end_with_a_dot() -> None:
    assert all(key == key.strip() and " " not in key and key for key in PAIMON_KEYS)
    assert all(prefix.endswith(".") for prefix in PAIMON_PREFIXES)


def test_an_older_name_counts_when_the_new_one_is_absent() -> None:
    assert CoreOptions({"deduplicate.ignore-delete": "true"})[IGNORE_DELETE]
    options = {"deduplicate.ignore-delete": "true", "ignore-delete": "false"}
    assert not CoreOptions(options)[IGNORE_DELETE]


def test_values_by_kind() -> None:
    options = CoreOptions(
        {
            "sequence.field": " a, b ,",
            "commit.timeout": "2 min",
            "write-buffer-size": "1 kb",
            "write-only": "TRUE",
        }
    )
    assert options.columns(SEQUENCE_FIELD) == ("a", "b")
    assert options.columns(BUCKET_KEY) == ()
    assert options[COMMIT_TIMEOUT] == 120_000
    assert options[NUM_LEVELS] is None
    assert options[WRITE_BUFFER_SIZE] == 1024
    assert options[WRITE_ONLY]
    assert options[BUCKET_KEY] == ""


def test_an_error_names_the_key_that_was_written() -> None:
    with pytest.raises(UsageError) as caught:
        CoreOptions({"write.compaction-skip": "perhaps"})[WRITE_ONLY]
    assert str(caught.value) == (
        "option 'write.compaction-skip': 'perhaps' is neither true nor false\n"
        "  to fix: write-only: A job that writes the table does not compact it; another job must."
    )
