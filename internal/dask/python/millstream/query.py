"""Lazy queries of tables on Millstream workers: the verbs of Go's frame.Query for Python programs.

Use :mod:`millstream.frame`, which has all names of this module. A query is a list of verbs. To run it, the list is sent
to a worker, which optimizes it and runs its tasks on the whole cluster; the result stays on the workers as Arrow record
batches until it is collected.
"""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from .expressions import Agg, Expr, SortKey, asc, named
from .stubs import go

_FORMATS = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": (".csv",),
    "ndjson": (".ndjson", ".jsonl"),
    "ipc": (".arrow", ".feather", ".ipc", ".arrows"),
}

_request = go("millstream.frame.request")


def _ask(client: Any, **request: Any) -> dict:
    return client.submit(_request, json.dumps(request), pure=False).result()


def _encoded(schema: Any) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


class Query:
    """A computation on tables that has not run. Verbs return other queries; those of the last group run it.

    Created by :func:`scan`, :func:`table` and :func:`sql`. Columns are given by name or as expressions. An error, such as
    a column that does not exist, is raised by the methods that run the query.
    """

    def __init__(self, client: Any, steps: list, keep: tuple = ()) -> None:
        self._client = client
        self._steps = steps
        self._keep = keep  # futures that the query reads

    def _then(self, verb: str, *others: Query, **fields: Any) -> Query:
        for other in others:
            if other._client is not self._client:
                raise ValueError("the queries belong to different clients")
        step = {"verb": verb, **fields}
        if others:
            step["others"] = [other._steps for other in others]
        keep = self._keep + tuple(k for other in others for k in other._keep)
        return Query(self._client, [*self._steps, step], keep)

    def __repr__(self) -> str:
        return f"<Query {' → '.join(step['verb'] for step in self._steps)}>"

    # Verbs.

    def filter(self, *conditions: Expr) -> Query:
        """Return the rows for which all conditions are true."""
        return self._then("filter", exprs=[named(c).node for c in conditions])

    def select(self, *exprs: Expr | str, **aliases: Any) -> Query:
        """Return computed columns, in this order."""
        return self._then("select", exprs=_columns(exprs, aliases))

    def with_columns(self, *exprs: Expr, **aliases: Any) -> Query:
        """Return all columns, of which expressions replace those with the same name and add others."""
        return self._then("with", exprs=_columns(exprs, aliases))

    def drop(self, *names: str) -> Query:
        """Return all columns but these."""
        return self._then("drop", names=list(names))

    def rename(self, names: dict[str, str]) -> Query:
        """Give columns other names."""
        return self._then("rename", names=[n for pair in names.items() for n in pair])

    def group_by(self, *keys: Expr | str) -> Grouping:
        """Group rows with equal keys. Nulls are one group."""
        return Grouping(self, keys)

    def agg(self, *aggs: Agg, **aliases: Agg) -> Query:
        """Return one row: aggregates of all rows."""
        return self._then("agg", aggs=_aggs(aggs, aliases))

    def join(self, other: Query, on: str | list[str] = (), how: str = "inner", left_on: Any = (), right_on: Any = (),
             suffix: str = "_right") -> Query:
        """Return pairs of rows that are equal in columns (on), or in expressions of both sides.

        how is inner, left, right, full, semi, anti or cross. Columns of the other side whose names this one has get the
        suffix.
        """
        many = lambda x: [x] if isinstance(x, (str, Expr)) else list(x)  # noqa: E731
        return self._then("join", other, kind=how, names=many(on), suffix=suffix,
                          lefton=[named(e).node for e in many(left_on)],
                          righton=[named(e).node for e in many(right_on)])

    def sort(self, *keys: SortKey | Expr | str) -> Query:
        """Order the rows by keys: ascending, nulls last, unless they are made with desc and nulls_first."""
        return self._then("sort", order=_order(keys))

    def top(self, n: int, *keys: SortKey | Expr | str) -> Query:
        """Return the first n rows in the order of keys."""
        return self._then("top", n=n, order=_order(keys))

    def limit(self, n: int) -> Query:
        """Return the first n rows."""
        return self._then("limit", n=n)

    def offset(self, n: int) -> Query:
        """Return the rows without the first n."""
        return self._then("offset", n=n)

    def distinct(self, *names: str) -> Query:
        """Return the first row of those that are equal in some columns (default: in all)."""
        return self._then("distinct", names=list(names))

    def union(self, *others: Query) -> Query:
        """Return the rows of all queries, which have the same columns. Equal rows are kept."""
        return self._then("union", *others)

    def sample(self, fraction: float, seed: int = 0) -> Query:
        """Return each row with a probability."""
        return self._then("sample", fraction=fraction, seed=seed)

    def describe(self) -> Query:
        """Return one row for each column: type, numbers of values and nulls, mean, minimum, quartiles and so on."""
        return self._then("describe")

    def sql(self, text: str, name: str = "self", **tables: Query) -> Query:
        """Return the query of a SELECT statement, in which this query is the table `name`."""
        return sql(self._client, text, **{name: self, **tables})

    # Methods that run the query.

    @property
    def schema(self) -> Any:
        """The columns of the result, a pyarrow.Schema."""
        import pyarrow

        return pyarrow.ipc.open_stream(self._ask("schema")["Schema"]).schema

    def explain(self, run: bool = False) -> str:
        """Return the plan that would run, or with run the plan of a run with rows, bytes and times."""
        return self._ask("explain_run" if run else "explain")["Text"]

    def compute(self) -> list:
        """Run the query and return futures of Arrow record batches, the partitions of the result."""
        name = "millstream-frame-" + uuid.uuid4().hex
        try:
            self._ask("run", name=name)
            return list(self._client.get_dataset(name))
        finally:
            if name in self._client.list_datasets():
                self._client.unpublish_dataset(name)

    def persist(self) -> Query:
        """Run the query and return one of its result, which stays on the workers as long as the new query exists."""
        return table(self._client, self.compute())

    def collect(self) -> Any:
        """Run the query and return its result as a pyarrow.Table."""
        import pyarrow

        return pyarrow.Table.from_batches(self._client.gather(self.compute()))

    def to_pandas(self) -> Any:
        """Run the query and return its result as a pandas DataFrame."""
        return self.collect().to_pandas()

    def head(self, n: int = 5) -> Any:
        """Run the query for its first rows and return them as a pyarrow.Table."""
        return self.limit(n).collect()

    def count(self) -> int:
        """Run the query and return the number of its rows."""
        return self.agg(Agg("count", name="n")).collect()["n"][0].as_py()

    def to_dask_dataframe(self) -> Any:
        """Run the query and return its result as a Dask DataFrame, whose partitions Python workers convert."""
        from .frame import to_dask

        return to_dask(self._client, self.compute())

    def write_parquet(self, path: str, overwrite: bool = False, compression: str = "snappy") -> list[str]:
        """Run the query and write its result as Parquet files into a folder that the workers see; return their paths."""
        return self._write("parquet", path, overwrite, compression)

    def write_csv(self, path: str, overwrite: bool = False) -> list[str]:
        """Run the query and write its result as CSV files into a folder; return their paths."""
        return self._write("csv", path, overwrite)

    def write_ndjson(self, path: str, overwrite: bool = False) -> list[str]:
        """Run the query and write its result as files with a JSON object in each line; return their paths."""
        return self._write("ndjson", path, overwrite)

    def write_ipc(self, path: str, overwrite: bool = False) -> list[str]:
        """Run the query and write its result as Arrow IPC files into a folder; return their paths."""
        return self._write("ipc", path, overwrite)

    def _write(self, kind: str, path: str, overwrite: bool, compression: str = "") -> list[str]:
        return list(self._ask("write", name=path, format=kind, overwrite=overwrite, compression=compression)["Paths"])

    def _ask(self, do: str, **fields: Any) -> dict:
        return _ask(self._client, do=do, plan=self._steps, **fields)


class Grouping:
    """A query whose rows are grouped by keys. Created by :meth:`Query.group_by`."""

    def __init__(self, query: Query, keys: tuple) -> None:
        self._query = query
        self._keys = keys

    def agg(self, *aggs: Agg, **aliases: Agg) -> Query:
        """Return one row for each group: the keys and the aggregates, in no order."""
        return self._query._then("group", exprs=_columns(self._keys, {}), aggs=_aggs(aggs, aliases))


def _columns(exprs: Any, aliases: dict[str, Any]) -> list[dict]:
    return [named(e).node for e in exprs] + [named(e).alias(name).node for name, e in aliases.items()]


def _aggs(aggs: Any, aliases: dict[str, Agg]) -> list[dict]:
    every = [*aggs, *(a.alias(name) for name, a in aliases.items())]
    for a in every:
        if not isinstance(a, Agg):
            raise TypeError(f"{a!r} is no aggregate: use functions such as millstream.frame.sum")
    return [a.node for a in every]


def _order(keys: Any) -> list[dict]:
    return [(k if isinstance(k, SortKey) else asc(k)).node for k in keys]


def scan(client: Any, path: str, format: str | None = None, schema: Any = None, split: int = 0) -> Query:
    """Return a query of files that the workers see: a file, a folder or a pattern.

    format is parquet, csv, ndjson or ipc (default: by the ending of the path, parquet for folders). schema, a
    pyarrow.Schema, replaces the inferred one of CSV and NDJSON files. split is the size of partitions in bytes of the files
    (default 64 MiB; -1: one for each file).
    """
    if format is None:
        found = [f for f, endings in _FORMATS.items() if path.endswith(endings)]
        format = found[0] if found else "parquet"
    step = {"verb": "scan", "path": path, "format": format, "split": split}
    if schema is not None:
        step["schema"] = _encoded(schema)
    return Query(client, [step])


def table(client: Any, data: Any) -> Query:
    """Return a query of a pyarrow.Table or RecordBatch, of futures of record batches, or of a published frame by name."""
    import pyarrow

    if isinstance(data, str):
        data = client.get_dataset(data)
    elif isinstance(data, (pyarrow.Table, pyarrow.RecordBatch)):
        whole = pyarrow.Table.from_batches([data]) if isinstance(data, pyarrow.RecordBatch) else data
        batches = whole.to_batches() or [pyarrow.RecordBatch.from_pylist([], schema=whole.schema)]
        data = client.scatter(batches, hash=False)
    futures = tuple(data)
    if not futures:
        raise ValueError("a table without partitions has no schema")
    return Query(client, [{"verb": "futures", "keys": [f.key for f in futures]}], futures)


def sql(client: Any, text: str, **tables: Query) -> Query:
    """Return the query of a SELECT statement on tables, which are other queries by name."""
    keep = tuple(k for q in tables.values() for k in q._keep)
    step = {"verb": "sql", "text": text, "tables": {name: q._steps for name, q in tables.items()}}
    return Query(client, [step], keep)
