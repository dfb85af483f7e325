package kmeansbench

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/proc/childproc"
)

// answerVariable is what the peer answers to every fit.
const answerVariable = "KMEANSBENCH_TEST_ANSWER"

func TestMain(m *testing.M) {
	benchtest.Role(map[string]benchtest.Serve{"peer": servePeer})
	cluster.Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

func servePeer(_ context.Context, in io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		answer := os.Getenv(answerVariable)
		if c.Op == "load" {
			answer = `{"rows":1}`
		}
		if _, err := io.WriteString(out, answer+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// peer answers every fit with the same line.
func peer(answer string) benchpeer.Starter { return benchtest.Self("peer", answerVariable+"="+answer) }

// measured runs the benchmark.
func measured(t *testing.T, p benchpeer.Starter, o Options) (benchfmt.Figures, error) {
	t.Helper()
	return benchtest.Run(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, p, o, sink, nil)
	})
}

func TestRun(t *testing.T) {
	o := Options{Rows: 3000, Features: 3, K: []int{2, 4}, Types: []string{"float64"}, Iterations: 3, Rounds: 2}
	figures, err := measured(t, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2 || figures[0].Case != "k=2" || figures[1].Setting != "float64" || figures[0].Ours <= 0 ||
		figures[0].Size != 3000*3*8 {
		t.Errorf("figures %+v", figures)
	}
	// A peer that finds something else is no peer.
	o.K = []int{2}
	_, err = measured(t, peer(`{"seconds":1,"inertia":5,"counts":[1,2999]}`), o)
	if err == nil || !strings.Contains(err.Error(), "results differ") {
		t.Errorf("a peer with another result: %v", err)
	}
	if _, err := measured(t, peer(`{"error":"no module named sklearn"}`), o); err == nil ||
		!strings.Contains(err.Error(), "no module") {
		t.Errorf("a peer that fails: %v", err)
	}
}

// Workers read what was written, and so fit what scikit-learn is given.
func TestData(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for _, dtype := range Types {
		path := filepath.Join(t.TempDir(), dtype)
		if err := generate(path, dtype, 1000, 2); err != nil {
			t.Fatal(err)
		}
		o := Options{Rows: 1000, Features: 2, K: []int{3}, Iterations: 5, Workers: 2}
		if err := o.Complete(); err != nil {
			t.Fatal(err)
		}
		b, err := start(ctx, nil, o, path, dtype)
		if err != nil {
			t.Fatal(err)
		}
		batches, err := b.frame.Collect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) != 2 || batches[1].NumRows() != 500 {
			t.Fatalf("batches %v", batches)
		}
		var x float64
		switch c := batches[0].Column(1).(type) {
		case *array.Float64:
			x = c.Value(2)
		case *array.Float32:
			x = float64(c.Value(2))
		}
		if x != b.first[2][1] {
			t.Errorf("%s: the third row has %v and %v", dtype, x, b.first[2][1])
		}
		out, err := b.ours(ctx, 3)
		if err != nil || out.Counts[0]+out.Counts[1]+out.Counts[2] != 1000 {
			t.Errorf("%s: %+v, %v", dtype, out, err)
		}
		m, err := kmeans.Fit(ctx, b.frame, kmeans.Options{Init: b.first[:3], MaxIter: 5, Tol: -1})
		if err != nil || m.Inertia != out.Inertia {
			t.Errorf("%s: %+v, %v", dtype, m, err)
		}
		if _, err := frame.Of(ctx, b.client, b.frame.Partitions()); err != nil {
			t.Error(err)
		}
		b.stop()
	}
}

func TestOptions(t *testing.T) {
	for text, o := range map[string]Options{
		"unknown type":                        {Types: []string{"int8"}},
		"groups":                              {K: []int{5000}, Rows: 100},
		"rounds must be positive, not -1":     {Rounds: -1},
		"iterations must be positive, not -1": {Iterations: -1},
	} {
		if err := o.Complete(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	p := Plot([]benchfmt.Figure{{Case: "k=8", Setting: "float64", Ours: 1, Peer: PeerName, Theirs: 2},
		{Case: "k=16", Setting: "float64", Ours: 2}, {Case: "odd"}})
	if len(p.Series) != 2 || len(p.Series[0].Points) != 2 || p.Series[1].Name != "sklearn float64" {
		t.Errorf("plot %+v", p)
	}
}

func TestAgree(t *testing.T) {
	a := outcome{Inertia: 100, Counts: []int64{500, 500}}
	for _, tc := range []struct {
		b     outcome
		dtype string
		ok    bool
	}{
		{outcome{Inertia: 100.00001, Counts: []int64{500, 500}}, "float64", true},
		{outcome{Inertia: 100.1, Counts: []int64{500, 500}}, "float64", false},
		{outcome{Inertia: 100, Counts: []int64{499, 501}}, "float64", false},
		{outcome{Inertia: 100, Counts: []int64{500, 500, 0}}, "float64", false},
		{outcome{Inertia: 100, Counts: []int64{499, 501}}, "float32", true},
	} {
		rows := 2000
		if err := agree(a, tc.b, tc.dtype, rows); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.b, err)
		}
	}
}

// The GPU is required, excluded, or used if there is one.
func TestDevice(t *testing.T) {
	none := cuda.Available() != nil
	for device, want := range map[Devices]bool{DeviceAuto: !none, DeviceOff: false, DeviceOn: !none} {
		o := Options{Device: device}
		if err := o.Complete(); err != nil {
			t.Fatal(err)
		}
		if got, err := o.gpu(); got != want || (err != nil) != (device == DeviceOn && none) {
			t.Errorf("%s: %t, %v", device, got, err)
		}
	}
	o := Options{Device: "perhaps"}
	if err := o.Complete(); err == nil || !strings.Contains(err.Error(), "perhaps") {
		t.Errorf("another word: %v", err)
	}
	p := Plot([]benchfmt.Figure{{Case: "k=8", Setting: "float64", Ours: 1},
		{Case: "k=8", Setting: "float64", Mode: GPUMode, Ours: 0.1, Peer: HostName, Theirs: 1}})
	if len(p.Series) != 2 || p.Series[1].Name != "millstream GPU float64" {
		t.Errorf("plot %+v", p)
	}
	a := outcome{Inertia: 100, Counts: []int64{5000, 5000}}
	if err := agreeGPU(a, outcome{Inertia: 100.00001, Counts: []int64{4998, 5002}}, "float32", 10000); err != nil {
		t.Error(err)
	}
	if agreeGPU(a, outcome{Inertia: 100.1, Counts: []int64{5000, 5000}}, "float32", 10000) == nil ||
		agreeGPU(a, outcome{Inertia: 100, Counts: []int64{4900, 5100}}, "float64", 10000) == nil {
		t.Error("results that are apart are taken for the same")
	}
}
