"""The names of topics in a job that reads several Kafka clusters: pure.

A topic of a further cluster is called ``CLUSTER/TOPIC`` in all that the job writes and shows. No
topic of Kafka has a slash in its name. Only `kafka` and `app.source` ask a cluster by its own name.
"""

from __future__ import annotations


def in_cluster(cluster: str, name: str) -> str:
    """The name of a cluster's topic in the job; that of the first cluster, '', stays."""
    return f"{cluster}/{name}" if cluster else name


def cluster_and_name(topic: str) -> tuple[str, str]:
    """The cluster of a topic, '' for the first one, and the topic's name there."""
    cluster, _, name = topic.rpartition("/")
    return cluster, name
