package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The two forms that users know: the second becomes the first, to the letter.
func TestMigrateLegacyToNew(t *testing.T) {
	legacy, want := readTestdata(t, "legacy.yaml"), readTestdata(t, "new.yaml")
	got, changes, err := Migrate("legacy.yaml", []byte(legacy))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(changes) != 8 {
		t.Errorf("changes: %v", changes)
	}
	again, changes, err := Migrate("new.yaml", got)
	if err != nil || string(again) != want || len(changes) > 0 {
		t.Errorf("a second time: %v %v\n%s", changes, err, again)
	}
}

func TestMigrate(t *testing.T) {
	for _, c := range []struct{ name, old, new, changes string }{
		{"old", "ucx:\n  tcp: true\n  cuda_copy: yes\n  net-devices: mlx5_0:1\n  reuse-endpoints: true\nrmm:\n  " +
			"pool-size: 1GB\nother: 1\n",
			"other: 1\ndistributed-ucxx:\n  tcp: true\n  cuda-copy: yes\n  environment:\n    net-devices: mlx5_0:1\n " +
				" rmm:\n    pool-size: 1GB\n",
			"line 2: ucx.tcp is now distributed-ucxx.tcp|line 3: ucx.cuda_copy is now " +
				"distributed-ucxx.cuda-copy|line 4: ucx.net-devices is now " +
				"distributed-ucxx.environment.net-devices|line 5: ucx.reuse-endpoints removed: no longer has an " +
				"effect|line 7: rmm.pool-size is now distributed-ucxx.rmm.pool-size"},
		{"comments stay", "# head\ndistributed:\n  # about comm\n  comm:\n    compression: lz4  # fast\n    ucx:\n   " +
			"   # why\n      tcp: true  # because\n",
			"# head\ndistributed:\n  # about comm\n  comm:\n    compression: lz4 # fast\ndistributed-ucxx:\n  # " +
				"why\n  tcp: true # because\n",
			"line 8: distributed.comm.ucx.tcp is now distributed-ucxx.tcp"},
		{"new wins", "distributed-ucxx:\n  tcp: false\n  nvlink: null\ndistributed:\n  comm:\n    ucx:\n      tcp: " +
			"true\n      nvlink: true\n",
			"distributed-ucxx:\n  tcp: false\n  nvlink: true\n",
			"line 7: distributed.comm.ucx.tcp removed: distributed-ucxx.tcp is also set and takes precedence|line 8: " +
				"distributed.comm.ucx.nvlink is now distributed-ucxx.nvlink"},
		{"environment merges", "distributed-ucxx:\n  environment: {tls: tcp}\ndistributed:\n  comm:\n    ucx:\n      " +
			"environment:\n        tls: all\n        rndv-thresh: 8192\n",
			"distributed-ucxx:\n  environment:\n    tls: tcp\n    rndv-thresh: 8192\n",
			"line 7: distributed.comm.ucx.environment.tls removed: distributed-ucxx.environment.tls is also set and " +
				"takes precedence|line 8: distributed.comm.ucx.environment.rndv-thresh is now " +
				"distributed-ucxx.environment.rndv-thresh"},
		{"Dask's renames", "work-stealing: false\nshuffle: p2p\n", "distributed:\n  scheduler:\n    work-stealing: " +
			"false\ndataframe:\n  shuffle:\n    method: p2p\n",
			"line 2: shuffle is now dataframe.shuffle.method|line 1: work-stealing is now " +
				"distributed.scheduler.work-stealing"},
		{"nothing to do", "# c\na:   1   # odd  spacing\n", "# c\na:   1   # odd  spacing\n", ""},
		{"empty", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, changes, err := Migrate("f.yaml", []byte(c.old))
			if err != nil {
				t.Fatal(err)
			}
			if c.name == "Dask's renames" {
				// The order of new sections follows Dask's table.
				a, b := sortedLines(string(got)), sortedLines(c.new)
				if !slices.Equal(a, b) {
					t.Errorf("got\n%s\nwant\n%s", got, c.new)
				}
			} else if string(got) != c.new {
				t.Errorf("got\n%s\nwant\n%s", got, c.new)
			}
			var lines []string
			for _, ch := range changes {
				lines = append(lines, ch.String())
			}
			if text := strings.Join(lines, "|"); text != c.changes {
				t.Errorf("changes\n%s\nwant\n%s", text, c.changes)
			}
		})
	}
}

func sortedLines(text string) []string { return slices.Sorted(strings.Lines(text)) }

// A file whose old keys come in by an alias cannot be edited key by key.
func TestMigrateRefusesAliases(t *testing.T) {
	text := "x: &a {tcp: true}\nucx:\n  <<: *a\n  nvlink: true\n"
	_, _, err := Migrate("f.yaml", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "write them out") && !strings.Contains(err.Error(), "aliases") {
		t.Errorf("error %v", err)
	}
	if _, _, err := Migrate("f.yaml", []byte("a: [")); err == nil {
		t.Error("no YAML, no error")
	}
}

func TestMigrateEnv(t *testing.T) {
	got := MigrateEnv([]string{"DASK_UCX__TCP=1", "DASK_RMM__POOL_SIZE=1GB", "DASK_DISTRIBUTED__COMM__UCX__NVLINK=1",
		"DASK_UCX__NET_DEVICES=eth0", "DASK_UCX__REUSE_ENDPOINTS=1",
		"DASK_WORK_STEALING=1", "DASK_DISTRIBUTED_UCXX__TCP=1", "DASK_A=1", "UCX_TLS=tcp", "DASK_SHUFFLE=1"})
	want := []Change{
		{Old: "DASK_UCX__TCP", New: "DASK_DISTRIBUTED_UCXX__TCP"},
		{Old: "DASK_RMM__POOL_SIZE", New: "DASK_DISTRIBUTED_UCXX__RMM__POOL_SIZE"},
		{Old: "DASK_DISTRIBUTED__COMM__UCX__NVLINK", New: "DASK_DISTRIBUTED_UCXX__NVLINK"},
		{Old: "DASK_UCX__NET_DEVICES", New: "DASK_DISTRIBUTED_UCXX__ENVIRONMENT__NET_DEVICES"},
		{Old: "DASK_UCX__REUSE_ENDPOINTS", Why: "no longer has an effect"},
		{Old: "DASK_WORK_STEALING", New: "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING"},
		{Old: "DASK_SHUFFLE", New: "DASK_DATAFRAME__SHUFFLE__METHOD"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
