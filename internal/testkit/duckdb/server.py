"""Runs DuckDB for Go tests: one JSON object per line in, one out. Tables and results are Arrow IPC files."""

import json
import sys

import duckdb
import pyarrow

db = duckdb.connect(config={"threads": 2})
db.execute("SET TimeZone = 'UTC'")
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "table" in request:
            with pyarrow.memory_map(request["path"]) as source:
                db.register(request["table"], pyarrow.ipc.open_file(source).read_all())
        else:
            relation = db.sql(request["sql"])
            result = relation.to_arrow_table() if relation else pyarrow.table({})
            with pyarrow.OSFile(request["path"], "wb") as sink:
                with pyarrow.ipc.new_file(sink, result.schema) as writer:
                    writer.write_table(result)
        answer = {}
    except Exception as error:  # the test prints it
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
