package scheduler

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	"go.millstream.dev/rpc"
	"go.millstream.dev/wire/msgpack"
)

// ourVersions is the answer to versions: there is no Python here, so that no package of
// Python can disagree.
func ourVersions() msgpack.Map {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return msgpack.MapOf(
		"host", msgpack.MapOf("go", runtime.Version(), "OS", runtime.GOOS, "machine", runtime.GOARCH, "byteorder", "little"),
		"packages", msgpack.MapOf("millstream", version))
}

func (s *Scheduler) versionsRPC(_ context.Context, _ *rpc.Request, _ struct {
	Packages any `rpc:"packages,optional"`
}) (msgpack.Map, error) {
	return ourVersions(), nil
}

// versionCheck compares the packages of a peer with those of the workers: Dask's warning,
// which clients show. It runs in the loop.
func (s *Scheduler) versionCheck(versions any, who string) msgpack.Map {
	mine := packagesOf(versions)
	all := map[string]map[string]bool{} // package -> versions of workers
	for _, w := range s.workers {
		for name, v := range packagesOf(w.versions) {
			if all[name] == nil {
				all[name] = map[string]bool{}
			}
			all[name][v] = true
		}
	}
	var lines []string
	for name, v := range mine {
		theirs := all[name]
		if v == "" || len(theirs) == 0 || len(theirs) == 1 && theirs[v] {
			continue
		}
		var list []string
		for t := range theirs {
			list = append(list, t)
		}
		sort.Strings(list)
		lines = append(lines, fmt.Sprintf("%s: %s has %s, workers have %s", name, who, v, strings.Join(list, ", ")))
	}
	warning := ""
	if len(lines) > 0 {
		slices.Sort(lines)
		warning = "Mismatched versions found\n\n" + strings.Join(lines, "\n")
	}
	return msgpack.MapOf("warning", warning, "error", "")
}

func packagesOf(versions any) map[string]string {
	m, _ := versions.(msgpack.Map)
	v, _ := m.Get("packages")
	p, _ := v.(msgpack.Map)
	out := make(map[string]string, len(p))
	for _, e := range p {
		name, ok := e.Key.(string)
		text, _ := e.Value.(string)
		if ok {
			out[name] = text
		}
	}
	return out
}
