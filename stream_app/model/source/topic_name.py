"""Names topics in a job that reads several Kafka clusters. Pure.

The job writes and shows a further cluster's topic as ``CLUSTER/TOPIC``. No Kafka topic has a slash
in its name. Only `kafka` and `app.source` use the topic's name within its cluster.
"""

from __future__ import annotations


def in_cluster(cluster: str, name: str) -> str:
    """Return the job's name of a cluster's topic; that of the first cluster, '', is unchanged."""
    return f"{cluster}/{name}" if cluster else name


def cluster_and_name(topic: str) -> tuple[str, str]:
    """Return a topic's cluster, '' for the first one, and the topic's name there."""
    cluster, _, name = topic.rpartition("/")
    return cluster, name
