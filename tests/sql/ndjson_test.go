package sql

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/testkit/duckdb"
	"go.millstream.dev/internal/testkit/leak"
)

// TestNDJSON compares queries of NDJSON files with those of DuckDB: random types, nulls and missing fields.
func TestNDJSON(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t)
	db := duckdb.Start(t)
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	values := map[string]func() string{
		"i": func() string { return fmt.Sprint(r.Int64N(9) - 4) },
		"f": func() string { return fmt.Sprintf("%.3f", r.Float64()*100) },
		"m": func() string { return []string{"1", "2.5", "-3e2"}[r.IntN(3)] },
		"b": func() string { return []string{"true", "false"}[r.IntN(2)] },
		"s": func() string { return []string{`""`, `"a b"`, `"\u00e9\n"`, `"\"q\""`, `"x1"`}[r.IntN(5)] },
	}
	for file := range 3 {
		var text strings.Builder
		for range 200 {
			var fields []string
			for _, name := range []string{"i", "f", "m", "b", "s"} {
				switch r.IntN(10) {
				case 0:
				case 1:
					fields = append(fields, fmt.Sprintf("%q: null", name))
				default:
					fields = append(fields, fmt.Sprintf("%q: %s", name, values[name]()))
				}
			}
			r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
			fmt.Fprintf(&text, "{%s}\n", strings.Join(fields, ", "))
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.ndjson", file))
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(fmt.Sprintf("CREATE VIEW t AS SELECT * FROM read_json_auto('%s/*.ndjson', format='newline_delimited')",
		dir))
	tables := map[string]*frame.Query{"t": frame.ScanNDJSON(ctx, c, dir, frame.NDJSONOptions{Block: 3000})}
	for _, text := range []string{
		"select i, f, m, b, s from t", "select count(*), count(i), sum(i), sum(f), min(m), max(m) from t",
		"select s, b, count(*), avg(f) from t group by s, b", "select length(s), i from t where b and i > 1",
		"select x.i, y.s from t x join t y on x.i = y.i and x.s = y.s where x.f < 20",
	} {
		want := db.Query(text)
		got, err := answer(ctx, c, text, tables)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := duckdb.Diff(got.Sorted(), want.Sorted()); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
}
