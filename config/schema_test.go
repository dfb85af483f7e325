package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWrongKeysAndValues(t *testing.T) {
	for _, c := range []struct{ text, env, want string }{
		{"distributed-ucxx:\n  tcp: true\n  nvlnk: true\n", "", "c.yaml:3: unknown key distributed-ucxx.nvlnk; the " +
			"nearest valid key is distributed-ucxx.nvlink"},
		{"distributed_ucxx:\n  cuda_cpy: true\n", "", "c.yaml:2: unknown key distributed-ucxx.cuda_cpy; the nearest " +
			"valid key is distributed-ucxx.cuda-copy"},
		{"distributed-ucxx:\n  rmm:\n    poolsize: 1\n", "", "c.yaml:3: unknown key distributed-ucxx.rmm.poolsize; " +
			"the nearest valid key is distributed-ucxx.rmm.pool-size"},
		{"distributed:\n  rmm:\n    pool: 1\n", "", "c.yaml:3: unknown key distributed.rmm.pool; the nearest valid " +
			"key is distributed.rmm.pool-size"},
		{"distributed:\n  comm:\n    ucx:\n      infinband: 1\n", "", "c.yaml:4: unknown key " +
			"distributed.comm.ucx.infinband; the nearest valid key is distributed.comm.ucx.infiniband"},
		{"ucx: {tpc: 1}\n", "", "c.yaml:1: unknown key ucx.tpc; the nearest valid key is ucx.tcp"},
		{"rmm: {size: 1}\n", "", "c.yaml:1: unknown key rmm.size; the nearest valid key is rmm.pool-size"},
		{"millstream:\n  ucx:\n    plain-transport: true\n", "",
			"c.yaml:3: unknown key millstream.ucx.plain-transport; the " +
				"nearest valid key is millstream.ucx.plain-transports"},
		{"", "DASK_DISTRIBUTED_UCXX__RDMCM=1", "DASK_DISTRIBUTED_UCXX__RDMCM: unknown key distributed-ucxx.rdmcm; " +
			"the nearest valid key is DASK_DISTRIBUTED_UCXX__RDMACM"},
		{"distributed-ucxx: {tcp: maybe}\n", "",
			`c.yaml:1: distributed-ucxx.tcp: the text "maybe" is not of type boolean or null`},
		{"distributed-ucxx: {tcp: 2}\n", "", `c.yaml:1: distributed-ucxx.tcp: 2 is not of type boolean or null`},
		{"distributed-ucxx: {tcp: [true]}\n", "",
			`c.yaml:1: distributed-ucxx.tcp: a list is not of type boolean or null`},
		{"distributed-ucxx: {version: one}\n", "",
			`c.yaml:1: distributed-ucxx.version: the text "one" is not of type integer`},
		{"distributed-ucxx: {environment: [a]}\n", "",
			`c.yaml:1: distributed-ucxx.environment: a list is not of type object`},
		{"distributed-ucxx: {environment: {a: {b: 1}}}\n", "",
			`c.yaml:1: distributed-ucxx.environment.a: an object is not of type`},
		{"distributed-ucxx: true\n", "", `c.yaml:1: distributed-ucxx: true is not of type object`},
		{"distributed-ucxx: {rmm: {pool-size: 1 potato}}\n", "",
			`c.yaml:1: distributed-ucxx.rmm.pool-size: "1 potato" is not a number of bytes: unknown unit "potato"`},
		{"distributed-ucxx: {rmm: {pool-size: -1}}\n", "",
			`c.yaml:1: distributed-ucxx.rmm.pool-size: -1 is not a number of bytes`},
		{"distributed-ucxx: {rmm: {pool-size: 0.5}}\n", "",
			`c.yaml:1: distributed-ucxx.rmm.pool-size: 0.5 is not a number of bytes`},
		{"distributed-ucxx: {rmm: {pool-size: [1]}}\n", "",
			`c.yaml:1: distributed-ucxx.rmm.pool-size: a list is not a number of bytes`},
		{"millstream: {ucx: {library: 7}}\n", "", `c.yaml:1: millstream.ucx.library: 7 is not of type string or null`},
	} {
		_, err := tryLoad(t, c.text, strings.Fields(c.env)...)
		var p *Problem
		if !errors.As(err, &p) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v\nwant %s", c.text, c.env, err, c.want)
		}
	}
}

func TestLoadCountsProblems(t *testing.T) {
	_, err := tryLoad(t, "distributed-ucxx:\n  a: 1\n  b: 2\n  c: 3\n")
	if err == nil || !strings.HasSuffix(err.Error(), "(and 2 more: `millstream config check` lists them)") ||
		!strings.Contains(err.Error(), "c.yaml:2: ") {
		t.Errorf("error %v", err)
	}
}

// What others own is left alone, and what is right passes.
func TestRightAndForeignKeysPass(t *testing.T) {
	for _, text := range []string{
		readTestdata(t, "new.yaml"), readTestdata(t, "legacy.yaml"), DefaultsYAML(),
		"distributed:\n  scheduler: {no-such-key: 1}\n  comm: {nope: x}\njobqueue: {slurm: {}}\n",
		"distributed-ucxx:\n", "distributed-ucxx: {tcp: on, nvlink: 'off', infiniband: 0, environment: {a: 1, b: y, " +
			"c: [1, 2], d: null, e: 1.5}, rmm: {pool-size: 1e9}}\n",
		"distributed-ucxx: {rmm: {pool-size: 12345678}}\n", "ucx: {tcp: true, net-devices: [mlx5_0:1, mlx5_1:1], " +
			"reuse-endpoints: false}\n",
	} {
		if _, err := tryLoad(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	// An empty variable says nothing.
	c := load(t, "", "DASK_DISTRIBUTED_UCXX__TCP=", "DASK_DISTRIBUTED_UCXX__RMM__POOL_SIZE=")
	if s, err := c.Settings(Overrides{}); err != nil || s.UCX.TCP != Unset || s.RMM.PoolSize != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// The examples of both forms mean the same.
func TestBothExamplesMeanTheSame(t *testing.T) {
	var all []string
	for _, name := range []string{"new.yaml", "legacy.yaml"} {
		s, err := load(t, readTestdata(t, name)).Settings(Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(s.Options, s.UCX.MultiBuffer, s.CUDAContext, s.RMM.PoolSize))
	}
	want := "map[LOG_LEVEL:info SOCKADDR_TLS_PRIORITY:tcp TLS:tcp,cuda_copy,cuda_ipc] false true 1000000000"
	if all[0] != want || all[1] != want {
		t.Errorf("%q, want %s", all, want)
	}
}

func TestSchemaCoversDefaults(t *testing.T) {
	for _, d := range Defaults()[:2] {
		for _, s := range sections() {
			if e, ok := lookup(d, s.key); ok {
				if problems := check(s.schema, s.key, e); len(problems) > 0 {
					t.Errorf("%v", problems[0])
				}
				properties, _ := s.schema.Entry("properties")
				if have, want := e.Value.(*Map).Len(), properties.Value.(*Map).Len(); have != want {
					t.Errorf("%s: %d defaults for %d keys", s.key, have, want)
				}
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"tcp", "tcp", 0}, {"tpc", "tcp", 2}, {"nvlnk", "nvlink", 1}, {"", "abc", 3},
		{"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
