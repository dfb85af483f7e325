package scheduler

import (
	"strings"
	"testing"
	"time"

	"go.millstream.dev/config"
)

func load(t *testing.T, values map[string]any) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(values); err != nil {
		t.Fatal(err)
	}
	return c
}

// Keys of Dask set fields.
func TestFromConfig(t *testing.T) {
	c, err := FromConfig(load(t, map[string]any{
		"distributed.scheduler.worker-ttl":                           "1 minute",
		"distributed.scheduler.idle-timeout":                         "1h",
		"distributed.scheduler.no-workers-timeout":                   "30s",
		"distributed.scheduler.allowed-failures":                     0,
		"distributed.scheduler.work-stealing":                        false,
		"distributed.scheduler.work-stealing-interval":               "2s",
		"distributed.scheduler.worker-saturation":                    "inf",
		"distributed.scheduler.bandwidth":                            5e8,
		"distributed.scheduler.default-data-size":                    "2kiB",
		"distributed.scheduler.unknown-task-duration":                "100ms",
		"distributed.scheduler.default-task-durations.rechunk-split": "1us",
		"distributed.scheduler.locks.lease-timeout":                  "5s",
		"distributed.scheduler.locks.lease-validation-interval":      "1s",
		"distributed.scheduler.events-cleanup-delay":                 "1m",
		"distributed.scheduler.dashboard.tasks.task-stream-length":   50,
		"distributed.scheduler.blocked-handlers":                     []any{"feed"},
		"distributed.scheduler.validate":                             true,
		"distributed.scheduler.contact-address":                      "tcp://outside:1",
		"distributed.admin.low-level-log-length":                     77,
		"distributed.scheduler.http.routes":                          []any{"distributed.http.scheduler.api"},
		"millstream.dashboard.token":                                 "0123456789abcdef",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if c.WorkerTTL != time.Minute || c.IdleTimeout != time.Hour || c.NoWorkersTimeout != 30*time.Second ||
		c.AllowedFailures != -1 || !c.NoStealing ||
		c.StealingInterval != 2*time.Second || c.Saturation < 1e300 || c.Bandwidth != 5e8 || c.DataSize != 2048 ||
		c.TaskDuration != 100*time.Millisecond ||
		c.TaskDurations["rechunk-split"] != time.Microsecond || c.LeaseTimeout != 5*time.Second ||
		c.LeaseInterval != time.Second ||
		c.EventsDelay != time.Minute || c.TaskStream != 50 || len(c.Blocked) != 1 || !c.Validate ||
		c.Contact != "tcp://outside:1" || c.LogLength != 77 || !c.httpAPI || c.DashboardToken != "0123456789abcdef" {
		t.Errorf("config: got %+v, want the values of the file", c)
	}
}

// Thresholds of root tasks and of rebalance, and preloads, have the keys of Dask.
func TestFromConfigLimits(t *testing.T) {
	c, err := FromConfig(load(t, map[string]any{
		"distributed.scheduler.rootish-taskgroup":              7,
		"distributed.scheduler.rootish-taskgroup-dependencies": 8,
		"distributed.worker.memory.rebalance.sender-min":       0.2,
		"distributed.worker.memory.rebalance.recipient-max":    0.5,
		"distributed.scheduler.preload":                        "module",
		"distributed.scheduler.preload-argv":                   []any{"--a", "1"},
	}))
	if err != nil || c.RootishGroups != 7 || c.RootishTasks != 8 || c.RebalanceSenderMin != 0.2 ||
		c.RebalanceRecipientMax != 0.5 || len(c.Python.Preload) != 1 || len(c.Python.PreloadArgv) != 2 {
		t.Errorf("config: got %+v, error %v, want the values of the file", c, err)
	}
	for key, value := range map[string]any{"distributed.scheduler.rootish-taskgroup": -1,
		"distributed.worker.memory.rebalance.sender-min": 30} {
		if _, err := FromConfig(load(t, map[string]any{key: value})); err == nil ||
			!strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v: got error %v, want one with the key", key, value, err)
		}
	}
}

// Without settings the defaults of Dask apply, and null means no limit.
func TestConfigDefaults(t *testing.T) {
	c, err := FromConfig(load(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.withDefaults(); d.WorkerTTL != 5*time.Minute || d.AllowedFailures != 3 || d.Saturation != 1.1 ||
		d.Listen[0] != "tcp://:8786" || d.NoStealing {
		t.Errorf("config: got %+v, want the defaults", d)
	}
	if c, err = FromConfig(load(t, map[string]any{"distributed.scheduler.worker-ttl": nil})); err != nil ||
		c.WorkerTTL != -1 {
		t.Errorf("worker-ttl null: got %v, error %v, want -1", c.WorkerTTL, err)
	}
}

func TestBadConfig(t *testing.T) {
	_, err := FromConfig(load(t, map[string]any{"distributed.scheduler.worker-ttl": "soon"}))
	if err == nil || !strings.Contains(err.Error(), "worker-ttl") {
		t.Errorf("bad worker-ttl: got error %v, want one with the key", err)
	}
	if _, err := Start(t.Context(), Config{Listen: []string{"smoke://signals"}}); err == nil ||
		!strings.Contains(err.Error(), "smoke") {
		t.Errorf("bad address: got error %v, want one with the address", err)
	}
	if _, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"},
		Dashboard: "256.0.0.1:x"}); err == nil {
		t.Error("bad dashboard address: got no error")
	}
}
