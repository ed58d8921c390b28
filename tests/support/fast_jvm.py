"""Java options with which the job starts in half the time; nothing of what it does changes.

The JVM takes Spark's classes, loaded and verified, from an archive, and compiles with its quick
compiler only. The archive is made once, by a small run of the job, and kept beside the jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from stream_app.app.job.jars import installed_spark_version
from tests.support.ingest_process import ROOT, IngestProcess, write_conf
from tests.support.paimon_java import java_tool

FOLDER = ROOT / ".jars" / "class-archives"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@cache
def fast_jvm() -> str:
    """A value for ``spark.driver.extraJavaOptions``."""
    java = subprocess.run(
        [java_tool("java"), "-version"], capture_output=True, text=True, check=True
    )
    stamp = f"{installed_spark_version()} {java.stderr} {ROOT}"
    archive = FOLDER / f"{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may start at once
        if not archive.exists():
            _make(archive)
    # The archive that does not fit is not used, without a word.
    return f"{_QUICK} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off"


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=FOLDER) as directory:
        folder = Path(directory)
        messages = folder / "messages"
        messages.mkdir()
        line = {"topic": "t", "partition": 0, "offset": 0, "key": None}
        value = json.dumps({"before": None, "after": {"k": 1}, "op": "c"})
        (messages / "1.jsonl").write_text(json.dumps({**line, "value": value}) + "\n")
        fresh = folder / "classes.jsa"
        conf = write_conf(
            folder / "job.toml",
            source={"kind": "files", "path": str(messages)},
            table={
                "warehouse": str(folder),
                "name": "t",
                "columns": "k INT",
                "primary-keys": ["k"],
                "options.bucket": "1",
            },
            stream={"checkpoint": str(folder / "checkpoint"), "trigger": "availableNow"},
            spark={
                "spark.master": "local[2]",
                "spark.driver.extraJavaOptions": f"{_QUICK} -XX:ArchiveClassesAtExit={fresh}",
            },
        )
        job = IngestProcess(conf, folder)
        job.start()
        code = job.finish()
        assert code == 0, job.log()
        # Without it tests are slower, that is all.
        if fresh.exists():
            fresh.rename(archive)
        else:
            archive.touch()
