package poolbench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

func TestMain(m *testing.M) {
	benchtest.Role(map[string]benchtest.Serve{"pool": Serve})
	os.Exit(m.Run())
}

// peers answers for Python's process: a millisecond an operation.
func peers(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, "sh", "-c", `while read l; do
		n=$(echo "$l" | sed 's/.*"iterations":\([0-9]*\).*/\1/'); echo "{\"seconds\": $n.0e-3}"; done`)
}

func run(t *testing.T, peers benchpeer.Starter, o Options) (benchfmt.Figures, error) {
	t.Helper()
	return benchtest.Run(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, benchtest.Self("pool"), peers, o, sink, benchfmt.NewProgress(io.Discard))
	})
}

// A pool of host memory makes no driver call; sizes that do not fit a round are no trouble.
func TestHostPool(t *testing.T) {
	figures, err := run(t, nil, Options{Mem: MemHost, Sizes: []int64{100, 1 << 20}, Rounds: 2,
		RoundTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 4 {
		t.Fatalf("%+v", figures)
	}
	for i, f := range figures {
		calls := i%2 == 1
		if f.Validate() != nil || f.Mem != MemHost || (f.Unit == benchfmt.UnitCalls) != calls || calls && f.Ours != 0 ||
			!calls && f.Ours <= 0 {
			t.Errorf("%+v", f)
		}
		if met, known := f.Met(); calls && (!met || !known) {
			t.Errorf("%+v", f)
		}
	}
	if figures[0].Bar != nil || figures[2].Bar == nil {
		t.Error("the bar is one of 1 MiB")
	}
}

// Every peer has a figure with a ratio.
func TestReport(t *testing.T) {
	list := []*contestant{{command: command{Case: CaseAlloc, Mem: MemCUDA, Size: 1 << 20}}}
	for _, name := range PeerNames {
		list = append(list, &contestant{command: command{Peer: name}})
	}
	for i, c := range list {
		c.rounds.Better = benchfmt.Lower
		c.rounds.Add(float64(i+1) / 10)
	}
	var figures benchfmt.Figures
	if err := report(list, map[string]uint64{"cuMemAlloc_v2": 3, "cuMemFree_v2": 1}, 2, &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 4 {
		t.Fatalf("%+v", figures)
	}
	for i, f := range figures[:3] {
		if r, ok := f.Ratio(); !ok || f.Peer != PeerNames[i] || r >= 1 {
			t.Errorf("%+v", f)
		}
	}
	if f := figures[3]; f.Ours != 2 || f.Peer != "" {
		t.Errorf("driver calls per operation: %+v", f)
	} else if met, _ := f.Met(); met {
		t.Error("calls of the driver meet the bar of none")
	}
}

// A round of a peer is as long as ours, however slow the peer is.
func TestContestants(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := benchpeer.StartLines(ctx, peers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	c := &contestant{process: p, command: command{Peer: "rmm-pool", Iterations: 70}}
	if a, err := c.round(ctx); err != nil || a.Seconds != 0.07 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestErrors(t *testing.T) {
	for want, o := range map[string]Options{
		`unknown case "x"; want one of alloc-free`: {Cases: []string{"x"}},
		`unknown memory "gpu"; want one of host`:   {Mem: "gpu"},
		"must be positive":                         {Rounds: -1},
		"size 0 B: want 1 B to 1 GiB":              {Sizes: []int64{0}},
	} {
		if err := o.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if cuda.Available() != nil { // the error of the measured process is returned
		if _, err := run(t, nil, Options{Rounds: 1}); err == nil ||
			!strings.Contains(err.Error(), "alloc-free of 1 MiB: the pool: cuda") {
			t.Errorf("%v", err)
		}
	}
	var out bytes.Buffer
	if err := Serve(t.Context(), strings.NewReader("{\nnot json\n"+
		`{"case":"alloc-free-on-stream","mem":"host","size":1,"iterations":1}`+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var a struct{ Error string }
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Error == "" || i == 2 &&
			!strings.Contains(a.Error, "no streams") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
