"""The Helm chart and the SparkApplication agree with the product and with what operators ask for.

`tests/fixtures/helm` has what Helm makes of the chart, for tests without Helm; REWRITE=1 renews it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_app.app.config.app_config import load_config
from stream_app.app.launch.jar_sets import s3a_set, spark_kafka_set
from stream_app.app.launch.jars import installed_spark_version, spark_home
from stream_app.app.launch.spark_submit import LOG4J, SCHEDULER
from stream_app.spark.driver.session import launch_settings
from tests.support.suite.datadriven import rewriting

ROOT = Path(__file__).parents[3]
CHART = ROOT / "docker" / "helm" / "stream-app"
RENDERED = ROOT / "tests" / "fixtures" / "helm"
OF_IMAGE = "/opt/stream_app"
KUBERNETES = "1.31.0"
Object = dict[str, Any]


def documents(text: str) -> dict[str, Object]:
    """Kind → object; one of each."""
    resources = {document["kind"]: document for document in yaml.safe_load_all(text) if document}
    assert len(resources) == text.count("\nkind: ")
    return resources


def stamp() -> str:
    """Return the digest of all that Helm reads, without the alert rules, which are only copied."""
    files = [path for path in sorted(CHART.rglob("*")) if path.is_file() and not path.is_symlink()]
    text = b"".join(path.read_bytes() for path in [*files, RENDERED / "everything.values.yaml"])
    return f"# Of the chart {hashlib.sha256(text).hexdigest()}\n"


def rendered_chart(name: str) -> str:
    values = RENDERED / f"{name}.values.yaml"
    more = ["-f", str(values)] if values.is_file() else []
    result = subprocess.run(
        ["helm", "template", "shop", CHART, "--kube-version", KUBERNETES, *more],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return stamp() + result.stdout


@pytest.fixture(params=["defaults", "everything"])
def release(request: pytest.FixtureRequest) -> dict[str, Object]:
    path = RENDERED / f"{request.param}.yaml"
    if rewriting():
        path.write_text(rendered_chart(request.param))
    text = path.read_text()
    assert text.startswith(stamp()), "the chart has changed: REWRITE=1, where there is Helm"
    return documents(text)


def test_helm_makes_what_the_tests_look_at() -> None:
    if shutil.which("helm") is None:
        pytest.skip("there is no helm here")
    subprocess.run(["helm", "lint", "--strict", CHART], check=True)
    for name in ("defaults", "everything"):
        checked_in = (RENDERED / f"{name}.yaml").read_text()
        assert list(yaml.safe_load_all(rendered_chart(name))) == list(
            yaml.safe_load_all(checked_in)
        )
    wrong = ["helm", "template", str(CHART), "--kube-version", KUBERNETES, "--set", "replicas=2"]
    refused_run = subprocess.run(wrong, check=False, capture_output=True, text=True)
    assert refused_run.returncode != 0
    assert "replicas" in refused_run.stderr


def test_the_chart_has_the_alerts() -> None:
    assert (CHART / "files" / "stream-app.yaml").readlink() == Path(
        "../../../prometheus/rules/stream-app.yaml"
    )


def test_the_pod_may_do_as_little_as_it_needs(release: dict[str, Object]) -> None:
    pod = release["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted_paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/tmp", "/data"} <= mounted_paths, "what the image writes to"


def test_probes_ask_the_jobs_endpoint(release: dict[str, Object]) -> None:
    [container] = release["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables["STREAM_APP_STREAM__METRICS_PORT"] == ports["metrics"]
    assert variables.get("STREAM_APP_STREAM__WEB_PORT") == ports.get("web")
    assert ("web" in ports) == (variables.get("STREAM_APP_STREAM__WEB_HOST") == "0.0.0.0")
    names = variables.get("STREAM_APP_STREAM__WEB_NAMES") or ""
    assert ("web" in ports) == (release["Service"]["metadata"]["name"] in names.split(","))
    served_ports = [port["targetPort"] for port in release["Service"]["spec"]["ports"]]
    assert served_ports == list(ports)


def test_objects_find_the_pod(release: dict[str, Object]) -> None:
    labels = release["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert release["Service"]["spec"]["selector"].items() <= labels.items()
    budget = release["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    assert budget.items() <= labels.items()
    if "ServiceMonitor" in release:
        expected = release["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
        assert expected.items() <= release["Service"]["metadata"]["labels"].items()
    spec = release["StatefulSet"]["spec"]
    assert spec["replicas"] == 1, "two jobs with one checkpoint refuse each other"
    assert spec["podManagementPolicy"] == "Parallel", "else a failing pod is never replaced"
    assert spec["serviceName"] == release["Service"]["metadata"]["name"]


def test_the_product_takes_the_charts_configuration(
    release: dict[str, Object], tmp_path: Path
) -> None:
    [container] = release["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    environ = {variable["name"]: variable.get("value", "x") for variable in container["env"]}
    config = loaded_config(release["ConfigMap"], tmp_path, environ)
    assert config.stream.metrics_port == 9400


def loaded_config(config_map: Object, folder: Path, environ: Mapping[str, str]) -> Any:
    [(name, text)] = config_map["data"].items()
    (folder / name).write_text(text)
    return load_config(folder / name, [], environ)


SPARK = documents((ROOT / "docker" / "spark-application.yaml").read_text())
APPLICATION = SPARK["SparkApplication"]["spec"]


def test_the_product_takes_the_applications_configuration(tmp_path: Path) -> None:
    environ = {variable["name"]: "x" for variable in APPLICATION["driver"]["env"]}
    config = loaded_config(SPARK["ConfigMap"], tmp_path, environ)
    [port] = APPLICATION["driver"]["ports"]
    assert config.stream.metrics_port == port["containerPort"]
    assert "spark" not in tomllib.loads(next(iter(SPARK["ConfigMap"]["data"].values())))
    [config_map] = APPLICATION["driver"]["configMaps"]
    assert config_map["name"] == SPARK["ConfigMap"]["metadata"]["name"]
    assert APPLICATION["arguments"] == ["--conf", f"{config_map['path']}/job.toml"]


def test_the_application_starts_the_jvm_as_ingest_does() -> None:
    """The application has the settings of ``ingest --print``, with the image's paths."""
    ours = launch_settings({"spark.master": "k8s://x"}, log4j=LOG4J, scheduler=SCHEDULER)
    del ours["spark.master"]  # the operator gives it
    expected = {
        key: value.replace(str(LOG4J.parent), f"{OF_IMAGE}/launch") for key, value in ours.items()
    }
    settings = APPLICATION["sparkConf"]
    assert expected.items() <= settings.items()
    if "STREAM_APP_PYSPARK" not in os.environ:  # another Spark has other jars than the image
        [hadoop] = (spark_home() / "jars").glob("hadoop-client-api-*.jar")
        version = hadoop.stem.removeprefix("hadoop-client-api-")
        sets = (spark_kafka_set(APPLICATION["sparkVersion"]), s3a_set(version))
        path = ":".join(f"{OF_IMAGE}/jars/{stateful_set.name}/*" for stateful_set in sets)
        assert settings["spark.driver.extraClassPath"] == path
        assert settings["spark.executor.extraClassPath"] == path
        assert APPLICATION["sparkVersion"] == installed_spark_version()


@pytest.mark.parametrize("part", ["driver", "executor"])
def test_pods_of_the_application_may_do_as_little_as_they_need(part: str) -> None:
    pod = APPLICATION[part]
    assert pod["podSecurityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["readOnlyRootFilesystem"]
    assert {mount["mountPath"] for mount in pod["volumeMounts"]} == {"/tmp", "/data"}
    assert {mount["name"] for mount in pod["volumeMounts"]} == {
        volume["name"] for volume in APPLICATION["volumes"]
    }
