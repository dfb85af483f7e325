package stagebench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
)

// roleVariable makes the test binary a process of a pair.
const roleVariable = "MILLSTREAM_STAGEBENCH_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout, fakeMemory); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
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

func self(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=peer")
	return cmd
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := Options{Sizes: []int64{1000, 9 << 20}, Settings: []string{"tcp"}, Rounds: 2, RoundTime: time.Millisecond,
		Lines: 3}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	var figures benchfmt.Figures
	ucx := &slowUCX{}
	if err := Run(ctx, Programs{Go: self, UCX: ucx}, o, &figures, benchfmt.NewProgress(os.Stderr)); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2*2*2 {
		t.Fatalf("%d figures", len(figures))
	}
	for _, f := range figures {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
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
			t.Errorf("UCX was asked for %+v", r)
		}
	}
}

func TestRunWithoutPeer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := Options{Cases: []string{"window"}, Sizes: []int64{100_000}, Settings: []string{"tcp"}, Rounds: 1,
		RoundTime: time.Millisecond}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	var figures benchfmt.Figures
	if err := Run(ctx, Programs{Go: self}, o, &figures, benchfmt.NewProgress(os.Stderr)); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 1 || figures[0].Peer != "" || figures[0].Ours <= 0 {
		t.Errorf("%+v", figures)
	}
	broken := errors.New("no such program")
	if err := Run(ctx, Programs{Go: self, UCX: &slowUCX{err: broken}}, o, &figures,
		benchfmt.NewProgress(os.Stderr)); !errors.Is(err, broken) {
		t.Errorf("a peer that fails: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Cases: []string{"none"}}, {Settings: []string{"ipc"}}, {Rounds: -1},
		{Sizes: []int64{0}}, {Device: -1}} {
		if err := o.Complete(); err == nil {
			t.Errorf("%+v is good", o)
		}
	}
	var o Options
	if err := o.Complete(); err != nil || len(o.Cases) != 2 || len(o.Settings) != 2 || len(o.Sizes) != 2 ||
		o.Rounds == 0 {
		t.Errorf("%+v, %v", o, err)
	}
}
