package taskbench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/worker"
)

// The time of several transfers is that in which at least one ran, in any order of records.
func TestTimeOf(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(begin, took time.Duration) worker.Transfer {
		return worker.Transfer{Start: start.Add(begin), Duration: took.Seconds()}
	}
	for _, tc := range []struct {
		moved []worker.Transfer
		want  time.Duration
	}{
		{[]worker.Transfer{at(0, 5)}, 5},
		{[]worker.Transfer{at(0, time.Second), at(2*time.Second, time.Second)}, 2 * time.Second},
		{[]worker.Transfer{at(2*time.Second, time.Second), at(time.Second, 5*time.Second)}, 5 * time.Second},
		{[]worker.Transfer{at(2*time.Second, 3*time.Second), at(0, 4*time.Second), at(7*time.Second, time.Second)},
			6 * time.Second},
	} {
		if got := timeOf(tc.moved); got != tc.want {
			t.Errorf("%v: %v", tc.moved, got)
		}
	}
	if got := transportOf(worker.Transfer{Scheme: "ucxx", Transports: []string{"cuda_copy",
		"cuda_ipc"}}); got != "cuda_ipc" {
		t.Error(got)
	}
	if got := transportOf(worker.Transfer{Scheme: "tls"}); got != "tls" {
		t.Error(got)
	}
}

// device-fetch and device-spill run when they are named, not among all: most machines have no GPU.
func TestDeviceCaseByName(t *testing.T) {
	var o Options
	if err := o.Complete(); err != nil || slices.Contains(o.Cases, deviceFetch) ||
		slices.Contains(o.Cases, deviceSpill) {
		t.Errorf("%v, %v", o.Cases, err)
	}
	o = Options{Cases: []string{deviceFetch}, Quick: true}
	if err := o.Complete(); err != nil || o.DeviceFetches != 5 {
		t.Errorf("%+v, %v", o, err)
	}
	if err := (&Options{Device: -1}).Complete(); err == nil {
		t.Error("GPU -1 is accepted")
	}
}

// Each shape is a figure compared with package ucx, and the last one also with UCXX.
func TestDeviceFigures(t *testing.T) {
	ours := script{"start-device": {started}, deviceFetch: {
		{Bytes: 2 << 30, Times: []float64{9, 2, 1}, Transport: "cuda_ipc"},
		{Bytes: 1 << 30, Times: []float64{1}, Transport: "cuda_ipc"},
		{Bytes: 64 << 20, Times: []float64{1}, Transport: "cuda_ipc"}}}
	o := Options{Cases: []string{deviceFetch}, Rounds: 1}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	p := Programs{Go: ours.starter(t)}
	run := func() (benchfmt.Figures, error) {
		var got benchfmt.Figures
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Run(ctx, p, o, &got, nil)
		return got, err
	}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "package ucx") {
		t.Errorf("without a program: %v", err)
	}
	p.Raw = func(_ context.Context, _ int, size int64, parts int) (float64, error) { return 2 * float64(parts), nil }
	p.Async = func(context.Context, int64) (float64, error) { return 0.5, nil }
	got, err := run()
	if err != nil {
		t.Fatal(err)
	}
	var peers []string
	for _, f := range got {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		peers = append(peers, f.Peer)
	}
	if want := []string{RawPeer, RawPeer, RawPeer, AsyncPeer}; !slices.Equal(peers, want) {
		t.Fatalf("peers of the figures: %v", peers)
	}
	if f := got[0]; f.Transport != "cuda_ipc" || f.Ours < 1.07 || f.Ours > 1.08 || f.Bar == nil || f.Bar.Value != 0.8 ||
		f.Theirs != 64 {
		t.Errorf("%+v", f) // 2 GiB in the middle one of its times
	}
	p.Raw = func(context.Context, int, int64, int) (float64, error) { return 0, errors.New("no such GPU") }
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "no such GPU") {
		t.Errorf("%v", err)
	}
	p.Go = script{"start-device": {{Error: "no driver"}}}.starter(t)
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "no driver") {
		t.Errorf("%v", err)
	}
}
