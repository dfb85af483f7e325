package cli

import (
	"slices"
	"testing"
)

// The demo's functions, without a cluster, find what the rows say.
func TestDemoTasks(t *testing.T) {
	const parts, rows, buckets = 3, 1000, 4
	want, bytes := demoExpected(parts, rows)
	var columns [buckets][][]int32
	for p := range parts {
		text, err := generateLog(t.Context(), p, rows)
		if err != nil {
			t.Fatal(err)
		}
		bytes -= int64(len(text))
		parsed, err := parseLog(t.Context(), text)
		if err != nil || len(parsed) != 2*rows {
			t.Fatalf("%d numbers, %v", len(parsed), err)
		}
		for j := range buckets {
			b, err := bucketRows(t.Context(), parsed, j, buckets)
			if err != nil {
				t.Fatal(err)
			}
			columns[j] = append(columns[j], b)
		}
	}
	var totals [][]int64
	for _, c := range columns {
		a, err := aggregateRows(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		totals = append(totals, a)
	}
	got, err := combineTotals(t.Context(), totals)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d totals, %v, want %d", len(got), err, len(want))
	}
	if bytes != 0 {
		t.Errorf("the texts are %d bytes shorter than they should be", bytes)
	}
}

func TestDemoBadLog(t *testing.T) {
	for _, text := range []string{"no end", "2026 host-1 GET /x 200 x\n", "nothing\n", "\n"} {
		if rows, err := parseLog(t.Context(), []byte(text)); err == nil {
			t.Errorf("%q: %v", text, rows)
		}
	}
	if _, err := aggregateRows(t.Context(), [][]int32{{demoHosts, 1}}); err == nil {
		t.Error("a host that does not exist has totals")
	}
}
