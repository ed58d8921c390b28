"""Declares sets of Java archives that belong together; `jars` resolves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

KAFKA_CLIENTS_VERSION = "3.9.1"
KAFKA_BROKER_VERSION = "4.3.1"
AWS_SDK_VERSIONS = {"3.4.1": "2.24.6", "3.4.2": "2.29.52"}
"""Hadoop's version → the version of AWS's SDK with which its S3A was built."""
TOKEN_PROVIDERS = {"4.2": "4.1.0-preview1", "4.1": "4.1.0-preview1", "4.0": "4.0.0"}
"""Spark's minor version → patch release of its token provider; some registries lack the newest.

The provider only prepares the clients' security settings, and has not changed from 4.1 to 4.2."""
KAFKA_SOURCES = {"4.2": "4.2.0", "4.1": "4.1.3", "4.0": "4.0.2"}
"""Spark's minor version → patch release of its Kafka source; some registries lag behind for days.

The tests run these releases. Patch releases keep the interfaces that the source calls."""


@dataclass(frozen=True, slots=True)
class MavenCoordinate:
    """One module of a Maven repository.

    Attributes:
        classifier: the classifier of an archive other than the module's jar, such as ``all``.
        extension: the extension of that archive's file.
    """

    organisation: str
    module: str
    revision: str
    is_transitive: bool = False
    classifier: str = ""
    extension: str = "jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.module}:{self.revision}"

    @property
    def jar_name(self) -> str:
        """The file name of the module's archive."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.revision}{suffix}.{self.extension}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that belong together.

    Attributes:
        excluded_modules: modules (organisation, module) that the dependencies must not add.
        names_every_jar: whether the coordinates name every jar, so that Ivy need not read POMs.
            This saves a minute with a deep parent POM.
    """

    name: str
    coordinates: tuple[MavenCoordinate, ...]
    excluded_modules: tuple[tuple[str, str], ...] = ()
    names_every_jar: bool = False


KAFKA_BROKER_SET = JarSet(
    name=f"kafka-broker-{KAFKA_BROKER_VERSION}",
    coordinates=(
        MavenCoordinate("org.apache.kafka", "kafka_2.13", KAFKA_BROKER_VERSION, is_transitive=True),
        # Without a binding of SLF4J the broker logs nothing, not even its start.
        MavenCoordinate("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
    # Some registries lack this module, which only DumpLogSegments uses.
    excluded_modules=(("org.apache.kafka", "kafka-tools-api"),),
)
"""A broker, for the demo, the tests and the benchmarks."""


def spark_kafka_set(spark_version: str) -> JarSet:
    """Return the jars that ``format("kafka")`` needs and pyspark/jars lacks."""
    minor = ".".join(spark_version.split(".")[:2])
    source = KAFKA_SOURCES.get(minor, spark_version)
    provider = TOKEN_PROVIDERS.get(minor, spark_version)
    return JarSet(
        name=f"spark-kafka-{spark_version}",
        coordinates=(
            MavenCoordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", source),
            MavenCoordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", provider),
            MavenCoordinate("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS_VERSION),
            MavenCoordinate("org.apache.commons", "commons-pool2", "2.12.1"),
        ),
    )


def s3a_set(hadoop_version: str) -> JarSet:
    """Return the jars of Hadoop's S3A, for a checkpoint on S3.

    Hadoop depends on AWS's bundle of all services, which has half a gigabyte. This set has only the
    modules that S3A uses, 11 MB. Netty and the logging come from Spark.
    """
    sdk = AWS_SDK_VERSIONS.get(hadoop_version, AWS_SDK_VERSIONS["3.4.2"])
    modules = ("s3", "s3-transfer-manager", "sts")
    return JarSet(
        name=f"s3a-{hadoop_version}",
        coordinates=(
            MavenCoordinate("org.apache.hadoop", "hadoop-aws", hadoop_version),
            *(
                MavenCoordinate("software.amazon.awssdk", module, sdk, is_transitive=True)
                for module in modules
            ),
        ),
        excluded_modules=(
            ("io.netty", "*"),
            ("org.slf4j", "*"),
            ("commons-logging", "*"),
            ("commons-codec", "*"),
        ),
    )


HADOOP_SETS: Mapping[str, Callable[[str], JarSet]] = {"s3a": s3a_set}
"""The sets with which Spark accesses stores, by `SparkAccess.jars`, for a version of Hadoop.

The first coordinate is Hadoop's own module. If Spark has its jar, it has the whole set.
"""
