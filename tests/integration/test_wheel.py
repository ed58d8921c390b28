"""The wheel and the sdist install as for a user, without anything of the repository."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from stream_app import __version__
from stream_app.app.launch.jars import (
    jar_folder,
    kafka_broker_jars,
)
from stream_app.table.api.paimon_table import open_table
from tests.support.jobs.ingest_process import ROOT, write_conf
from tests.support.judges.iceberg_reader import LOCK_LIST
from tests.support.judges.normal_rows import normal_rows, sorted_rows
from tests.support.judges.own_environment import python_of
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.servers.archives import unpack_tar

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "pyspark_stream_app.py", "stream_app")
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"
ALTERED = {
    "customers": {("email", "VARCHAR(60)")},
    "orders": {("total", "DECIMAL(12, 2)"), ("changed_at", "TIMESTAMP(6)")},
    "order_items": {("line", "SMALLINT NOT NULL")},
}


@dataclass(frozen=True)
class InstalledWheel:
    """A wheel in an environment of its own, of which the repository is not a part."""

    folder: Path
    sdist: Path
    wheel: Path

    def run(self, *words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """``stream-app`` with the variables of an ordinary shell; Spark finds all by itself."""
        names = ("JAVA_HOME", "LANG", "TMPDIR")
        bare = {name: os.environ[name] for name in names if name in os.environ}
        places = os.environ["PATH"].split(":")
        places = [place for place in places if Path(place) != Path(sys.executable).parent]
        bare |= {"PATH": ":".join(places), "HOME": str(self.folder)}
        bare |= {"STREAM_APP_JARS": str(jar_folder())}
        return subprocess.run(
            [self.folder / "venv" / "bin" / "stream-app", *words],
            cwd=self.folder, env=bare | environ, check=False, stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", timeout=300,
        )  # fmt: skip


def build(kind: str, tree: Path, target: Path) -> Path:
    result = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{kind}", target],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "license" not in result.stderr, "setuptools warns of what it will refuse"
    [built] = target.iterdir()
    return built


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledWheel]:
    folder = tmp_path_factory.mktemp("installed") / "with a blank"
    tree = folder / "tree"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            tree.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree)
    sdist = build("sdist", tree, folder / "sdist")
    wheel = build("wheel", tree, folder / "wheel")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(venv)]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", wheel], check=True)
    # All that it depends on is taken from the environment of the tests; of a folder that is named
    # so, Python reads no *.pth, by which the repository would come in.
    [site] = venv.glob("lib/python3.*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    yield InstalledWheel(folder, sdist, wheel)
    shutil.rmtree(venv)


def contents(wheel: Path) -> dict[str, int]:
    """Name → checksum; of RECORD and WHEEL the name alone."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            member.filename: 0 if member.filename.endswith(("RECORD", "WHEEL")) else member.CRC
            for member in archive.infolist()
        }


def test_the_wheel_has_the_product_and_nothing_else(installed_wheel: InstalledWheel) -> None:
    info = f"stream_app-{__version__}.dist-info"
    names = contents(installed_wheel.wheel).keys()
    assert {name.split("/")[0] for name in names} == {"stream_app", "pyspark_stream_app.py", info}
    assert {name for name in names if name.startswith("stream_app/")} == {
        str(path.relative_to(ROOT))
        for path in (ROOT / "stream_app").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_sdist_makes_the_same_wheel(installed_wheel: InstalledWheel, tmp_path: Path) -> None:
    with tarfile.open(installed_wheel.sdist) as archive:
        unpack_tar(archive, tmp_path)
    [tree] = tmp_path.iterdir()
    assert not {path.name for path in tree.iterdir()} & {"tests", "bench", "docker", "docs"}
    assert contents(build("wheel", tree, tmp_path / "wheel")) == contents(installed_wheel.wheel)


def test_the_extras_have_the_names_that_one_guesses(installed_wheel: InstalledWheel) -> None:
    with zipfile.ZipFile(installed_wheel.wheel) as archive:
        metadata = archive.read(f"stream_app-{__version__}.dist-info/METADATA").decode()
    extras = {line.split(": ")[1] for line in metadata.splitlines() if "Provides-Extra" in line}
    assert extras >= {
        *("aws", "s3", "compiled", "hdfs", "jdbc", "otel", "protobuf", "sketches", "web", "all"),
    }
    assert 'Requires-Dist: stream_app[aws]; extra == "s3"' in metadata


def test_verbs_work_without_the_repository(installed_wheel: InstalledWheel) -> None:
    result = installed_wheel.run("--help")
    assert result.returncode == 0
    assert "\n    demo " in result.stdout
    assert installed_wheel.run("--version").stdout == f"stream-app {__version__}\n"
    conf = write_conf(
        installed_wheel.folder / "job.toml",
        source={"kind": "files", "path": "messages"},
        table={
            "warehouse": "warehouse", "name": "t", "columns": "k INT, v STRING",
            "primary-keys": ["k"],
        },
        stream={"checkpoint": "checkpoint"},
    )  # fmt: skip
    doctor_run = installed_wheel.run("doctor", "--conf", conf)
    assert doctor_run.returncode == 0, doctor_run.stdout + doctor_run.stderr
    assert f"stream_app {__version__}" in doctor_run.stdout
    wrong = installed_wheel.run("ingest", "--conf", conf, "--set", "table.options.bukket=4")
    assert wrong.returncode == 2
    assert "did you mean 'bucket'?" in wrong.stderr
    web_run = installed_wheel.run("web", "--warehouse", "nowhere")
    assert web_run.returncode == 2
    assert "nowhere" in web_run.stderr


def test_an_old_java_is_reported_before_anything_starts(
    installed_wheel: InstalledWheel, tmp_path: Path
) -> None:
    """run.sh looks at it too, and a wheel has no run.sh; Spark would say so in its log alone."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    (tmp_path / "messages").mkdir()
    conf = write_conf(
        tmp_path / "job.toml",
        source={"kind": "files", "path": str(tmp_path / "messages")},
        table={"warehouse": str(tmp_path), "name": "t", "columns": "k INT"},
        stream={"checkpoint": str(tmp_path / "checkpoint")},
    )
    for words in (("broker", tmp_path / "kafka"), ("ingest", "--conf", conf)):
        result = installed_wheel.run(*words, JAVA_HOME=str(tmp_path))
        assert result.returncode == 2
        assert "is Java 11.0.2, and Java 17 or newer is needed" in result.stderr


@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_in_a_folder_with_blanks_and_signs_is_read_by_all(
    installed_wheel: InstalledWheel, tmp_path: Path, paimon_java: PaimonJava
) -> None:
    """Java reads names by the locale, so one locale of the test has no Unicode."""
    kafka_broker_jars()  # fetching them would be told on stderr
    folder = tmp_path / "ein dömo 東京, [it's] #1"
    words = ("demo", "--catalog", "--records", "2000", "--dir", folder)
    if find_spec("pyiceberg") is None:
        refused_run = installed_wheel.run(*words)
        assert refused_run.returncode == 2
        assert "pip install 'stream_app[iceberg]'" in refused_run.stderr
    [site] = installed_wheel.folder.glob("venv/lib/python3.*/site-packages")
    [readers] = python_of("iceberg", LOCK_LIST).parents[1].glob("lib/python3.*/site-packages")
    (site / "iceberg.pth").write_text(f"{readers}\n")
    # Without the extra `compiled`, whose code takes a minute to compile.
    (site / "numba.py").write_text("raise ImportError('not installed')\n")
    result = installed_wheel.run(*words, LC_ALL="C")
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert result.stderr == ""
    output = result.stdout
    assert "nothing is lost and nothing is twice" in output
    assert "+ email VARCHAR(60)" in output
    assert "total DECIMAL(8, 2) → DECIMAL(12, 2)" in output
    assert "\x1b" not in output, "a pipe gets no colours"
    story = output[output.index("schemas:") : output.index("try next")]
    assert max(map(len, story.splitlines())) <= 80
    proof = output[output.index("proof after") :]
    for name, columns in ALTERED.items():
        [line] = [line for line in proof.splitlines() if line.startswith(f"│ {name} ")]
        *_, ours, iceberg, _ = line.split()
        assert ours == iceberg
        table = folder / "warehouse" / "demo.db" / name
        assert columns <= set(paimon_java.types(table))
        rows = sorted_rows(paimon_java.read(table))
        assert sorted_rows(normal_rows(open_table(str(table)).read().read_all())) == rows
        assert f" {len(rows):,} " in line, "the shop's and Paimon's count"
    # The command for the next step works, and Paimon knows the tables by the same catalog.
    read = shlex.split(output.splitlines()[-1])
    file = read[0].removeprefix("STREAM_APP_CATALOGS=")
    by_name = installed_wheel.run(*read[2:], STREAM_APP_CATALOGS=file)
    assert by_name.returncode == 0, by_name.stderr
    lake = tomllib.loads(Path(file).read_text())["lake"]
    assert paimon_java.list_tables(lake) == {"demo": sorted(ALTERED)}
