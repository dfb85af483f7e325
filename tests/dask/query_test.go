package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/worker"
)

// queries is a Python program that uses every verb of millstream.frame and compares the results with pandas.
const queries = `
import datetime, decimal, math, os, tempfile
import pandas, pyarrow
import millstream.frame as mf
from millstream.frame import col

millstream.install(client)
people = pyarrow.table({"id": range(100), "dept": [i % 7 if i % 10 else None for i in range(100)],
    "name": [f"n{i % 13}" for i in range(100)], "pay": [i * 1.5 for i in range(100)],
    "day": [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(100)]})
depts = pyarrow.table({"dept": [0, 1, 2, 9], "name": ["a", "b", "c", "z"]})
df = people.to_pandas()
p = mf.table(client, people)
d = mf.table(client, depts)
folder = tempfile.mkdtemp()

def rows(q, *names):
    t = q.collect()
    return sorted((tuple(r[n] for n in names or t.column_names) for r in t.to_pylist()), key=repr)

check("schema", p.schema.names, ["id", "dept", "name", "pay", "day"])
check("collect", p.collect().num_rows, 100)
check("filter", rows(p.filter(col("id") < 3, col("name") != "n1"), "id"), [(0,), (2,)])
check("conditions", p.filter((col("dept").is_null() | col("dept").isin([1, 2])) & ~col("name").starts_with("n1")).count(),
    int(((df.dept.isna() | df.dept.isin([1, 2])) & ~df.name.str.startswith("n1")).sum()))
check("select", rows(p.select("id", (col("pay") * 2).alias("twice"), half=col("pay") / 2).filter(col("id") == 3)),
    [(3, 9.0, 2.25)])
check("with_columns", p.with_columns(id=col("id") + 1, big=mf.when(col("pay") > 50, "yes", "no")).schema.names,
    ["id", "dept", "name", "pay", "day", "big"])
check("drop, rename", p.drop("day", "pay").rename({"id": "i", "name": "n"}).schema.names, ["i", "dept", "n"])
want = df.groupby("dept", dropna=False).pay.agg(["sum", "count", "mean", "min", "max"]).reset_index()
got = p.group_by("dept").agg(mf.sum("pay").alias("s"), n=mf.count("pay"), m=mf.mean("pay"), lo=mf.min("pay"), hi=mf.max("pay"))
check("group_by", rows(got), sorted(((None if math.isnan(k) else int(k), *r) for k, *r in want.itertuples(index=False)), key=repr))
check("agg", rows(p.agg(n=mf.count(), names=mf.nunique("name"), q=mf.quantile("pay", 0.5), v=mf.var("pay"))),
    [(100, 13, df.pay.quantile(0.5), df.pay.var())])
check("join", rows(p.join(d, on="dept").select("id", "name_right")), sorted([(int(i), n) for i, n in
    df.merge(depts.to_pandas(), on="dept")[["id", "name_y"]].itertuples(index=False)], key=repr))
known = int(df.dept.isin([0, 1, 2, 9]).sum())
check("join kinds", {how: p.join(d, on="dept", how=how).count() for how in ["inner", "left", "right", "full", "semi", "anti"]},
    {"inner": known, "left": 100, "right": known + 1, "full": 101, "semi": known, "anti": 100 - known})
check("join expressions", p.join(d, left_on=col("dept") + 1, right_on="dept", suffix="_d").schema.names,
    ["id", "dept", "name", "pay", "day", "dept_d", "name_d"])
check("cross", p.join(d, how="cross").count(), 400)
check("sort", [r["id"] for r in p.sort(mf.desc("dept", nulls_first=True), "id").limit(12).collect().to_pylist()],
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 6, 13])
check("top", p.top(3, mf.desc("pay")).collect()["id"].to_pylist(), [99, 98, 97])
check("distinct", p.select("name").distinct().count(), 13)
check("union", p.union(p, p.limit(5)).count(), 205)
check("offset, head", [p.sort("id").offset(95).head(3)["id"].to_pylist(), p.sort("id").head()["id"].to_pylist()],
    [[95, 96, 97], [0, 1, 2, 3, 4]])
check("sample", p.sample(0.5, seed=3).count(), lambda n: 20 < n < 80)
check("describe", p.describe().collect().num_rows, 5)
check("constants", p.filter(col("day") >= datetime.date(2020, 3, 1), col("pay") < decimal.Decimal("120.5"),
    col("pay") != float("nan"), col("name") != None).count(), 0)
check("dates", rows(p.filter(col("day") < datetime.date(2020, 1, 3)).select(y=col("day").year(), m=col("day").truncate("month"),
    c=col("id").cast(pyarrow.string()))), [(2020, datetime.date(2020, 1, 1), "0"), (2020, datetime.date(2020, 1, 1), "1")])
q = mf.sql(client, "select d.name, count(*) as n from p join d using (dept) group by d.name order by n desc, 1", p=p, d=d)
check("sql", [tuple(r.values()) for r in q.collect().to_pylist()], sorted(
    [(n, int((df.dept == k).sum())) for k, n in [(0, "a"), (1, "b"), (2, "c")]], key=lambda r: (-r[1], r[0])))
check("sql of one", p.sql("select sum(id) as s from self").collect()["s"].to_pylist(), [4950])
check("explain", p.filter(col("id") > 1).select("id").explain(), lambda text: "Filter id > 1" in text)
check("explain run", p.filter(col("id") > 97).explain(run=True), lambda text: "2 rows" in text)
for kind, write in {"parquet": p.write_parquet, "csv": p.write_csv, "ndjson": p.write_ndjson, "ipc": p.write_ipc}.items():
    paths = write(os.path.join(folder, kind))
    check(kind, all(os.path.exists(path) for path in paths) and len(paths) > 0, True)
    back = mf.scan(client, os.path.join(folder, kind), format=kind, schema=p.schema if kind in ("csv", "ndjson") else None)
    check("scan " + kind, rows(back), rows(p))
raises("exists", RuntimeError, lambda: p.write_parquet(os.path.join(folder, "parquet")), "exists")
check("overwrite", len(p.limit(1).write_parquet(os.path.join(folder, "parquet"), overwrite=True, compression="zstd")), 1)
check("pandas", mf.scan(client, os.path.join(folder, "csv") + "/*.csv").to_pandas().id.sum(), 4950)
kept = p.filter(col("id") > 10).persist()
check("persist", kept.count(), 89)
check("futures", sum(b.num_rows for b in client.gather(kept.compute())), 89)
check("left", client.list_datasets(), ())
raises("no column", RuntimeError, lambda: p.filter(col("prize") > 1).collect(), 'no column "prize"')
raises("types", RuntimeError, lambda: p.filter(col("name") + 1 > 2).schema, "name")
raises("no file", RuntimeError, lambda: mf.scan(client, folder + "/missing.parquet").schema, "missing.parquet")
raises("statement", RuntimeError, lambda: mf.sql(client, "select * from nothing", p=p).schema, "no table nothing")
raises("kind", RuntimeError, lambda: p.join(d, on="dept", how="outer").count(), 'join of kind "outer"')
raises("truth", TypeError, lambda: p.filter(col("id") > 1 and col("id") < 5), "no truth value")
raises("aggregate", TypeError, lambda: p.agg(col("id")), "no aggregate")
raises("constant", TypeError, lambda: col("id") == [1], "no constant")
raises("empty", ValueError, lambda: mf.table(client, []), "no schema")
`

// TestQueries: Python clients build and run queries on Go workers of both schedulers; with Python workers, results
// become Dask DataFrames.
func TestQueries(t *testing.T) {
	t.Run("millstream", func(t *testing.T) {
		r := rig.New(t)
		s := r.Scheduler()
		r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-0"})
		r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-1"})
		r.Script(s.Address, queries)
	})
	t.Run("dask", func(t *testing.T) {
		r := rig.New(t)
		s := r.DaskScheduler()
		r.DaskWorker(s.Address, "--name", "python", "--nthreads", "1")
		r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-0"})
		r.Script(s.Address, queries+`
whole = p.filter(col("id") < 50).to_dask_dataframe()
check("dask", [int(whole.id.sum().compute()), list(whole.columns)], [1225, ["id", "dept", "name", "pay", "day"]])
`)
	})
}
