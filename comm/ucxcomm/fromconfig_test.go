package ucxcomm

import (
	"testing"

	"go.millstream.dev/config"
)

func TestFromConfig(t *testing.T) {
	cfg, err := config.Load(config.Options{
		Paths: []string{t.TempDir()},
		Env:   []string{"DASK_DISTRIBUTED_UCXX__TCP=True", "DASK_DISTRIBUTED_UCXX__MULTI_BUFFER=True"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := cfg.Settings(config.Overrides{UCX: config.UCX{Library: "/x/libucp.so.0", PlainTransports: config.On,
		Polling: config.On}})
	if err != nil {
		t.Fatal(err)
	}
	got := FromConfig(s)
	if got.Options["TLS"] != "tcp" || !got.MultiBuffer || !got.PlainTransports || !got.Polling ||
		got.Library != "/x/libucp.so.0" {
		t.Errorf("%+v", got)
	}
	s, err = cfg.Settings(config.Overrides{UCX: config.UCX{MultiBuffer: config.Off}})
	if err != nil {
		t.Fatal(err)
	}
	if got := FromConfig(s); got.MultiBuffer || got.PlainTransports || got.Polling || got.Library != "" {
		t.Errorf("%+v", got)
	}
}
