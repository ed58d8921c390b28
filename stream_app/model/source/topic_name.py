"""The names of topics in a job that reads several Kafka clusters: pure.

The job writes and shows a further cluster's topic as ``CLUSTER/TOPIC``. No Kafka topic has a slash
in its name. Only `kafka` and `app.source` use the topic's name within its cluster.
"""

from __future__ import annotations


def in_cluster(cluster: str, name: str) -> str:
    """The name of a cluster's topic in the job; that of the first cluster, '', stays."""
    return f"{cluster}/{name}" if cluster else name


def cluster_and_name(topic: str) -> tuple[str, str]:
    """The cluster of a topic, '' for the first one, and the topic's name there."""
    cluster, _, name = topic.rpartition("/")
    return cluster, name
