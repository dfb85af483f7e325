package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestSettingsErrorsNameBothKeysAndTheSource(t *testing.T) {
	for _, c := range []struct{ text, env, want string }{
		{"distributed-ucxx:\n  tcp: true\n  rdmacm: true\n", "", "c.yaml:3: distributed-ucxx.rdmacm needs " +
			"distributed-ucxx.infiniband: set distributed-ucxx.infiniband to true, or remove distributed-ucxx.rdmacm"},
		{"distributed-ucxx:\n  infiniband: false\n", "DASK_UCX__RDMACM=True", "DASK_UCX__RDMACM: " +
			"distributed-ucxx.rdmacm needs distributed-ucxx.infiniband"},
		{"distributed-ucxx:\n  environment:\n    net-devices: auto\n", "",
			`c.yaml:3: distributed-ucxx.environment.net-devices "auto" needs distributed-ucxx.infiniband`},
	} {
		_, err := load(t, c.text, strings.Fields(c.env)...).Settings(Overrides{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.text, c.env, err)
		}
	}
	c := load(t, "")
	if _, err := c.Settings(Overrides{UCX: UCX{RDMACM: On}, From: "--enable-rdmacm"}); err == nil ||
		!strings.HasPrefix(err.Error(), "--enable-rdmacm: ") {
		t.Errorf("error %v", err)
	}
	if _, err := c.Settings(Overrides{RMM: RMM{PoolSize: -1}}); err == nil {
		t.Error("a negative pool")
	}
	for key, value := range map[string]any{
		"distributed-ucxx.tcp": "maybe", "distributed-ucxx.rmm.pool-size": "lots",
		"distributed-ucxx.environment.a":           map[string]any{"b": 1},
		"distributed-ucxx.environment.net-devices": map[string]any{"b": 1}, "millstream.ucx.library": 3,
		"millstream.ucx.plain-transports": "x", "millstream.ucx.polling": "x",
	} {
		// Set is not checked; Settings is.
		restore, err := c.Set(map[string]any{key: value})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Settings(Overrides{}); err == nil || !strings.HasPrefix(err.Error(), "set: "+key) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
		restore()
	}
}

func TestSettingsWithoutEffectAreReported(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{tcp: true, environment: {tls: all}}", "distributed-ucxx.environment.TLS has no effect: other settings " +
			"make UCX_TLS=tcp"},
	} {
		s, err := load(t, "distributed-ucxx: "+c.text+"\n").Settings(Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Text, c.want) {
			t.Errorf("%s: %v", c.text, s.Warnings)
		}
	}
}

func TestEnvironmentOptions(t *testing.T) {
	s, err := load(t, "distributed-ucxx: {environment: {rndv-thresh: 8192, UCX_MAX_RNDV_RAILS: 2, Log_Level: info, "+
		"a: true, b: no, c: [x, 1], d: 1.5, e: null}}\n",
		"DASK_DISTRIBUTED_UCXX__ENVIRONMENT__TLS=tcp", "UCX_LOG_LEVEL=error").Settings(
		Overrides{UCX: UCX{Environment: map[string]string{"A": "n", "net-devices": "lo"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "map[A:n B:n C:x,1 D:1.5 MAX_RNDV_RAILS:2 NET_DEVICES:lo RNDV_THRESH:8192 TLS:tcp]"
	if got := fmt.Sprint(s.Options); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s.Effective("LOG_LEVEL") != "error" || s.UCX.NetDevices != "lo" {
		t.Errorf("log level %q, devices %q", s.Effective("LOG_LEVEL"), s.UCX.NetDevices)
	}
}

// A CUDA context follows from what UCX will really use.
func TestCUDAContext(t *testing.T) {
	for _, c := range []struct {
		text, env string
		want      bool
	}{
		{"{}", "", false}, {"{tcp: true}", "", false}, {"{nvlink: true}", "", true}, {"{cuda-copy: true}", "", true},
		{"{create-cuda-context: true}", "", true},
		{"{nvlink: true, create-cuda-context: false}", "", false}, {"{nvlink: true}", "UCX_TLS=tcp", false},
		{"{}", "UCX_TLS=cuda,sm", true}, {"{}", "UCX_TLS=^cuda", false},
		{"{environment: {tls: 'tcp,cuda_copy'}}", "", true},
	} {
		s, err := load(t, "distributed-ucxx: "+c.text+"\n", strings.Fields(c.env)...).Settings(Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		if s.CUDAContext != c.want {
			t.Errorf("%s %s: %v", c.text, c.env, s.CUDAContext)
		}
	}
}

func TestLibrary(t *testing.T) {
	for _, c := range []struct {
		text, env, struct_, want, source string
	}{
		{"{}", "", "", "", "default"}, {"{ucx: {library: /a}}", "", "", "/a", "c.yaml:1"},
		{"{ucx: {library: /a}}", "MILLSTREAM_UCX_LIBRARY=/b", "", "/b", "MILLSTREAM_UCX_LIBRARY"},
		{"{ucx: {library: /a}}", "MILLSTREAM_UCX_LIBRARY=/b", "/c", "/c", "program"},
		{"{}", "DASK_MILLSTREAM__UCX__LIBRARY=/d", "", "/d", "DASK_MILLSTREAM__UCX__LIBRARY"},
	} {
		s, err := load(t, "millstream: "+c.text+"\n", strings.Fields(c.env)...).Settings(
			Overrides{UCX: UCX{Library: c.struct_}})
		if err != nil {
			t.Fatal(err)
		}
		var source string
		for _, v := range s.Values {
			if v.Key == "millstream.ucx.library" {
				source = v.Source.String()
			}
		}
		if s.UCX.Library != c.want || !strings.HasSuffix(source, c.source) {
			t.Errorf("%+v: %q from %q", c, s.UCX.Library, source)
		}
	}
	s, err := load(t, "millstream: {ucx: {plain-transports: yes}}\n").Settings(Overrides{})
	if err != nil || s.UCX.PlainTransports != On {
		t.Errorf("%v, %v", s, err)
	}
}

// Every setting is listed once with its newest name, in the schema's order.
func TestValuesListsEverySetting(t *testing.T) {
	s, err := load(t, "ucx: {tcp: true}\n").Settings(Overrides{UCX: UCX{NVLink: Off}, From: "--disable-nvlink"})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, v := range s.Values {
		keys = append(keys, strings.TrimPrefix(v.Key, "distributed-ucxx.")+"="+Format(v.Value))
	}
	want := "cuda-copy=null tcp=true nvlink=false infiniband=null rdmacm=null create-cuda-context=null " +
		"multi-buffer=null environment.net-devices=null rmm.pool-size=null millstream.ucx.library=null " +
		"millstream.ucx.plain-transports=null millstream.ucx.polling=null"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
