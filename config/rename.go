package config

import (
	"fmt"
	"strings"
)

// Warning is a setting that works and should be changed.
type Warning struct {
	// Key is the key as it was written.
	Key string
	// Replacement is the key to use instead; empty if the key has no effect.
	Replacement string
	// Source is the source of the key.
	Source Source
	// Text is the warning as a sentence.
	Text string
}

// String returns the source and the fix.
func (w Warning) String() string {
	if w.Source == (Source{}) {
		return w.Text
	}
	return w.Source.String() + ": " + w.Text
}

// Renames returns the keys that Dask has renamed, old before new, in Dask's order.
func Renames() [][2]string { return append([][2]string(nil), renames...) }

// renames is Dask's table followed by that of distributed. The rename of a section follows those of its keys.
var renames = [][2]string{
	{"fuse-ave-width", "optimization.fuse.ave-width"},
	{"fuse-max-height", "optimization.fuse.max-height"},
	{"fuse-max-width", "optimization.fuse.max-width"},
	{"fuse-rename-keys", "optimization.fuse.rename-keys"},
	{"fuse-max-depth-new-edges", "optimization.fuse.max-depth-new-edges"},
	{"ucx.cuda-copy", "distributed.ucx.cuda_copy"},
	{"ucx.tcp", "distributed.ucx.tcp"},
	{"ucx.nvlink", "distributed.ucx.nvlink"},
	{"ucx.infiniband", "distributed.ucx.infiniband"},
	{"ucx.rdmacm", "distributed.ucx.rdmacm"},
	{"ucx.net-devices", "distributed.ucx.net-devices"},
	{"ucx.reuse-endpoints", "distributed.ucx.reuse-endpoints"},
	{"rmm.pool-size", "distributed.rmm.pool-size"},
	{"shuffle", "dataframe.shuffle.algorithm"},
	{"array.rechunk-threshold", "array.rechunk.threshold"},
	{"dataframe.shuffle.algorithm", "dataframe.shuffle.method"},
	{"dataframe.shuffle-compression", "dataframe.shuffle.compression"},
	{"admin.traceback.shorten.what", "admin.traceback.shorten"},
	{"array.shuffle.chunksize-tolerance", "array.chunk-size-tolerance"},

	{"allowed-failures", "distributed.scheduler.allowed-failures"},
	{"bandwidth", "distributed.scheduler.bandwidth"},
	{"default-data-size", "distributed.scheduler.default-data-size"},
	{"work-stealing", "distributed.scheduler.work-stealing"},
	{"worker-ttl", "distributed.scheduler.worker-ttl"},
	{"multiprocessing-method", "distributed.worker.multiprocessing-method"},
	{"use-file-locking", "distributed.worker.use-file-locking"},
	{"profile-interval", "distributed.worker.profile.interval"},
	{"profile-cycle-interval", "distributed.worker.profile.cycle"},
	{"worker-memory-target", "distributed.worker.memory.target"},
	{"worker-memory-spill", "distributed.worker.memory.spill"},
	{"worker-memory-pause", "distributed.worker.memory.pause"},
	{"worker-memory-terminate", "distributed.worker.memory.terminate"},
	{"heartbeat-interval", "distributed.client.heartbeat"},
	{"compression", "distributed.comm.compression"},
	{"connect-timeout", "distributed.comm.timeouts.connect"},
	{"tcp-timeout", "distributed.comm.timeouts.tcp"},
	{"default-scheme", "distributed.comm.default-scheme"},
	{"socket-backlog", "distributed.comm.socket-backlog"},
	{"diagnostics-link", "distributed.dashboard.link"},
	{"bokeh-export-tool", "distributed.dashboard.export-tool"},
	{"tick-time", "distributed.admin.tick.interval"},
	{"tick-maximum-delay", "distributed.admin.tick.limit"},
	{"log-length", "distributed.admin.log-length"},
	{"log-format", "distributed.admin.log-format"},
	{"pdb-on-err", "distributed.admin.pdb-on-err"},
	{"ucx", "distributed.comm.ucx"},
	{"rmm", "distributed.rmm"},
	{"transition-log-length", "distributed.admin.low-level-log-length"},
	{"distributed.scheduler.transition-log-length", "distributed.admin.low-level-log-length"},
	{"distributed.scheduler.events-log-length", "distributed.admin.low-level-log-length"},
	{"recent-messages-log-length", "distributed.admin.low-level-log-length"},
	{"distributed.comm.recent-messages-log-length", "distributed.admin.low-level-log-length"},
	{"distributed.p2p.disk", "distributed.p2p.storage.disk"},
}

var renameOf = func() map[string]string {
	m := map[string]string{}
	for _, r := range renames {
		if !nativeKey(r[0]) {
			m[r[0]] = r[1]
		}
	}
	return m
}()

// nativeKey reports whether a key belongs to UCX or the memory pool. Dask moves those to keys that are never read, and
// removes distributed.comm.ucx in the process. Here they are kept: Settings reads every spelling, and nativeWarnings
// names the correct replacement.
func nativeKey(key string) bool {
	return key == "ucx" || key == "rmm" || strings.HasPrefix(key, "ucx.") || strings.HasPrefix(key, "rmm.")
}

// renamed applies one rename to a key, with hyphens or underscores.
func renamed(key string, src Source) (string, *Warning) {
	replacement, ok := renameOf[strings.ReplaceAll(key, "_", "-")]
	if !ok {
		return key, nil
	}
	return replacement, renameWarning(key, replacement, src)
}

func renameWarning(key, replacement string, src Source) *Warning {
	for range renames { // a replacement may have been renamed too
		if next, ok := renameOf[replacement]; ok {
			replacement = next
		}
	}
	return &Warning{key, replacement, src, fmt.Sprintf("the key %s has been renamed; write %s instead", key,
		replacement)}
}

// moved is one rename that was found in a file or in the environment.
type moved struct {
	key, replacement string
	warning          *Warning
}

// rename moves renamed keys of one source, in place, and returns the renames. As in Dask, an old spelling replaces the
// new one in the same source.
func rename(m *Map) ([]moved, error) {
	var found []moved
	for _, r := range renames {
		if nativeKey(r[0]) {
			continue
		}
		e, ok := pop(m, r[0])
		if !ok {
			continue
		}
		found = append(found, moved{r[0], r[1], renameWarning(r[0], r[1], e.Source)})
		key, src := r[1], e.Source
		for range renames { // a replacement may have been renamed too
			key, _ = renamed(key, src)
		}
		e.Value, e.Source = spelled(r[0], e.Value, e.Source)
		if _, err := assign(m, key, e.Value, e.Source); err != nil {
			return found, err
		}
	}
	return found, nil
}

// spelled records the old key in the sources of a value and of everything in it.
func spelled(key string, value any, src Source) (any, Source) {
	src.Key = key
	if m, ok := value.(*Map); ok {
		c := &Map{}
		for e := range m.All() {
			v, s := spelled(fmt.Sprintf("%s.%v", key, e.Key), e.Value, e.Source)
			c.put(e.Key, v, s)
		}
		value = c
	}
	return value, src
}
