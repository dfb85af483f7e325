// Package versions compares the packages of peers with those of workers and of the scheduler's own Python.
package versions

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/peers"
)

// Host is the part of the scheduler that Versions uses.
type Host struct {
	Log     *slog.Logger
	Workers *peers.Workers // owner: the loop
	Helpers *helpers.Helpers
	Opener  *graphs.Opener
}

// Versions compares the packages of peers. It has no state of its own.
type Versions struct{ Host }

// New returns a Versions.
func New(h Host) *Versions { return &Versions{h} }

// Register sets the handler of requests.
func (s *Versions) Register(r *rpc.Server) { rpc.Handle(r, "versions", s.versionsRPC) }

// ourVersions returns the reply to versions without packages of Python, so that none can disagree.
func ourVersions() msgpack.Map {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return msgpack.MapOf(
		"host", msgpack.MapOf("go", runtime.Version(), "OS", runtime.GOOS, "machine", runtime.GOARCH, "byteorder",
			"little"),
		"packages", msgpack.MapOf("millstream", version))
}

// versionsRPC serves versions. Python peers compare packages: they receive those of the Python that opens their graphs.
func (s *Versions) versionsRPC(ctx context.Context, r *rpc.Request, in struct {
	Packages any `rpc:"packages,optional"`
}) (msgpack.Map, error) {
	if r.Comm.Info().Millstream != nil {
		return ourVersions(), nil
	}
	return s.with(ctx, in.Packages)
}

// Own returns the versions of the scheduler and of its Python.
func (s *Versions) Own(ctx context.Context) (any, error) { return s.with(ctx, nil) }

// with returns the versions of the scheduler, of its Python and of further Python packages.
func (s *Versions) with(ctx context.Context, further any) (msgpack.Map, error) {
	ours := ourVersions()
	if s.Helpers.Off() {
		return ours, nil
	}
	m, err := s.Helpers.Call(ctx, helpers.Service, "versions", msgpack.MapOf("packages", further), nil)
	if err != nil {
		s.Log.Warn("versions of Python packages unknown", "error", err)
		return ours, nil
	}
	var theirs msgpack.Map
	if err := helpers.Args(m, &theirs); err != nil {
		return nil, err
	}
	packages, _ := theirs.Get("packages")
	list, _ := packages.(msgpack.Map)
	v, _ := ours.Get("packages")
	mine, _ := v.(msgpack.Map)
	theirs.Set("packages", append(list, mine...))
	return theirs, nil
}

// Check compares the packages of a peer with those of the workers and of the scheduler's Python. It returns Dask's
// warning, which clients show and workers log. It runs in the loop.
func (s *Versions) Check(versions any, who string) string {
	mine := packagesOf(versions)
	var warnings []string
	if release := mine["distributed"]; daskver.Scheduler.Check(release) == daskver.Newer {
		warnings = append(warnings, daskver.Scheduler.Message("this peer", release))
	}
	workers := make([]daskver.Packages, 0, len(s.Workers.ByAddress))
	for _, w := range s.Workers.ByAddress {
		workers = append(workers, packagesOf(w.Versions))
	}
	if table := daskver.Mismatch(who, mine, s.packages(), workers); table != "" {
		warnings = append(warnings, table)
	}
	return strings.Join(warnings, "\n")
}

// packages returns those of the Python that opens graphs, as far as they are known; nil without one.
func (s *Versions) packages() daskver.Packages {
	in := s.Helpers.Known()
	if in == nil {
		return nil
	}
	// Python's own form is (major, minor, micro, releaselevel, serial).
	return daskver.Packages{"python": in.Python + ".final.0", "dask": in.Dask, "distributed": in.Distributed}
}

// OldRelease is returned for a peer whose release of Dask is not supported.
type OldRelease struct{ text string }

func (e *OldRelease) Error() string { return e.text }

// CheckRelease checks a peer's release of Dask: an unsupported one is an error, a newer one is logged. It also finds
// the scheduler's own Python, with which peers are compared. It runs outside of the loop.
func (s *Versions) CheckRelease(ctx context.Context, peer string, versions any) error {
	p := packagesOf(versions)
	release, ok := p["distributed"]
	if !ok {
		if p["python"] != "" {
			s.Log.Warn(daskver.Untested, "detail", daskver.Scheduler.Message(peer, ""))
		}
		return nil // Go, or a custom program
	}
	switch text := daskver.Scheduler.Message(peer, release); daskver.Scheduler.Check(release) {
	case daskver.Older:
		return &OldRelease{text}
	case daskver.Newer, daskver.Unknown:
		s.Log.Warn(daskver.Untested, "detail", text)
	}
	s.Opener.Warm(ctx)
	return nil
}

func packagesOf(versions any) daskver.Packages {
	m, _ := versions.(msgpack.Map)
	v, _ := m.Get("packages")
	p, _ := v.(msgpack.Map)
	out := make(daskver.Packages, len(p))
	for _, e := range p {
		name, ok := e.Key.(string)
		text, _ := e.Value.(string)
		if ok {
			out[name] = text
		}
	}
	return out
}
