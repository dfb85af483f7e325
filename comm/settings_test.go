package comm_test

import (
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/secure"
)

func load(t *testing.T, env ...string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Env: append([]string{"PATH="}, env...), Paths: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFromConfig(t *testing.T) {
	const key = "DASK_DISTRIBUTED__COMM__"
	d, l, err := comm.FromConfig(load(t), secure.Worker)
	if err != nil || d.Timeout != 30*time.Second || d.Compression != "" || d.TLS != nil || l.TLS != nil ||
		d.RequireEncryption {
		t.Errorf("nothing set: %+v, %+v, %v", d, l, err)
	}
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := ca.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := append(files.Env(), key+"TIMEOUTS__CONNECT=2 minutes", key+"TIMEOUTS__TCP=40s", key+"COMPRESSION=zstd")
	d, l, err = comm.FromConfig(load(t, env...), secure.Worker)
	if err != nil || d.Timeout != 2*time.Minute || d.TCPTimeout != 40*time.Second || l.TCPTimeout != 40*time.Second ||
		d.Compression != "zstd" || l.Compression != "zstd" || d.TLS == nil || l.TLS == nil || !d.RequireEncryption ||
		!l.RequireEncryption {
		t.Errorf("all set: %+v, %+v, %v", d, l, err)
	}
	if d, _, err := comm.FromConfig(load(t, key+"COMPRESSION=False"), secure.Client); err != nil ||
		d.Compression != "" {
		t.Errorf("compression off: %+v, %v", d, err)
	}
	for want, env := range map[string]string{
		"compression":        key + "COMPRESSION=rar",
		"use a name":         key + "COMPRESSION=True",
		"timeouts.connect":   key + "TIMEOUTS__CONNECT=soon",
		"min-version":        key + "TLS__MIN_VERSION=1.1",
		"tls.worker.cert":    key + "REQUIRE_ENCRYPTION=True",
		"require-encryption": key + "REQUIRE_ENCRYPTION=maybe",
	} {
		if _, _, err := comm.FromConfig(load(t, env), secure.Worker); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", env, err)
		}
	}
	files.Worker.Cert = "/nowhere.pem"
	if _, _, err := comm.FromConfig(load(t, files.Env()...), secure.Worker); err == nil ||
		!strings.Contains(err.Error(), "/nowhere.pem") {
		t.Errorf("a file that is not there: %v", err)
	}
}
