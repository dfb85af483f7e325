package cluster

import (
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/testkit/peerpython"
)

// Variables of the configuration are set for worker processes unless the environment has them.
func TestConfiguredEnv(t *testing.T) {
	before, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	defer config.SetDefault(before)
	own, err := config.Load(config.Options{Env: []string{
		"DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON={'OF_TEST_A': 1, 'OF_TEST_B': None}",
		"DASK_DISTRIBUTED__NANNY__ENVIRON={'OF_TEST_A': 2, 'OF_TEST_C': 'x', 'OF_TEST_SET': 'y'}"}})
	if err != nil {
		t.Fatal(err)
	}
	config.SetDefault(own)
	t.Setenv("OF_TEST_SET", "z")
	got := slices.DeleteFunc(configuredEnv(), func(v string) bool { return !strings.HasPrefix(v, "OF_TEST_") })
	// The last of two values counts.
	if want := []string{"OF_TEST_A=1", "OF_TEST_A=2", "OF_TEST_C=x"}; !slices.Equal(got, want) {
		t.Errorf("variables: got %q, want %q", got, want)
	}
}

// A preload that cannot be imported ends the nanny before it starts a process.
func TestNannyPreloadFails(t *testing.T) {
	leak.Check(t)
	spec := WorkerSpec{Name: "alice", Scheduler: "tcp://127.0.0.1:1", Python: true,
		Interpreter: peerpython.Path(t, "..")}
	cfg := NannyConfig{Logger: quiet, role: "test-steady", Preload: []string{"no_such_module_of_a_test"}}
	if _, err := StartNanny(spec, cfg); err == nil || !strings.Contains(err.Error(), "Listen") {
		t.Errorf("without Listen: got %v, want an error", err)
	}
	cfg.Listen = "tcp://127.0.0.1:0"
	n, err := StartNanny(spec, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	if err := ended(t, n); err == nil || !strings.Contains(err.Error(), "no_such_module_of_a_test") {
		t.Errorf("end: got %v, want the missing module", err)
	}
	if i := n.Info(); i.Starts != 0 || i.State != Failed {
		t.Errorf("worker: got %+v, want no process", i)
	}
}
