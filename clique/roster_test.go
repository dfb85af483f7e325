package clique

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
)

// entry is the entry of a process that is not a worker.
func entry(name, address string) prepared {
	return prepared{Member: describe(name, name), Address: address, NoUCX: "not requested", Device: gpu{Ordinal: -1,
		NoNCCL: "none"}}
}

// TestRosterOfEntries: ranks are ordered by name, whatever the order of the entries, with the backends of Form.
func TestRosterOfEntries(t *testing.T) {
	a, b, c := entry("tcp://h:1", "tcp://h:7"), entry("tcp://h:2", "tcp://h:8"), entry("tcp://g:3", "")
	var texts []string
	for _, ranks := range [][]prepared{{a, b, c}, {c, b, a}, {b, a, c}} {
		out, err := rosterRequest{ID: "x", Deterministic: true, Timeout: 5, Ranks: ranks}.roster()
		if err != nil {
			t.Fatal(err)
		}
		text, err := write(out)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
		if out.Backend != string(Comm) || out.Devices != string(Comm) || !out.Deterministic || out.Timeout != 5 {
			t.Errorf("got %+v", out)
		}
		for i, want := range []string{"tcp://g:3", "tcp://h:1", "tcp://h:2"} {
			if r := out.Ranks[i]; r.Rank != i || r.Worker != want {
				t.Errorf("rank %d: got %d, %s, want %s", i, r.Rank, r.Worker, want)
			}
		}
		if out.Ranks[1].Address != "tcp://h:7" {
			t.Errorf("got address %q, want that of the entry", out.Ranks[1].Address)
		}
	}
	if texts[0] != texts[1] || texts[1] != texts[2] {
		t.Errorf("the roster depends on the order of entries: %q", texts)
	}
}

// TestRosterErrors: entries that cannot be a clique are errors with the reason.
func TestRosterErrors(t *testing.T) {
	a, b := entry("tcp://h:1", ""), entry("tcp://h:2", "")
	for _, c := range []struct {
		in   rosterRequest
		want string
	}{
		{rosterRequest{Ranks: []prepared{a}}, "invalid clique id"},
		{rosterRequest{ID: "x"}, "0 ranks: want 1 to"},
		{rosterRequest{ID: "x", Ranks: make([]prepared, maxRanks+1)}, "ranks: want 1 to"},
		{rosterRequest{ID: "x", Ranks: []prepared{a, b, a}}, `two ranks are named "tcp://h:1"`},
		{rosterRequest{ID: "x", Ranks: []prepared{{}}}, `two ranks are named ""`},
		{rosterRequest{ID: "x", Backend: UCX, Ranks: []prepared{a, b}}, "UCX is not available on worker tcp://h:1"},
		{rosterRequest{ID: "x", Backend: NCCL, Ranks: []prepared{a, b}}, "NCCL cannot be used"},
		{rosterRequest{ID: "x", Backend: "pigeon", Ranks: []prepared{a}}, `backend "pigeon"`},
	} {
		if _, err := c.in.roster(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100s: got %v, want %q", fmt.Sprint(c.in), err, c.want)
		}
	}
}

// TestRosterFunction: libmillstream calls the function by name.
func TestRosterFunction(t *testing.T) {
	f, ok := task.Lookup("millstream.clique.roster")
	if !ok {
		t.Fatal("the function is not registered")
	}
	call := func(text string) (string, error) {
		out, err := f.Invoke(context.Background(), []*task.Value{task.NewValue(text)})
		if err != nil {
			return "", err
		}
		return out.(string), nil
	}
	in, err := json.Marshal(rosterRequest{ID: "x", Ranks: []prepared{entry("tcp://h:1", "")}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := call(string(in)); err != nil || !strings.Contains(out, `"worker":"tcp://h:1"`) {
		t.Errorf("got %s, %v", out, err)
	}
	for _, bad := range []string{"", "{}", "[]"} {
		if out, err := call(bad); err == nil {
			t.Errorf("%q: got %s, want an error", bad, out)
		}
	}
}
