"""The folder of a quarantine gives the records of its files, and removes them."""

from __future__ import annotations

from pathlib import Path

from stream_app.quarantine.quarantine_folder import open_quarantine

LINE = '{"topic": "t", "partition": 0, "offset": %d, "reason": "why", "key": null, "value": "%s"}\n'


def test_blank_lines_of_an_edited_file_are_not_records(tmp_path: Path) -> None:
    file = tmp_path / "epoch-3.jsonl"
    file.write_text(LINE % (7, "a") + "\n" + LINE % (8, "b") + "  \n")
    quarantine = open_quarantine(str(tmp_path), {})
    first_record, last_record = quarantine.records()
    assert (first_record.offset, last_record.offset) == (7, 8)
    quarantine.remove([first_record])
    assert file.read_text() == LINE % (8, "b")
    quarantine.remove([last_record])
    assert not file.exists()
