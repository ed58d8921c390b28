"""docker/ agrees with the code and with itself; no engine is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_app.app.config.app_config import load_config
from stream_app.app.launch.jar_sets import KAFKA_BROKER_VERSION
from tests.support.jobs.ingest_process import a_free_port

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
COMPOSE = (DOCKER / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
LAST_STAGE = DOCKERFILE.rpartition("\nFROM ")[2]


def copied_paths() -> set[str]:
    """Return the paths that the Dockerfile copies from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    return {path for line in lines for path in line.split()}


def test_the_image_gets_what_exists_and_what_the_context_holds() -> None:
    assert [path for path in copied_paths() if not (ROOT / path).exists()] == []
    context = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in context if line.startswith("!")} == copied_paths()
    for name in ("job.sh", "entrypoint.sh"):
        assert os.access(DOCKER / name, os.X_OK)


def test_the_image_gives_up_what_it_does_not_need() -> None:
    assert "\nUSER 10001:10001\n" in LAST_STAGE
    assert "HEALTHCHECK" in LAST_STAGE
    assert "pip" not in LAST_STAGE, "built in another stage"
    assert re.search(r"^ARG PYTHON_IMAGE=", DOCKERFILE, re.MULTILINE), "to be pinned by digest"
    installs = re.findall(r"pip install .*", DOCKERFILE)
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)


def test_the_image_takes_the_product_it_has_installed() -> None:
    """Without `-P` Python would import the sources beside it, which the image leaves behind."""
    assert set(re.findall(r"/opt/stream_app/bin/python (-\w)", DOCKERFILE)) == {"-P"}


def test_setup_and_the_image_run_modules_that_exist() -> None:
    programs = DOCKERFILE + (ROOT / "run.sh").read_text()
    ran = set(re.findall(r"-m (stream_app(?:\.\w+)+)", programs))
    assert "stream_app.app.launch.compile_ahead" in ran
    assert [name for name in ran if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def test_docker_agrees_with_the_versions() -> None:
    assert set(re.findall(r"apache/kafka:(\S+)", COMPOSE)) == {KAFKA_BROKER_VERSION}
    assert SERVICES["app"]["image"] == "stream_app"
    assert "-t stream_app ." in DOCKERFILE
    minor = re.search(r"python:(\d+)\.(\d+)", DOCKERFILE)
    assert minor is not None
    assert (int(minor[1]), int(minor[2])) >= (3, 11)
    assert minor[0] in COMPOSE


def test_compose_mounts_and_waits_for_what_exists() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DOCKER / source).exists(), source
            else:
                assert source in yaml.safe_load(COMPOSE)["volumes"]
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing here asks for a password"


def test_the_parts_of_compose_know_each_other() -> None:
    """Database → connector → topics → job → store; job → Prometheus → Grafana."""
    connector = json.loads((DOCKER / "debezium" / "shop.json").read_text())
    tables = re.findall(
        r"^CREATE TABLE (\w+)", (DOCKER / "postgres" / "schema.sql").read_text(), re.M
    )
    assert connector["table.include.list"].split(",") == [f"public.{name}" for name in tables]
    assert connector["database.hostname"] in SERVICES
    assert connector["database.dbname"] == SERVICES["database"]["environment"]["POSTGRES_DB"]
    environ = {name: "x" for name in SERVICES["app"]["environment"]}
    job = load_config(DOCKER / "shop.toml", [], environ)
    assert job.job_tables.separates_tables
    pattern = job.source.topic_pattern
    assert pattern is not None
    topics = [f"{connector['topic.prefix']}.public.{name}" for name in tables]
    for topic in topics:
        assert re.fullmatch(pattern, topic)
        assert topic in str(SERVICES["topics"]["command"]), "the broker makes none by itself"
    assert job.source.bootstrap_servers == SERVICES["connect"]["environment"]["BOOTSTRAP_SERVERS"]
    assert f"PLAINTEXT://{job.source.bootstrap_servers}" in COMPOSE
    monitor = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    [scrape] = monitor["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"app:{job.stream.metrics_port}"]}]
    page = f"127.0.0.1:{job.stream.web_port}:{job.stream.web_port}"
    assert page in SERVICES["app"]["ports"]
    assert job.stream.web_host == "0.0.0.0", "else only the container itself reaches it"
    provisioning = DOCKER / "grafana" / "provisioning"
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    assert source["url"].removeprefix("http://").split(":")[0] in SERVICES
    [provider] = yaml.safe_load((provisioning / "dashboards" / "stream-app.yaml").read_text())[
        "providers"
    ]
    assert provider["options"]["path"] in str(SERVICES["grafana"]["volumes"])


@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", "docker/Dockerfile"),
        ("promtool", "check", "config", "docker/prometheus/prometheus.yml"),
        ("sh", "-n", "docker/entrypoint.sh"),
    ],
)
def test_hadolint_promtool_and_sh_accept_their_files(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_entrypoint_starts_what_spark_on_kubernetes_asks_for(tmp_path: Path) -> None:
    """Programs by the names it calls say which words they got."""
    for name in ("java", "stream-app", "bin/spark-submit"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    names = (
        "EXECUTOR_MEMORY", "DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID",
        "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID", "EXECUTOR_POD_NAME", "DRIVER_BIND_ADDRESS",
    )  # fmt: skip
    environ = {f"SPARK_{name}": name.lower() for name in names}
    environ |= {"PATH": f"{tmp_path}:/usr/bin:/bin", "SPARK_HOME": str(tmp_path)}
    environ |= {"SPARK_JAVA_OPT_0": '-Da=b "$c"', "SPARK_JAVA_OPT_1": "-Xss16m"}
    environ |= {"SPARK_CLASSPATH": "/x/*", "SPARK_CONF_DIR": "/conf"}

    def started(*words: str) -> list[str]:
        return subprocess.run(
            [DOCKER / "entrypoint.sh", *words],
            env=environ, check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip

    assert started("executor") == [
        "java", '-Da=b "$c"', "-Xss16m", "-Xmsexecutor_memory", "-Xmxexecutor_memory",
        "-cp", f"/conf:/x/*:{tmp_path}/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "driver_url", "--executor-id", "executor_id", "--cores", "executor_cores",
        "--app-id", "application_id", "--hostname", "executor_pod_ip",
        "--resourceProfileId", "resource_profile_id", "--podName", "executor_pod_name",
    ]  # fmt: skip
    assert started("driver", "--class", "C", "local:///x.py") == [
        "spark-submit", "--conf", "spark.driver.bindAddress=driver_bind_address",
        "--deploy-mode", "client", "--class", "C", "local:///x.py",
    ]  # fmt: skip
    assert started("read", "a table") == ["stream-app", "read", "a table"]


@pytest.mark.parametrize(
    ("status", "says", "ends"), [(200, "ok\n", (0, "ok\n", "")), (503, "hangs", (1, "", "hangs\n"))]
)
def test_the_health_check_is_the_jobs_answer(
    status: int, says: str, ends: tuple[int, str, str]
) -> None:
    paths = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(says.encode())

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        environ = {**os.environ, "STREAM_APP_STREAM__METRICS_PORT": str(server.server_port)}
        environ |= {"http_proxy": "http://127.0.0.1:9"}
        result = subprocess.run(
            [sys.executable, DOCKER / "healthcheck.py"],
            env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == ends
    assert paths == ["/healthz"]


@pytest.mark.parametrize(
    ("command", "code"),
    [("entrypoint.sh\0web\0--conf\0x", 0), ("entrypoint.sh\0ingest", 1), ("job.sh\0ingest", 1)],
)
def test_a_container_that_runs_no_job_is_healthy(tmp_path: Path, command: str, code: int) -> None:
    """Nothing answers at the job's port here."""
    (tmp_path / "cmdline").write_text(f"tini\0--\0/opt/stream_app/bin/{command}\0")
    result = subprocess.run(
        [sys.executable, DOCKER / "healthcheck.py", tmp_path / "cmdline"],
        env={**os.environ, "STREAM_APP_STREAM__METRICS_PORT": str(a_free_port())},
        capture_output=True, check=False,
    )  # fmt: skip
    assert result.returncode == code


@pytest.mark.parametrize(
    ("words", "ends_with", "code"),
    [("ingest", 2, 0), ("ingest", 1, 1), ("ingest", 0, 0), ("read t", 2, 2)],
)
def test_a_container_rests_when_a_person_is_needed(
    tmp_path: Path, words: str, ends_with: int, code: int
) -> None:
    result = subprocess.run(
        [ROOT / "docker" / "job.sh", *words.split()],
        env=with_a_program(tmp_path, f"exit {ends_with}"), check=False, capture_output=True,
    )  # fmt: skip
    assert result.returncode == code
    assert (b"not started again" in result.stderr) == (code != ends_with)
    assert SERVICES["app"]["entrypoint"][-1] == "job.sh"


def test_a_container_that_is_stopped_waits_for_its_job(tmp_path: Path) -> None:
    program = "trap 'sleep 0.3; echo ended; exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [ROOT / "docker" / "job.sh", "ingest"],
        env=with_a_program(tmp_path, program), stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout.readline() == "ended\n"


def with_a_program(folder: Path, body: str) -> dict[str, str]:
    """An environment whose `stream-app` is a script."""
    program = folder / "stream-app"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
