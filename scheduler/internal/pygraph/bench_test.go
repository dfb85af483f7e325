package pygraph

import (
	"fmt"
	"testing"

	"go.millstream.dev/internal/wire/pickle"
)

// BenchmarkMap splits client.map(f, range(n)) of a function of __main__; ns/task is the time per element.
func BenchmarkMap(b *testing.B) {
	future := func(i int) pickle.Value {
		return pickle.Call(pickle.Global{Module: "distributed.client", Name: "Future"}, fmt.Sprintf("load-%032x", i))
	}
	for name, row := range map[string]func(i int) pickle.Value{
		"ints":    func(i int) pickle.Value { return int64(i) },
		"lists":   func(i int) pickle.Value { return &pickle.List{Items: []pickle.Value{int64(i), "text"}} },
		"futures": future,
	} {
		b.Run(name, func(b *testing.B) {
			const n = 20_000
			keys, rows := make([]pickle.Value, n), &pickle.List{Items: make([]pickle.Value, n)}
			for i := range n {
				keys[i], rows.Items[i] = fmt.Sprintf("inc-%032x", i), row(i)
			}
			e := dumped(b, mapOf(function(b), pickle.Tuple{rows}, new(pickle.Dict), keys...))
			b.ReportAllocs()
			var own, shared int
			for b.Loop() {
				g, ok, err := Split(e, nil, Limits{})
				if !ok || err != nil || len(g.Nodes) != n {
					b.Fatal(ok, err)
				}
				own, shared = len(g.Nodes[n-1].Spec.Own), len(g.Nodes[n-1].Spec.Shared)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/task")
			b.ReportMetric(float64(own), "own-B")
			b.ReportMetric(float64(shared), "shared-B")
		})
	}
}

// BenchmarkSubmit splits client.submit of a lambda.
func BenchmarkSubmit(b *testing.B) {
	s := seedNamed(b, "submit lambda")
	e, keys := expr(s.Frames...), s.keys()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := Split(e, keys, Limits{}); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
