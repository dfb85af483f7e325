package versions

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/peers"
)

func said(list ...any) msgpack.Map {
	return msgpack.MapOf("host", msgpack.MapOf("OS", "Linux"), "packages", msgpack.MapOf(list...))
}

// TestPackagesOf checks that packages are names with texts, whatever a peer sends.
func TestPackagesOf(t *testing.T) {
	for i, c := range []struct {
		in   any
		want daskver.Packages
	}{
		{nil, daskver.Packages{}}, {"text", daskver.Packages{}}, {msgpack.MapOf("packages", 7), daskver.Packages{}},
		{said("dask", "2024.1.0", "numpy", nil), daskver.Packages{"dask": "2024.1.0", "numpy": ""}},
		{msgpack.MapOf("packages", msgpack.Map{{Key: 7, Value: "x"}, {Key: "a", Value: 7}}), daskver.Packages{"a": ""}},
	} {
		got := packagesOf(c.in)
		if len(got) != len(c.want) {
			t.Errorf("case %d: got %v, want %v", i, got, c.want)
		}
		for name, text := range c.want {
			if have, ok := got[name]; !ok || have != text {
				t.Errorf("case %d: %s: got %q, want %q", i, name, have, text)
			}
		}
	}
}

// TestOurVersions checks that the scheduler has no Python packages that could disagree.
func TestOurVersions(t *testing.T) {
	p := packagesOf(ourVersions())
	if len(p) != 1 || p["millstream"] == "" {
		t.Errorf("packages: got %v, want millstream only", p)
	}
}

// newVersions returns a Versions of a scheduler without Python, with its log.
func newVersions(workers ...*peers.Worker) (*Versions, *bytes.Buffer) {
	log := new(bytes.Buffer)
	list := &peers.Workers{ByAddress: map[string]*peers.Worker{}}
	for _, w := range workers {
		list.ByAddress[w.Address] = w
	}
	return New(Host{Log: slog.New(slog.NewTextHandler(log, nil)), Workers: list,
		Helpers: helpers.New(helpers.Config{Off: true})}), log
}

// TestCheck checks that a peer is warned of packages that differ from those of workers, and of nothing else.
func TestCheck(t *testing.T) {
	w := &peers.Worker{Address: "tcp://a:1", Versions: said("python", "3.11.1.final.0", "dask", "2024.1.0",
		"distributed", "2024.1.0")}
	for _, c := range []struct {
		name string
		says any
		want string // in the warning; "" for none
	}{
		{"the same", w.Versions, ""},
		{"nothing", nil, ""},
		{"another", said("python", "3.12.1.final.0", "dask", "2024.1.0", "distributed", "2024.1.0"), "python"},
	} {
		s, _ := newVersions(w)
		warning := s.Check(c.says, "client")
		if (c.want == "") != (warning == "") || !strings.Contains(warning, c.want) {
			t.Errorf("%s: got warning %q, want %q", c.name, warning, c.want)
		}
	}
}

// TestCheckRelease checks that unsupported releases are rejected; a Python peer without a release is logged, a Go peer
// is not.
func TestCheckRelease(t *testing.T) {
	s, log := newVersions()
	var old *OldRelease
	if err := s.CheckRelease(t.Context(), "tcp://c:1", said("distributed", "2021.1.0")); !errors.As(err, &old) ||
		!strings.Contains(err.Error(), "2021.1.0") || !strings.Contains(err.Error(), "tcp://c:1") {
		t.Errorf("old release: got error %v, want one with the release and the peer", err)
	}
	for _, c := range []struct {
		says any
		logs bool
	}{{nil, false}, {said("millstream", "v1"), false}, {said("python", "3.11.1.final.0"), true}} {
		log.Reset()
		if err := s.CheckRelease(t.Context(), "tcp://c:1", c.says); err != nil || (log.Len() > 0) != c.logs {
			t.Errorf("%v: got error %v, log %q, want a line: %t", c.says, err, log.String(), c.logs)
		}
	}
}
