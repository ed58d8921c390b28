"""Makes an archive of Spark's classes in the JVM's memory format, which lets a job start sooner.

At its start the JVM loads and verifies some 12,000 classes from 250 jars. It can map an archive
into memory instead. ``python -m stream_app.app.launch.class_archive`` makes the archive by running
a small job; ``./run.sh setup`` and the image call it. The JVM ignores an archive of other jars, so
the job starts in any case.

Source: JDK documentation, "Class Data Sharing", dynamic archives.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from stream_app.app.launch.jars import jar_folder, spark_home
from stream_app.app.launch.java import find_java, unicode_environment
from stream_app.errors import StreamAppError, UsageError
from stream_app.spark.driver.session import SPARK_LOG_VARIABLE

_FOLDER = "class-archives"
_INGEST = (sys.executable, "-P", "-m", "stream_app", "ingest", "--conf", "job.toml")
_TRIAL = """
[source]
kind = "files"
path = "messages"
[table]
warehouse = "."
name = "t"
columns = "k INT, v STRING"
primary-keys = ["k"]
options.bucket = "1"
[stream]
checkpoint = "checkpoint"
trigger = "availableNow"
"""


def class_archive(home: Path) -> Path | None:
    """Return the archive for this environment's Java and a Spark, or None if it does not exist.

    Args:
        home: the folder of Spark.
    """
    try:
        path = archive_path(home)
    except UsageError:  # without Java, the command is only printed, or it reports the error itself
        return None
    return path if path.is_file() else None


def create_class_archive(home: Path) -> Path:
    """Create the archive unless it exists, which takes half a minute and 160 MB.

    Raises:
        StreamAppError: the small run of the job failed, or left no archive.
    """
    path = archive_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            with tempfile.TemporaryDirectory(prefix=".making-", dir=path.parent) as scratch:
                _run_job(Path(scratch)).rename(path)
    return path


def archive_path(home: Path) -> Path:
    """Return the archive's path, whose name has a hash of Java and of the jars with their times."""
    java = find_java().resolve()
    jars = home.resolve() / "jars"
    inputs = [
        str(java),
        str(int(java.stat().st_mtime)),
        str(jars),
        *sorted(f"{jar.name} {int(jar.stat().st_mtime)}" for jar in jars.glob("*.jar")),
    ]
    stamp = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    return jar_folder() / _FOLDER / f"spark-{stamp}.jsa"


def _run_job(folder: Path) -> Path:
    """Run a small ingest job, at whose end Java writes the archive; return the archive's path."""
    archive = folder / "classes.jsa"
    (folder / "messages").mkdir()
    value = json.dumps({"before": None, "after": {"k": 1, "v": "a"}, "op": "c"})
    message = {"topic": "t", "partition": 0, "offset": 0, "key": None, "value": value}
    (folder / "messages" / "1.jsonl").write_text(json.dumps(message) + "\n", encoding="utf-8")
    (folder / "job.toml").write_text(_TRIAL, encoding="utf-8")
    option = f"spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit={archive}"
    process = subprocess.run(
        [*_INGEST, "--set", option, "--set", "spark.master=local[2]"],
        cwd=folder,
        env=unicode_environment({**os.environ, SPARK_LOG_VARIABLE: "-"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if process.returncode or not archive.is_file():
        last_lines = process.stdout.decode("utf-8", "replace").strip().splitlines()[-15:]
        raise StreamAppError(
            "the archive of Spark's classes cannot be made",
            where="a small run of the job said:\n    " + "\n    ".join(last_lines),
            fix="do nothing: without the archive, the job only starts two seconds later",
        )
    return archive


def main() -> int:
    """Make the archive of this environment. An error is harmless, so it is only printed."""
    print("stream_app: making an archive of Spark's classes", file=sys.stderr, flush=True)
    try:
        print(create_class_archive(spark_home()))
    except StreamAppError as error:
        print(f"warning: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
