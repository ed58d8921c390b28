"""Runs Paimon's own sink for Spark, for `bench.jobs.spark_sink`, in another Python environment.

It imports nothing of stream_app, because the environment has only PySpark 4.0. It prints, as JSON,
the times of the monotonic clock between which the counted epochs ran.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(job: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    folder = Path(job["folder"])
    spark = (
        SparkSession.builder.master(f"local[{job['cores']}]")
        .config("spark.jars", job["jars"])
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(job["cores"]))
        .config("spark.sql.catalog.paimon", "org.apache.paimon.spark.SparkCatalog")
        .config("spark.sql.catalog.paimon.warehouse", f"file://{folder}/warehouse")
        .config(
            "spark.sql.extensions",
            "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        )
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    properties = {"primary-key": "k", **job["options"]}
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql("CREATE DATABASE IF NOT EXISTS paimon.db")
    spark.sql(f"CREATE TABLE paimon.db.t ({job['columns']}) TBLPROPERTIES ({clause})")

    def drain(source: str) -> None:
        lines = spark.readStream.schema("value STRING").option("maxFilesPerTrigger", 1)
        rows = lines.json(source).select(F.from_json("value", job["row"]).alias("row"))
        writer = rows.select("row.*").writeStream.format("paimon").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{folder}/{Path(source).name}-checkpoint")
        writer.start(f"file://{folder}/warehouse/db.db/t").awaitTermination()

    drain(job["first"])
    start_s = time.monotonic()
    drain(job["rest"])
    interval = start_s, time.monotonic()
    rows, total = spark.sql("SELECT count(*), sum(n) FROM paimon.db.t").collect()[0]
    print(json.dumps({"between": interval, "rows": rows, "total": total}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
