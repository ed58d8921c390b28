"""Brokers and stores check the rights of jobs, and no output shows a secret.

Each run's output, events and table are searched for the secrets that it was given.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from pyspark.sql import SparkSession

from stream_app.app.config.app_config import load_config
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.ops.doctor.observation import Severity
from stream_app.app.source.topic_checks import checked_topics
from stream_app.clock import SystemClock
from stream_app.errors import SourceError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.table.opening import create_or_open
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.brokers.secure_kafka import PASSWORD, USER, SecureKafka
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.examined_job import examination_of
from tests.support.jobs.ingest_process import job_conf
from tests.support.jobs.ingest_server import Finished, IngestServer
from tests.support.jobs.job_harness import JobHarness, change
from tests.support.jobs.table_writer import CompactLater, TableWriter
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_table import TIME_MS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
LISTENERS = ("PLAIN", "SCRAM256", "SCRAM512", "TLS")
ROWS = [change(1, "a"), change(2, "b"), change(1, "c", "a")]


def assert_nobody_sees(secrets: Sequence[str], *places: str | Path) -> None:
    for place in places:
        files = [place] if isinstance(place, Path) and place.is_file() else []
        if isinstance(place, Path) and place.is_dir():
            files = [file for file in place.rglob("*") if file.is_file()]
        contents = [place.encode()] if isinstance(place, str) else [f.read_bytes() for f in files]
        assert contents, f"nothing was looked at: {place}"
        for secret in secrets:
            for text in contents:
                assert secret.encode() not in text


@pytest.mark.parametrize("listener", LISTENERS)
def test_topics_are_checked_at_a_broker_that_asks(secure_kafka: SecureKafka, listener: str) -> None:
    topic = new_topic(secure_kafka.broker)
    source = SourceConfig(
        bootstrap_servers=secure_kafka.bootstrap(listener),
        topics=(topic,),
        kafka_options=secure_kafka.options(listener),
    )
    topics = checked_topics(source, timeout_s=60)
    assert topics[topic].partition_count == 1


@pytest.mark.parametrize("listener", ["PLAIN", "SCRAM512"])
def test_an_error_about_a_wrong_password_hides_it(
    secure_kafka: SecureKafka, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "not-the-password-of-alice"
    source = SourceConfig(
        bootstrap_servers=secure_kafka.bootstrap(listener),
        topics=("t",),
        kafka_options=secure_kafka.options(listener, wrong),
    )
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(SourceError, match="user and password") as caught,
    ):
        checked_topics(source, timeout_s=3)
    assert_nobody_sees([wrong], str(caught.value), repr(caught.value))
    assert caplog.text


def test_the_doctor_reports_a_missing_right_and_a_wrong_password(
    secure_kafka: SecureKafka, tmp_path: Path
) -> None:
    """A user that may describe a topic and not read it; then one that may not log in."""
    topic = new_topic(secure_kafka.broker)
    produce(secure_kafka.broker, topic, [(b"k", b"v")])
    deny_read(secure_kafka, topic)
    wrong = {"password": "not-the-password-of-alice"}
    for replaced_text, words in (
        ({}, f"topic {topic} may not be read by this user (Read is not allowed)"),
        (wrong, "does not answer as a Kafka broker"),
    ):
        options = secure_kafka.options("SCRAM256", **replaced_text)
        place = {"bootstrap-servers": secure_kafka.bootstrap("SCRAM256"), "topics": [topic]}
        conf = job_conf(
            tmp_path, source=place | {f"kafka.{key}": value for key, value in options.items()}
        )
        examination = examination_of(load_config(conf, [], {}), SystemClock(), broker_timeout_s=3)
        observations = [
            observation
            for observation in examination.observations()
            if observation.subject == "broker"
        ]
        [problem] = [
            observation for observation in observations if observation.severity is Severity.PROBLEM
        ]
        assert words in problem.text
        assert_nobody_sees([wrong["password"], PASSWORD], repr(observations))


def deny_read(kafka: SecureKafka, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.broker.bootstrap)
    rules = [
        ACL(f"User:{USER}", "*", operation, permission, ResourcePattern(ResourceType.TOPIC, topic))
        for operation, permission in (
            (ACLOperation.READ, ACLPermissionType.DENY),
            (ACLOperation.DESCRIBE, ACLPermissionType.ALLOW),
        )
    ]
    admin.create_acls(rules)
    admin.close()


@pytest.mark.spark
def test_plans_and_sources_hide_secrets(spark: SparkSession, secure_kafka: SecureKafka) -> None:
    options = {**secure_kafka.options("SCRAM512"), "ssl.key.password": "known-key-password"}
    source = KafkaSource(
        bootstrap_servers=secure_kafka.bootstrap("SCRAM512"), topics=("t",), kafka_options=options
    )
    plan = source.read_stream(spark)._jdf.queryExecution().analyzed().toString()
    # Behind it stands Spark's older form of the source, which hides nothing; nobody prints it.
    plan, older, _ = plan.partition("~StreamingRelation DataSource")
    assert older
    assert "kafka.sasl.mechanism=SCRAM-SHA-512" in plan
    assert_nobody_sees([PASSWORD[:11], "known-key-password"], plan, repr(source), str(source))


@pytest.fixture
def secure_harness(
    tmp_path: Path,
    secure_kafka: SecureKafka,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
) -> JobHarness:
    return JobHarness(tmp_path, secure_kafka.broker, ingest_server, paimon_java)


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.parametrize("listener", [*LISTENERS, "OAUTH"])
def test_a_topic_is_ingested_from_a_broker_that_asks(
    secure_harness: JobHarness, secure_kafka: SecureKafka, listener: str
) -> None:
    topic = secure_harness.topic(ROWS)
    # Kafka's unsecured tokens are put together without quoting what stands in them.
    password = {"password": "known-pass of alice"} if listener == "OAUTH" else {}
    options = secure_kafka.options(listener, **password)
    if listener != "TLS":
        # From a file, as an operator would give it.
        login = secure_harness.folder / "login"
        login.write_text(options["sasl.jaas.config"] + "\n")
        options["sasl.jaas.config"] = f"${{file:{login}}}"
    secure_harness.configure(
        topic,
        source={
            "bootstrap-servers": secure_kafka.bootstrap(listener),
            **{f"kafka.{key}": value for key, value in options.items()},
        },
    )
    result = secure_harness.run()
    assert secure_harness.rows() == {1: "c", 2: "b"}
    assert ("the topics are not checked" in result.output) == (listener == "OAUTH")
    if listener != "TLS":
        login.unlink()
    assert_nobody_sees([PASSWORD, PASSWORD[:10]], result.output, secure_harness.folder)


@pytest.mark.spark
@pytest.mark.java
def test_errors_about_a_password_hide_it(
    secure_harness: JobHarness, secure_kafka: SecureKafka
) -> None:
    """The errors of Spark and Kafka's client hide it too, so the check of the topics is off."""
    topic = secure_harness.topic(ROWS)
    wrong = "not-the-password-of-alice"
    options = secure_kafka.options("SCRAM512", wrong)
    options["ssl.truststore.type"] = "PKCS12"  # so that the check does not come first
    options["ssl.truststore.password"] = "known-trust-password"
    secure_harness.configure(
        topic,
        source={
            "bootstrap-servers": secure_kafka.bootstrap("SCRAM512"),
            **{f"kafka.{key}": value for key, value in options.items()},
        },
    )
    secrets = [wrong, "known-trust-password"]
    result = secure_harness.server.run(secure_harness.conf, events=secure_harness.events_file)
    assert result.code == 2
    assert "the topics are not checked" in result.output
    assert_nobody_sees(secrets, result.output, secure_harness.events_file)


@pytest.mark.spark
@pytest.mark.java
def test_a_login_that_fails_in_java_is_reported(
    secure_harness: JobHarness, secure_kafka: SecureKafka
) -> None:
    """Kerberos without a ticket, which no check comes before."""
    secure_harness.configure(
        secure_harness.topic(ROWS),
        source={
            "bootstrap-servers": secure_kafka.bootstrap("PLAIN"),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
            'useTicketCache=true password="known-pass";',
        },
    )
    result = secure_harness.server.run(secure_harness.conf, events=secure_harness.events_file)
    assert result.code == 2
    assert "because: Failed to create new KafkaAdminClient; " in result.error
    assert "sasl.jaas.config there, and the ticket" in result.error
    assert_nobody_sees(["known-pass"], result.output, secure_harness.events_file)


def ingest_to_s3(harness: JobHarness, s3: S3Server, bucket: str) -> Finished:
    key_file = harness.folder / "key"
    key_file.write_text(SECRET_KEY + "\n")
    options = {**s3.options, "s3.secret-key": f"${{file:{key_file}}}"}
    harness.configure(
        harness.topic(ROWS),
        table={
            "warehouse": f"s3://{bucket}/warehouse",
            "options.num-sorted-run.compaction-trigger": "2",
        },
        **{"file-system": options},
    )
    return harness.run()


@pytest.mark.spark
@pytest.mark.java
def test_a_topic_is_ingested_into_a_table_on_s3(
    harness: JobHarness, s3: S3Server, tmp_path: Path
) -> None:
    bucket = s3.new_bucket()
    result = ingest_to_s3(harness, s3, bucket)
    s3.copy_to(f"s3://{bucket}/warehouse/db.db/t", harness.table)
    assert harness.rows() == {1: "c", 2: "b"}
    assert sorted(harness.changes()) == [
        ("+I", 1, "a"),
        ("+I", 2, "b"),
        ("+U", 1, "c"),
        ("-U", 1, "a"),
    ]
    (tmp_path / "key").unlink()
    (tmp_path / "job.toml").unlink()  # it holds the access key
    assert_nobody_sees([ACCESS_KEY, SECRET_KEY], result.output, tmp_path)


@pytest.mark.spark
@pytest.mark.java
def test_keys_that_are_replaced_under_way_are_followed(
    harness: JobHarness, s3: S3Server, tmp_path: Path
) -> None:
    """With each snapshot the store changes its keys, and files have the next ones by then."""
    keys = tmp_path / "keys"
    keys.mkdir()
    rounds = 0

    def replace() -> None:
        nonlocal rounds
        rounds += 1
        for name in ("access", "secret", "token"):
            (keys / name).write_text(f"known-{name}-{rounds}\n")
        s3.valid_keys = frozenset({f"known-access-{rounds}"})

    def watch(method: str, path: str) -> None:
        if method == "PUT" and path.endswith(f"/snapshot-{rounds}"):
            replace()

    bucket = s3.new_bucket()
    replace()
    s3.before = watch
    harness.configure(
        harness.topic(ROWS),
        source={"max-offsets-per-trigger": 1},
        table={
            "warehouse": f"s3://{bucket}/warehouse",
            "options.num-sorted-run.compaction-trigger": "2",
        },
        **{
            "file-system": {
                "s3.endpoint": s3.endpoint,
                "s3.access-key": f"${{file:{keys}/access}}",
                "s3.secret-key": f"${{file:{keys}/secret}}",
                "s3.session.token": f"${{file:{keys}/token}}",
            }
        },
    )
    result = harness.run()
    assert rounds >= 4, "an epoch for each message, and compactions"
    s3.copy_to(f"s3://{bucket}/warehouse/db.db/t", harness.table)
    assert harness.rows() == {1: "c", 2: "b"}
    secrets = [f"known-{name}-" for name in ("access", "secret", "token")]
    assert_nobody_sees(secrets, result.output, harness.events_file)


@pytest.mark.variant
@pytest.mark.spark
@pytest.mark.java
def test_a_compaction_on_spark_reveals_no_secret(s3: S3Server, tmp_path: Path) -> None:
    """The test also searches Spark's log and events for the keys that a store sends to a task."""
    schema = new_table_schema(
        columns=parse_columns("k INT, v STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", "write-only": "true"},
        time_ms=TIME_MS,
    )
    location = f"s3://{s3.new_bucket()}/db.db/t"
    writer = TableWriter(create_or_open(location, schema, file_io_options=s3.options), CompactLater)
    for number in range(3):
        writer.write([("+I", {"k": number, "v": "x"})])

    def refuse(method: str, path: str) -> None:
        s3.error = (403, "AccessDenied") if method == "GET" and "/bucket-0/data-" in path else None

    s3.before = refuse
    key_file, spark_events = tmp_path / "key", tmp_path / "spark-events"
    key_file.write_text(SECRET_KEY + "\n")
    spark_events.mkdir()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": fast_jvm(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": spark_events.as_uri(),
        "spark.logConf": "true",
    }
    result = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "stream_app", "compact", location),
            *(word for item in settings.items() for word in ("--set", "=".join(item))),
        ],
        env=os.environ
        | {
            "STREAM_APP_FILE_SYSTEM__S3__ENDPOINT": s3.endpoint,
            "STREAM_APP_FILE_SYSTEM__S3__SECRET_KEY": f"${{file:{key_file}}}",
            "STREAM_APP_FILE_SYSTEM__S3__ACCESS_KEY": "${env:LAKE_ID}",
            "LAKE_ID": ACCESS_KEY,
        },
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    output = result.stdout + result.stderr
    assert result.returncode == 1, output
    assert "the file system refused: AccessDenied" in output
    assert "Traceback" not in output, output
    key_file.unlink()
    assert_nobody_sees([ACCESS_KEY, SECRET_KEY], output, spark_events)
