package sql

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/bench/tpch"
	"go.millstream.dev/internal/testkit/duckdb"
	"go.millstream.dev/internal/testkit/leak"
)

// processes starts a cluster of two workers with 2 GiB each in processes of their own, and a client of it.
func processes(t *testing.T) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 2, Threads: 1, MemoryLimit: 2 << 30, DataConnections: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := lc.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

// TestTPCHParquet compares the answers to the 22 queries of TPC-H from Parquet files, which frames, DuckDB and pyarrow
// have written, with those of DuckDB.
func TestTPCHParquet(t *testing.T) {
	const factor = 0.01
	leak.Check(t)
	ctx, c := processes(t)
	db := duckdb.Start(t)
	scale := tpch.NewScale(factor)
	for _, name := range tpch.Names {
		db.Table(name, parts(scale, name)...)
	}
	dir := t.TempDir()
	// Each writer puts every table into a folder of its own.
	writers := map[string]func(t *testing.T, name, dir string){
		"frame": func(t *testing.T, name, dir string) {
			f, err := frame.FromBatches(ctx, c, parts(scale, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Release()
			// Row groups of 256 KiB, so that large tables have several splits.
			if _, err := f.WriteParquet(ctx, dir, frame.ParquetWriteOptions{RowGroup: 256 << 10}); err != nil {
				t.Fatal(err)
			}
		},
		"duckdb": func(t *testing.T, name, dir string) {
			db.Exec(fmt.Sprintf("COPY %s TO '%s/%s.parquet' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 8192)",
				name, dir, name))
		},
		"pyarrow": func(t *testing.T, name, dir string) {
			const program = `import sys, pyarrow.parquet as p
p.write_table(p.read_table(sys.argv[1]), sys.argv[2], row_group_size=10000, data_page_version="2.0", compression="gzip")`
			cmd := exec.Command(os.Getenv("MILLSTREAM_DUCKDB"), "-c", program,
				filepath.Join(filepath.Dir(filepath.Dir(dir)), "duckdb", name), filepath.Join(dir, name+".parquet"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("pyarrow: %v: %s", err, out)
			}
		},
	}
	answers := map[int]duckdb.Rows{}
	for n := 1; n <= tpch.Queries; n++ {
		answers[n] = db.Query(tpch.Query(n, factor))
	}
	for _, writer := range []string{"frame", "duckdb", "pyarrow"} {
		tables := map[string]*frame.Query{}
		for _, name := range tpch.Names {
			to := filepath.Join(dir, writer, name)
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			writers[writer](t, name, to)
			tables[name] = frame.ScanParquet(ctx, c, to, frame.ParquetOptions{Split: 512 << 10})
			schema, err := tables[name].Schema()
			if err != nil {
				t.Fatal(err)
			}
			if want := tpch.Schema(name); schema.NumFields() != want.NumFields() {
				t.Fatalf("%s of %s: got %d columns, want %d", name, writer, schema.NumFields(), want.NumFields())
			}
		}
		for n := 1; n <= tpch.Queries; n++ {
			t.Run(fmt.Sprintf("%s/q%02d", writer, n), func(t *testing.T) {
				got, err := answer(ctx, c, tpch.Query(n, factor), tables)
				if err != nil {
					t.Fatal(err)
				}
				if diff := duckdb.Diff(got, answers[n]); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// parts returns a table in three parts.
func parts(scale tpch.Scale, name string) []arrow.RecordBatch {
	n := scale.Units(name)
	part := n/3 + 1
	var out []arrow.RecordBatch
	for from := int64(0); from < n; from += part {
		out = append(out, scale.Batch(name, from, from+part))
	}
	return out
}
