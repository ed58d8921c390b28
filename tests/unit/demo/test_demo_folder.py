"""The demo deletes the files of an earlier demo, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stream_app.app.config.app_config import load_config
from stream_app.demo.demo import CONF
from stream_app.demo.demo_folder import DemoFolder
from stream_app.errors import UsageError

ROOT = Path(__file__).parents[3]


def with_a_demo(folder: Path) -> DemoFolder:
    demo = DemoFolder(folder)
    demo.clear()
    for name in ("schema/schema-0", "snapshot/snapshot-1"):
        path = demo.database / "orders" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return demo


def test_a_demo_that_has_ended_or_was_interrupted_is_cleared(tmp_path: Path) -> None:
    demo = with_a_demo(tmp_path)
    demo.clear()
    assert not demo.database.exists()
    demo = with_a_demo(tmp_path)
    demo.write_end()
    demo.clear()
    assert not demo.database.exists()


def test_a_table_that_the_demo_did_not_make_stays(tmp_path: Path) -> None:
    demo = DemoFolder(tmp_path)
    (demo.database / "orders").mkdir(parents=True)
    with pytest.raises(UsageError, match="is not an earlier demo's"):
        demo.clear()
    assert demo.database.exists()


@pytest.mark.parametrize(
    "name",
    ["orders/schema/schema-0", "orders/schema/schema-1", "orders/snapshot/snapshot-2",
     "another/schema/schema-0"],
)  # fmt: skip
def test_a_table_that_was_written_since_stays(tmp_path: Path, name: str) -> None:
    demo = with_a_demo(tmp_path)
    demo.write_end()
    (demo.database / name).parent.mkdir(parents=True, exist_ok=True)
    (demo.database / name).write_text("another one's")
    with pytest.raises(UsageError, match="has been written since the demo made it"):
        demo.clear()
    assert demo.database.exists()


def test_what_the_readme_and_the_example_write_is_not_the_demos(tmp_path: Path) -> None:
    """Users try the examples next to the demo, in the same folder."""
    demo = DemoFolder(tmp_path)
    of_demo = load_config(CONF, [], {})
    assert tmp_path / of_demo.job_tables.path("orders") == demo.database / "orders"
    assert (tmp_path / of_demo.stream.checkpoint).is_relative_to(demo.work)
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    (tmp_path / "readme.toml").write_text(example)
    for path in (tmp_path / "readme.toml", ROOT / "conf" / "orders.toml"):
        config = load_config(path, [], {})
        table = config.job_tables.path("orders")
        assert Path(table).parent != Path(of_demo.job_tables.path("orders")).parent
        assert config.stream.checkpoint != of_demo.stream.checkpoint
