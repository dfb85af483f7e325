package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func environment(token string) func(string) string {
	env := map[string]string{
		"DASK_GATEWAY_CLUSTER_NAME": "c1", "DASK_GATEWAY_API_URL": "http://127.0.0.1:8000/api",
		"DASK_GATEWAY_API_TOKEN": token,
	}
	return func(name string) string { return env[name] }
}

func TestParseOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := Options{Server: "http://127.0.0.1:8000/api", Cluster: "c1", Token: "secret"}
	all := server
	all.Listen, all.Adaptive, all.Heartbeat, all.Idle = "127.0.0.1:0", 1500*time.Millisecond, 0, 2*time.Second
	defaults := server
	defaults.Listen, defaults.Adaptive, defaults.Heartbeat = ":0", 3*time.Second, 15*time.Second
	secret := defaults
	secret.Token = "of a file"
	for _, c := range []struct {
		args, token string
		want        Options
	}{
		{"", "secret", defaults},
		{"", file, secret},
		{"--dg-api-address 127.0.0.1:0 --dg-adaptive-period=1.5 --dg-heartbeat-period 0 --dg-idle-timeout=2.0",
			"secret", all},
		{"--dg-api-address 127.0.0.1:0 --dg-adaptive-period=1.5 --dg-heartbeat-period -1 --dg-idle-timeout=2.0",
			"secret", all},
	} {
		if got, err := ParseOptions(strings.Fields(c.args), environment(c.token)); err != nil || got != c.want {
			t.Errorf("%s: got %+v %v, want %+v", c.args, got, err, c.want)
		}
	}
}

func TestParseOptionsErrors(t *testing.T) {
	for _, c := range []struct{ args, token, want string }{
		{"--dg-api-address", "secret", "has no value"},
		{"--dg-api-address nowhere", "secret", "--dg-api-address nowhere"},
		{"--dg-adaptive-period 0", "secret", "above 0"},
		{"--dg-heartbeat-period soon", "secret", "number of seconds"},
		{"--dg-idle-timeout 1e300", "secret", "number of seconds"},
		{"--dg-idle-timeout NaN", "secret", "number of seconds"},
		{"--color red", "secret", "--color red"},
		{"", "", "DASK_GATEWAY_API_TOKEN"},
		{"", "/nonexistent/token", "/nonexistent/token"},
	} {
		if _, err := ParseOptions(strings.Fields(c.args), environment(c.token)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.args, err, c.want)
		}
	}
	for _, url := range []string{"nowhere", "ftp://host/", "http://", "://"} {
		get := func(name string) string {
			if name == "DASK_GATEWAY_API_URL" {
				return url
			}
			return "x"
		}
		if _, err := ParseOptions(nil, get); err == nil || !strings.Contains(err.Error(), "DASK_GATEWAY_API_URL") {
			t.Errorf("%s: got error %v, want one that names the variable", url, err)
		}
	}
}

func TestSplit(t *testing.T) {
	own, others := Split(strings.Fields("--a 1 --dg-x 2 b --dg-y=3 c --dg-z"))
	if want := strings.Fields("--dg-x 2 --dg-y=3 --dg-z"); !slices.Equal(own, want) {
		t.Errorf("got %v, want %v", own, want)
	}
	if want := strings.Fields("--a 1 b c"); !slices.Equal(others, want) {
		t.Errorf("got %v, want %v", others, want)
	}
}
