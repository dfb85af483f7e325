package ucxbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/proc/stdio"
)

// childVariable turns the test binary into a child of a pair.
const childVariable = "MILLSTREAM_TEST_BENCH_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := Serve(context.Background(), os.Stdin, stdio.Claim(), NewSide()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testStarter() Starter {
	return Starter{Path: "/proc/self/exe", Args: os.Args[:1], Environ: append(os.Environ(), childVariable+"=1")}
}

func startTestPair(t *testing.T, setting string, args OpenArgs) *Pair {
	t.Helper()
	env, err := SettingEnv(setting, MemHeap)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p, err := StartPair(ctx, testStarter(), env, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Every case runs and verifies its payload with every kind of host memory and
// sizes on both sides of the copy, eager and rendezvous limits.
func TestEveryCase(t *testing.T) {
	for _, setting := range []string{"shm", "tcp"} {
		for _, endpoint := range EndpointNames {
			if setting == "shm" && endpoint == EndpointSockaddr {
				continue
			}
			t.Run(setting+"/"+endpoint, func(t *testing.T) {
				p := startTestPair(t, setting, OpenArgs{Mode: "adaptive", Endpoint: endpoint, Device: -1})
				if name := p.Transport(MemHeap); (name == "tcp") != (setting == "tcp") || name == "" {
					t.Errorf("got transports %v", p.Transports)
				}
				for _, c := range Cases() {
					for _, memory := range []string{MemHeap, MemBuffer} {
						for _, size := range []int64{8, 1 << 10, 100_000} {
							if skip(c, setting, memory, endpoint) || c.Kind == Rate && size > 8 {
								continue
							}
							t.Run(fmt.Sprintf("%s/%s/%d", c.Name, memory, size), func(t *testing.T) {
								ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
								defer cancel()
								spec := Spec{Case: c.Name, Size: size, Mem: memory, Iterations: 40, Warmup: 3,
									Window: 8, Goroutines: 4, Seconds: 0.05, Seed: 11}
								s, err := p.Run(ctx, spec)
								if err != nil {
									t.Fatal(err)
								}
								if _, err := value(Job{Case: c, Size: size}, s); err != nil {
									t.Error(err)
								}
							})
						}
					}
				}
			})
		}
	}
}

// A payload that is not what was sent must be found: the sides are given
// different seeds.
func TestWrongPayloadIsFound(t *testing.T) {
	p := startTestPair(t, "tcp", OpenArgs{Mode: "adaptive", Endpoint: EndpointLifeline, Device: -1})
	spec := Spec{Case: "tag-bw", Size: 64, Mem: MemHeap, Iterations: 40, Warmup: 3, Window: 8, Goroutines: 1, Seed: 11}
	other := spec
	other.Seed = 12345
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := both(
		func() error { return p.server.call(ctx, "run", spec, nil) },
		func() error { return p.client.call(ctx, "run", other, nil) },
	)
	if err == nil || !strings.Contains(err.Error(), "payload of 512 bytes differs at byte 0") {
		t.Errorf("error %v", err)
	}
}

func TestPairErrors(t *testing.T) {
	p := startTestPair(t, "tcp", OpenArgs{Mode: "spin", Endpoint: EndpointLifeline, Device: -1})
	if p.PIDs[0] == p.PIDs[1] || p.PIDs[0] == os.Getpid() || p.Version == "" || p.Library == "" {
		t.Errorf("%+v", p)
	}
	for want, spec := range map[string]Spec{
		`unknown case "x"`:      {Case: "x"},
		"without iterations":    {Case: "tag-lat", Window: 1, Goroutines: 1},
		`unknown memory "x"`:    {Case: "tag-lat", Mem: "x", Iterations: 1, Window: 1, Goroutines: 1},
		"without a device":      {Case: "tag-lat", Mem: MemCUDA, Iterations: 1, Window: 1, Goroutines: 1},
		"unknown verb \"sing\"": {Case: "verb"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var err error
		if spec.Case == "verb" {
			err = p.client.call(ctx, "sing", nil, nil)
		} else {
			_, err = p.Run(ctx, spec)
		}
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}

func TestTransport(t *testing.T) {
	for _, tc := range []struct {
		transports   []string
		memory, want string
	}{
		{nil, MemHeap, ""},
		{[]string{"sysv/memory", "cuda_ipc/cuda"}, MemHeap, "sysv"},
		{[]string{"sysv/memory", "posix/memory", "cuda_ipc/cuda"}, MemCUDA, "cuda_ipc"},
		{[]string{"tcp/lo"}, MemCUDA, "tcp"},
	} {
		if got := (&Pair{Transports: tc.transports}).Transport(tc.memory); got != tc.want {
			t.Errorf("%v %s: %q", tc.transports, tc.memory, got)
		}
	}
}

func TestStartPairErrors(t *testing.T) {
	for want, tc := range map[string]struct {
		env  []string
		args OpenArgs
	}{
		`unknown mode "x"`:     {nil, OpenArgs{Mode: "x", Endpoint: EndpointLifeline}},
		`unknown endpoint "x"`: {nil, OpenArgs{Mode: "spin", Endpoint: "x"}},
		"/nowhere/libucp.so.0": {[]string{"MILLSTREAM_UCX_LIBRARY=/nowhere/libucp.so.0"},
			OpenArgs{Mode: "spin", Endpoint: EndpointLifeline}},
		"UCX_TLS": {[]string{"UCX_TLS=nonesuch"}, OpenArgs{Mode: "spin", Endpoint: EndpointLifeline}},
	} {
		if p, err := StartPair(t.Context(), testStarter(), tc.env, tc.args); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v; want %q", tc, p, err, want)
		}
	}
	_, err := StartPair(t.Context(), testStarter(), []string{"MILLSTREAM_UCX_LIBRARY=/nowhere/libucp.so.0"},
		OpenArgs{Mode: "spin", Endpoint: EndpointLifeline})
	if !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "bench server") {
		t.Errorf("error %v", err)
	}
	missing := Starter{Path: "/nowhere/program", Args: []string{"x"}}
	if _, err := StartPair(t.Context(), missing, nil, OpenArgs{}); err == nil ||
		!strings.Contains(err.Error(), "/nowhere/program") {
		t.Errorf("error %v", err)
	}
}

// A child that exits during a measurement is an error with its last output, not a hang.
func TestDeadChild(t *testing.T) {
	p := startTestPair(t, "tcp", OpenArgs{Mode: "adaptive", Endpoint: EndpointLifeline, Device: -1})
	time.AfterFunc(200*time.Millisecond, func() { p.server.cmd.Process.Kill() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := p.Run(ctx, Spec{Case: "tag-lat", Size: 8, Mem: MemHeap, Iterations: 1 << 30, Window: 1, Goroutines: 1})
	if err == nil || ctx.Err() != nil {
		t.Errorf("error %v, context %v", err, ctx.Err())
	}
}

// Closing a pair while it runs ends both processes.
func TestCloseWhileRunning(t *testing.T) {
	p := startTestPair(t, "tcp", OpenArgs{Mode: "spin", Endpoint: EndpointLifeline, Device: -1})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx, Spec{Case: "tag-lat", Size: 8, Mem: MemHeap, Iterations: 1 << 30, Window: 1,
			Goroutines: 1})
		done <- err
	}()
	time.Sleep(200 * time.Millisecond)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	begin := time.Now()
	p.Close()
	if d := time.Since(begin); d > 2*closeGrace+2*time.Second {
		t.Errorf("closing took %v", d)
	}
	for _, pid := range p.PIDs {
		if exe, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(pid), "exe")); err == nil {
			t.Errorf("process %d (%s) still runs", pid, exe)
		}
	}
}

// Run puts a whole benchmark together: groups, rounds, peers, figures.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	o := Options{
		Cases: []string{"tag-lat", "tag-rate"}, Settings: []string{"tcp", "auto"}, Modes: []string{"adaptive"},
		Mems:  []string{MemHeap},
		Sizes: []int64{8}, Peers: []string{"ucx_perftest", PeerModeNone}, Rounds: 2, RoundTime: 2 * time.Millisecond,
		Goroutines: 4,
	}
	if err := Run(t.Context(), testStarter(), o, benchfmt.NewJSONWriter(&out), nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var f map[string]any
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(f["setting"], " ", f["case"], " ", f["peer"]))
		if f["transport"] == "" || f["mode"] != "adaptive" {
			t.Errorf("figure %v", f)
		}
	}
	want := []string{
		"tcp tag-lat ucx_perftest", "tcp tag-lat error-mode-none", "tcp tag-rate ucx_perftest",
		"tcp tag-rate error-mode-none", "tcp tag-rate-allocs <nil>",
		"auto tag-lat ucx_perftest", "auto tag-lat error-mode-none", "auto tag-rate ucx_perftest",
		"auto tag-rate error-mode-none", "auto tag-rate-allocs <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("figures\n%q, want\n%q", got, want)
	}
}

// What fails is named at the end, and what works is still reported.
func TestRunReportsFailures(t *testing.T) {
	var out bytes.Buffer
	o := Options{Cases: []string{"tag-lat"}, Settings: []string{"tcp"}, Mems: []string{MemCUDA, MemHeap},
		Sizes: []int64{8}, Rounds: 1, RoundTime: time.Millisecond, Device: 4096}
	err := Run(t.Context(), testStarter(), o, benchfmt.NewJSONWriter(&out), nil)
	if err == nil || !strings.Contains(err.Error(), "tag-lat tcp spin cuda 8 B") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(out.String(), `"mem":"heap"`) {
		t.Errorf("figures %q", out.String())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if err := Run(ctx, testStarter(), o, benchfmt.NewJSONWriter(&out), nil); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}
