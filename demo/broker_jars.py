"""The class path of a Kafka broker, for the demo, the tests and the benchmarks."""

from __future__ import annotations

from pathlib import Path

from stream_app.app.launch.jar_sets import Coordinate, JarSet
from stream_app.app.launch.jars import JarCache, jar_folder

KAFKA_BROKER_VERSION = "4.3.1"
BROKER_SET = JarSet(
    name=f"kafka-broker-{KAFKA_BROKER_VERSION}",
    choices=(
        (
            Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_BROKER_VERSION, transitive=True),
            # Without a binding of SLF4J the broker logs nothing at all, not even that it started.
            Coordinate("org.slf4j", "slf4j-simple", "1.7.36"),
        ),
    ),
    # Only DumpLogSegments uses it, and not every registry has it.
    excluded=(("org.apache.kafka", "kafka-tools-api"),),
)


def broker_jars() -> list[Path]:
    """The class path of a Kafka broker, fetched once."""
    return JarCache(jar_folder()).resolve(BROKER_SET)


if __name__ == "__main__":
    print("\n".join(map(str, broker_jars())))
