"""Queries of tables on Millstream workers, and Dask DataFrames as frames of Go programs and back.

    import millstream.frame as mf
    from millstream.frame import col

    orders = mf.scan(client, "/data/orders")               # Parquet, CSV, NDJSON and IPC files, see query.py
    totals = orders.filter(col("price") > 10).group_by("customer").agg(total=mf.sum("price"))
    table = totals.sort(mf.desc("total")).collect()        # a pyarrow.Table

    millstream.frame.from_dask(client, df, name="people")  # Go: frame.Open(ctx, c, "people", frame.Host)
    df = millstream.frame.to_dask(client, "labels")        # Go: f.Publish(ctx, "labels", false)

Only the client needs this package: its functions are sent to the workers with their code. Workers need pyarrow.
"""

import sys

import cloudpickle
from distributed import Client, Future, wait

from .expressions import (
    Agg,
    Expr,
    SortKey,
    asc,
    col,
    collect_list,
    count,
    desc,
    first,
    last,
    lit,
    max,
    mean,
    median,
    min,
    nunique,
    quantile,
    std,
    sum,
    var,
    when,
)
from .query import Grouping, Query, scan, sql, table

__all__ = [
    "Agg",
    "Expr",
    "Grouping",
    "Query",
    "SortKey",
    "asc",
    "col",
    "collect_list",
    "count",
    "desc",
    "first",
    "from_dask",
    "last",
    "lit",
    "max",
    "mean",
    "median",
    "min",
    "nunique",
    "quantile",
    "scan",
    "sql",
    "std",
    "sum",
    "table",
    "to_arrow",
    "to_dask",
    "to_pandas",
    "var",
    "when",
]


def _portable():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def to_arrow(part, schema=None):
    """Return a partition, of pandas or of Arrow, as one record batch."""
    import pyarrow

    if isinstance(part, pyarrow.RecordBatch):
        return part
    if isinstance(part, pyarrow.Table):
        batches = part.combine_chunks().to_batches()
        return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=part.schema)
    if schema is not None:
        schema = schema.remove_metadata()
    batch = pyarrow.RecordBatch.from_pandas(part, schema=schema, preserve_index=False)
    return batch.replace_schema_metadata(None)


def to_pandas(batch):
    """Return a record batch or table as a pandas DataFrame."""
    return batch.to_pandas()


def _empty(batch):
    return to_pandas(batch.slice(0, 0))


def from_dask(client: Client, df, name=None, override=False):
    """Return the partitions of a Dask DataFrame as futures of Arrow record batches, in order and with one schema.

    With a name they are published, for frame.Open in Go programs. The index is omitted: reset_index() makes it a column.
    """
    import pyarrow

    _portable()
    schema = pyarrow.Schema.from_pandas(df._meta_nonempty, preserve_index=False)
    df = df.persist()
    wait(df)
    parts = client.compute(df.to_delayed())
    futures = client.map(to_arrow, parts, schema=schema, pure=False)
    if name is not None:
        # Fail here, not in the reader of a published future.
        client.gather(client.map(lambda batch: batch.num_rows, futures, pure=False))
        client.publish_dataset(futures, name=name, override=override)
    return futures


def to_dask(client: Client, frame):
    """Return the Dask DataFrame of a published frame, by its name, or of futures of Arrow record batches."""
    import dask.dataframe

    _portable()
    futures = client.get_dataset(frame) if isinstance(frame, str) else list(frame)
    if not futures or not all(isinstance(f, Future) for f in futures):
        raise ValueError(f"{frame!r} is not a frame: want a list of futures of Arrow record batches")
    meta = client.submit(_empty, futures[0]).result()
    return dask.dataframe.from_delayed(client.map(to_pandas, futures), meta=meta, verify_meta=False)
