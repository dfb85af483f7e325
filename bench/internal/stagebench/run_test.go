package stagebench

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
)

func TestMain(m *testing.M) {
	benchtest.Role(map[string]benchtest.Serve{"peer": func(ctx context.Context, in io.Reader, out io.Writer) error {
		return Serve(ctx, in, out, fakeMemory)
	}})
	childproc.NoRaceSleep() // of the processes of pairs
	os.Exit(leak.Main(m))
}

// fakeMemory is that of a device without a GPU, which the comms stage for.
func fakeMemory(int) (*Memory, error) {
	d := stagetest.NewDevice(1000)
	e, err := d.Engine(staging.Unit, 0)
	if err != nil {
		return nil, err
	}
	staging.Use(d.Ordinal(), e)
	return &Memory{
		Resource: d.Memory(),
		Store:    func(_ context.Context, dst *mem.Buffer, data []byte) error { stagetest.Fill(dst, data); return nil },
		Load: func(ctx context.Context, dst []byte, src *mem.Buffer) error {
			if err := src.WaitReady(ctx); err != nil {
				return err
			}
			copy(dst, stagetest.Bytes(src))
			return nil
		},
	}, nil
}

var self = benchtest.Self("peer")

// measured runs the benchmark.
func measured(t *testing.T, p Programs, o Options) (benchfmt.Figures, error) {
	t.Helper()
	return benchtest.Run(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, p, o, sink, benchfmt.NewProgress(os.Stderr))
	})
}

// slowUCX answers as ucx_perftest would, and remembers what it was asked.
type slowUCX struct {
	runs []benchpeer.PerftestRun
	err  error
}

func (u *slowUCX) Run(_ context.Context, r benchpeer.PerftestRun) (benchpeer.PerftestResult, error) {
	u.runs = append(u.runs, r)
	speed := 100.0 // MiB/s
	if strings.Contains(strings.Join(r.Env, " "), "put_ppln") {
		speed = 200
	}
	return benchpeer.PerftestResult{OverallMiBps: speed, OverallMicros: float64(r.Size) / (speed * (1 << 20)) * 1e6},
		u.err
}

func TestRun(t *testing.T) {
	o := Options{Sizes: []int64{1000, 9 << 20}, Settings: []string{"tcp"}, Rounds: 2, RoundTime: time.Millisecond,
		Lines: 3}
	ucx := &slowUCX{}
	figures, err := measured(t, Programs{Go: self, UCX: ucx}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2*2*2 {
		t.Fatalf("%d figures", len(figures))
	}
	for _, f := range figures {
		want, bar := 100.0, barPlain
		if f.Peer == PeerTuned {
			want, bar = 200, barTuned
		}
		want = benchfmt.GBpsFromMebi(want)
		if f.Ours <= 0 || f.Theirs < want*0.999 || f.Theirs > want*1.001 || f.Bar == nil || f.Bar.Value != bar {
			t.Errorf("%+v", f)
		}
	}
	// Each cell asks for UCX as it is in each round, for all tunings once and then for the best.
	if want := 4 * (2 + len(Tunings()) + 1); len(ucx.runs) != want {
		t.Errorf("UCX was asked %d times, want %d", len(ucx.runs), want)
	}
	for _, r := range ucx.runs {
		if !strings.Contains(strings.Join(r.Env, " "), tls) || r.Memory != "cuda,cuda" || r.Iterations < 2 {
			t.Errorf("unexpected run of UCX: %+v", r)
		}
	}
}

func TestRunWithoutPeer(t *testing.T) {
	o := Options{Cases: []string{"window"}, Sizes: []int64{100_000}, Settings: []string{"tcp"}, Rounds: 1,
		RoundTime: time.Millisecond}
	figures, err := measured(t, Programs{Go: self}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 1 || figures[0].Peer != "" || figures[0].Ours <= 0 {
		t.Errorf("%+v", figures)
	}
	broken := errors.New("no such program")
	if _, err := measured(t, Programs{Go: self, UCX: &slowUCX{err: broken}}, o); !errors.Is(err, broken) {
		t.Errorf("a peer that fails: %v", err)
	}
}

func TestOptions(t *testing.T) {
	benchtest.Rejects(t, &Options{Cases: []string{"none"}}, &Options{Settings: []string{"ipc"}}, &Options{Rounds: -1},
		&Options{Sizes: []int64{0}}, &Options{Device: -1})
	var o Options
	if err := o.Complete(); err != nil || len(o.Cases) != 2 || len(o.Settings) != 2 || len(o.Sizes) != 2 ||
		o.Rounds == 0 {
		t.Errorf("%+v, %v", o, err)
	}
}
