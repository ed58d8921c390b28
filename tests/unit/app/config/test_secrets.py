"""No output of the configuration contains a known secret."""

from __future__ import annotations

import argparse
import io
import json
import logging
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from stream_app.app.cli.verbs.ingest import ingest_command
from stream_app.app.config.app_config import load_config
from stream_app.app.config.secrets import HIDDEN, Secrets, hiding, hiding_stream, is_secret
from stream_app.app.config.settings import secret_texts
from stream_app.app.config.values import Setting
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.errors import UsageError
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.table.file_store_table import table_label

ODD = 'p"a\\ss é+/=\tword'


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "s3.access-key",
        "fs.s3a.access.key",
        "s3.secret-key",
        "s3.session.token",
        "KAFKA_PASSWORD",
        "TRUST_PASSPHRASE",
        "catalog.header.x-key",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl.mechanism", "client.id", "s3.endpoint", "primary-keys"])
def test_other_names_are_not_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        ODD,
        repr({"x": ODD}),
        json.dumps({"x": ODD}),
        json.dumps({"x": ODD}, ensure_ascii=False),
        f'LoginModule required username="u" password="{ODD}";',
        "http://host/?key=p%22a%5Css%20%C3%A9%2B%2F%3D%09word",
    ],
)
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    shown = Secrets([ODD]).hide(text)
    assert HIDDEN in shown
    assert "word" not in shown.replace("password", "")


def test_a_password_within_a_login_and_lines_of_a_key_are_found() -> None:
    login = 'x.PlainLoginModule required username="alice" password="sw\\"ordfish";'
    key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\nByqGSM49AgEG\n-----END PRIVATE KEY-----"
    secrets = Secrets([login, key])
    assert secrets.hide('user alice, password sw"ordfish') == f"user alice, password {HIDDEN}"
    oauth = 'x.OAuthBearerLoginModule required clientId="c" clientSecret="sesame" scope="s";'
    assert Secrets([oauth]).hide("c sesame s") == f"c {HIDDEN} s"
    assert secrets.hide("at ByqGSM49AgEG") == f"at {HIDDEN}"
    assert secrets.hide("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize(
    "uri",
    [
        "jdbc:postgresql://host/db?user=alice&password=swordfish&ssl=true",
        "jdbc:mysql://host/db?password=swordfish",
        "https://alice:swordfish@host/",
        "jdbc:postgresql://alice:swordfish@host:5432/db?user=bob",
    ],
)
def test_the_password_of_an_address_is_hidden(uri: str) -> None:
    settings = {"catalog.uri": Setting(uri, "test")}
    assert secret_texts(settings, {}) == ["swordfish"]


def test_the_password_of_an_address_is_hidden_in_both_forms() -> None:
    settings = {"catalog.uri": Setting("jdbc:mysql://host/db?password=sword%2Bfish", "test")}
    assert sorted(secret_texts(settings, {})) == ["sword%2Bfish", "sword+fish"]


def test_longer_secrets_are_hidden_first_and_very_short_ones_never() -> None:
    assert Secrets(["abcd", "abcdefg"]).hide("abcdefg abcd") == f"{HIDDEN} {HIDDEN}"
    assert Secrets(["a"]).hide("a table") == "a table"


def test_no_output_of_a_process_reveals_a_secret(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("stream_app.test")
    with hiding(Secrets(["swordfish"])):
        print("out swordfish")
        print("err swordfish", file=sys.stderr)
        log.error("logged %s", "swordfish")
        try:
            raise ValueError("raised swordfish")
        except ValueError:
            log.exception("caught")
    log.error("afterwards %s", "swordfish")
    output = capsys.readouterr()
    assert (output.out, output.err) == ("out ****\n", "err ****\n")
    log_text = caplog.text
    assert "logged ****" in log_text
    assert "ValueError: raised ****" in log_text
    assert log_text.count("swordfish") == 1, "only what came afterwards"


def test_a_hiding_stream_is_a_stream() -> None:
    stream = io.StringIO()
    sink = hiding_stream(stream, Secrets(["swordfish"]))
    sink.write('{"error": "swordfish"}\n')
    sink.flush()
    assert stream.getvalue() == '{"error": "****"}\n'


SECRET = "known-secret-of-the-job"
CONFIGURATION = f"""
[source]
bootstrap-servers = "h:9092"
topics = ["t"]
kafka."sasl.jaas.config" = 'x required username="u" password="{SECRET}-1";'
[table]
warehouse = "s3://bucket/warehouse"
name = "t"
columns = "id BIGINT"
primary-keys = ["id"]
options.bucket = 1
[stream]
checkpoint = "checkpoint"
[file-system]
s3.access-key = "{SECRET}-2"
s3.secret-key = "{SECRET}-3"
[spark]
"spark.hadoop.fs.s3a.secret.key" = "{SECRET}-4"
"""


def test_a_configuration_and_its_parts_reveal_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(CONFIGURATION)
    config = load_config(path, [], {})
    source = KafkaSource(bootstrap_servers="h", kafka_options=config.source.kafka_options)
    assert SECRET in config.source.kafka_options["sasl.jaas.config"]
    metrics = generate_latest(JobMetrics(table_label(config.job_tables.location)).registry)
    for value in (config, config.source, config.masked(), source, metrics):
        assert SECRET not in repr(value)
        assert SECRET not in str(value)
    assert config.secrets.occur_in(f"{SECRET}-3")


@pytest.mark.parametrize("setting", ["spark.driver.extraJavaOptions", "spark.kubernetes.x"])
def test_a_secret_does_not_come_on_a_command_line(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "job.toml"
    jars = '"spark.jars" = "x.jar"\n'
    path.write_text(CONFIGURATION + jars)
    args = argparse.Namespace(conf=path, set=[], events=None)
    assert SECRET not in " ".join(ingest_command(load_config(path, [], {}), args))
    path.write_text(CONFIGURATION + jars + f'"{setting}" = "-Dx=${{env:TRUST_PASSWORD}}"\n')
    config = load_config(path, [], {"TRUST_PASSWORD": SECRET})
    with pytest.raises(UsageError, match="command line") as caught:
        ingest_command(config, args)
    assert SECRET not in str(caught.value)
