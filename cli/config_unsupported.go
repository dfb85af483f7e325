package cli

import (
	"log/slog"
	"slices"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/secure"
)

// unsupportedKey is a configuration key of Dask without an effect on these processes.
type unsupportedKey struct {
	key    string
	advice string
	// fatal reports whether a value must not be ignored; nil means never.
	fatal func(value any) bool
	// builtIn reports whether a value requests the built-in behavior; nil accepts empty values only.
	builtIn func(value any) bool
}

// unsupportedKeys lists the keys for each kind of process.
var unsupportedKeys = map[secure.Role][]unsupportedKey{
	secure.Scheduler: {
		{key: "distributed.scheduler.http.routes", advice: "the HTTP server has /metrics, /health, /json, /info " +
			"and /millstream; routes other than distributed.http.scheduler.api cannot be added",
			builtIn: onlyStrings("distributed.http.scheduler.prometheus", "distributed.http.scheduler.json",
				"distributed.http.scheduler.info", "distributed.http.scheduler.api", "distributed.http.health",
				"distributed.http.proxy", "distributed.http.statics")},
		{key: "distributed.scheduler.active-memory-manager.policies", advice: "the active memory manager has the " +
			"policies ReduceReplicas and, for retire_workers, RetireWorker; policies in Python do not run",
			builtIn: onlyReduceReplicas},
		{key: "distributed.scheduler.active-memory-manager.measure", advice: "the active memory manager compares the " +
			"results of workers, and other memory above a tenth of the memory limit",
			builtIn: func(v any) bool { return v == "optimistic" }},
		{key: "distributed.scheduler.pickle", advice: "set --no-python to refuse pickled functions and graphs",
			fatal: isFalse, builtIn: func(v any) bool { return v == true }},
	},
	secure.Worker: {
		{key: "distributed.worker.http.routes", advice: "the HTTP server has /metrics and /health; routes " +
			"cannot be added",
			builtIn: onlyStrings("distributed.http.worker.prometheus", "distributed.http.health")},
	},
}

func isFalse(v any) bool { return v == false || v == nil }

// onlyReduceReplicas reports whether a list of policies has none but ReduceReplicas.
func onlyReduceReplicas(v any) bool {
	list, ok := v.(config.List)
	return ok && !slices.ContainsFunc(list, func(x any) bool {
		m, _ := x.(*config.Map)
		e, _ := m.Entry("class")
		return e.Value != "distributed.active_memory_manager.ReduceReplicas"
	})
}

// onlyStrings reports whether a list has no other texts than these.
func onlyStrings(known ...string) func(any) bool {
	return func(v any) bool {
		list, ok := v.(config.List)
		if !ok {
			return false
		}
		return !slices.ContainsFunc(list, func(x any) bool { s, _ := x.(string); return !slices.Contains(known, s) })
	}
}

// warnUnsupported logs each key of the configuration that is set and has no effect on a process of the role. It returns
// an error for a value that must not be ignored.
func warnUnsupported(role secure.Role, log *slog.Logger) error {
	c, err := config.Default()
	if err != nil {
		return err
	}
	for _, k := range unsupportedKeys[role] {
		e, ok := c.Entry(k.key)
		if !ok || isEmpty(e.Value) || k.builtIn != nil && k.builtIn(e.Value) {
			continue
		}
		if k.fatal != nil && k.fatal(e.Value) {
			return cmdline.Usagef("configuration %s: %v (%v) is not supported; %s", k.key, e.Value, e.Source, k.advice)
		}
		log.Warn("configuration key has no effect", "key", k.key, "value", e.Value, "from", e.Source.String(), "advice",
			k.advice)
	}
	return nil
}

// isEmpty reports whether a value asks for nothing: none, an empty text, list or map.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case config.List:
		return len(v) == 0
	case *config.Map:
		return v == nil || v.Len() == 0
	}
	return false
}
