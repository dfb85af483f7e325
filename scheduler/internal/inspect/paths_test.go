package inspect

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"go.millstream.dev/internal/comm/flow"
	"go.millstream.dev/internal/dashboard"
)

// Pairs over a slow connection have the sentence of doctor; each worker is asked once.
func TestPaths(t *testing.T) {
	var asked atomic.Int64
	describe := func(_ context.Context, address string) flow.Member {
		asked.Add(1)
		m := flow.Member{Name: address, Address: address, Boot: "x", IPC: "i", PID: "p",
			DataAddresses: []string{"ucxx://a"}}
		switch address {
		case "client":
			return flow.Member{}
		case "plain":
			m.DataAddresses = nil
		case "python":
			m.Silent = "it is not a Millstream worker"
		}
		return m
	}
	pairs := []dashboard.Pair{
		{From: "a", To: "b", Transport: "cma", Scheme: "tls"},
		{From: "a", To: "b", Transport: "tls", Scheme: "tls"},
		{From: "a", To: "plain", Transport: "tcp", Scheme: "tcp"},
		{From: "a", To: "python", Transport: "tcp", Scheme: "tcp"},
		{From: "a", To: "client", Transport: "tls", Scheme: "tls"},
		{From: "a", To: "b", Transport: "tcp", Scheme: "ucxx"},
		{From: "a", To: "b", Transport: "ucxx", Scheme: "ucxx"},
	}
	want := []string{"", "did not use them", "plain was started without data connections", "python did not describe",
		"", "no shared memory", ""}
	var p paths
	for range 2 {
		for i := range pairs {
			pairs[i].Reason = ""
		}
		p.explain(t.Context(), describe, pairs)
		for i, x := range pairs {
			if (x.Reason == "") != (want[i] == "") || !strings.Contains(x.Reason, want[i]) {
				t.Errorf("pair %d, %s to %s over %s: got %q, want %q", i, x.From, x.To, x.Transport, x.Reason, want[i])
			}
		}
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("questions: got %d, want 5", n)
	}
}

// Only some workers are asked for one page.
func TestPathsBounded(t *testing.T) {
	var pairs []dashboard.Pair
	for i := range 3 * describeMost {
		pairs = append(pairs, dashboard.Pair{From: string(rune('A' + i)), To: string(rune('a' + i)), Transport: "tcp"})
	}
	var asked atomic.Int64
	var p paths
	p.explain(t.Context(), func(context.Context, string) flow.Member {
		asked.Add(1)
		return flow.Member{}
	}, pairs)
	if n := asked.Load(); n != describeMost {
		t.Errorf("questions: got %d, want %d", n, describeMost)
	}
}

// A worker that does not answer, and an address that is none, are described as far as possible.
func TestDescribeWorker(t *testing.T) {
	r := start(t)
	s := &source{Inspector: r.Inspector}
	if m := s.describeWorker(t.Context(), "tcp://other"); m.Name != "" {
		t.Errorf("stranger: got %+v, want none", m)
	}
	if m := s.describeWorker(t.Context(), "tcp://w"); m.Name != "w" || !strings.Contains(m.Silent, "not a Millstream") {
		t.Errorf("Dask worker: got %+v, want it to be silent", m)
	}
}
