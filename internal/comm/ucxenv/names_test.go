package ucxenv

import (
	"strings"
	"testing"
)

func one(t *testing.T, env string, h Host) Finding {
	t.Helper()
	found := Lint([]string{env}, h)
	if len(found) != 1 {
		t.Fatalf("%s: %d findings: %v", env, len(found), found)
	}
	return found[0]
}

func TestLintMisspelt(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"UCX_NET_DEVICE", "UCX_NET_DEVICES"},
		{"UCX_TSL", "UCX_TLS"},
		{"UCX_TL", "UCX_TLS"},
		{"UCX_RNDV_TRESH", "UCX_RNDV_THRESH"},
		{"UCX_RNDV_THRESHOLD", "UCX_RNDV_THRESH"},
		{"UCX_LOGLEVEL", "UCX_LOG_LEVEL"},
		{"UCX_MEMTYP_CACHE", "UCX_MEMTYPE_CACHE"},
		{"UCX_MODULES_DIR", "UCX_MODULE_DIR"},
		{"UCX_SOCKADDR_TLS_PRIORTIY", "UCX_SOCKADDR_TLS_PRIORITY"},
		{"UCX_IB_GID_INDX", "UCX_IB_GID_INDEX"},
		{"UCX_CUDA_IPC_CASHE", "UCX_CUDA_IPC_CACHE"},
		{"ucx_tls", "UCX_TLS"},
		{"UCX_Tls", "UCX_TLS"},
	} {
		f := one(t, c.env+"=x", Host{})
		if f.Level != Warn || f.Var != c.env || f.Fix != "did you mean "+c.want+"?" {
			t.Errorf("%s: %v, want %s", c.env, f, c.want)
		}
	}
	if f := one(t, "UCX_FROBNICATE=1", Host{}); f.Level != Warn || !strings.Contains(f.Fix, "ucx_info -c") {
		t.Errorf("%v", f)
	}
}

func TestLintKnownNames(t *testing.T) {
	for _, env := range []string{
		"UCX_LOG_LEVEL", "UCX_MODULE_DIR", "UCX_CONFIG_DIR", "UCX_ERROR_SIGNALS", "UCX_HANDLE_ERRORS", "UCX_MEM_EVENTS",
		"UCX_RC_MLX5_TX_QUEUE_LEN", "UCX_RC_TX_QUEUE_LEN", "UCX_IB_NUM_PATHS", "UCX_CUDA_COPY_MAX_REG_RATIO",
		"UCX_TCP_CM_REUSEADDR",
		"UCX_RNDV_FRAG_MEM_TYPE", "UCX_MAX_RNDV_RAILS", "UCX_PROTO_ENABLE", "UCX_KEEPALIVE_INTERVAL",
		"UCX_WARN_UNUSED_ENV_VARS",
		"UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING", "UCXPY_IFNAME", "UCXX_LOG_LEVEL", "HOME",
	} {
		if found := Lint([]string{env + "=x", "malformed"}, Host{}); len(found) != 0 {
			t.Errorf("%s: %v", env, found)
		}
	}
	// A name of a later UCX than the built-in list comes from the library itself.
	if found := Lint([]string{"UCX_BRAND_NEW=1"}, Host{Options: []string{"UCX_BRAND_NEW"}}); len(found) != 0 {
		t.Errorf("%v", found)
	}
	// Such a name is suggested, too.
	if f := one(t, "UCX_BRAND_NWE=1", Host{Options: []string{"UCX_BRAND_NEW"}}); !strings.Contains(f.Fix,
		"UCX_BRAND_NEW?") {
		t.Errorf("%v", f)
	}
	if f := one(t, "UCX_HOME=/opt/ucx", Host{}); f.Level != Note {
		t.Errorf("%v", f)
	}
}

func TestLintVersions(t *testing.T) {
	for _, c := range []struct {
		env, version string
		has          string
	}{
		{"UCX_MAX_RMA_RAILS", "1.13.1", "came with UCX 1.14"},
		{"UCX_MAX_RMA_RAILS", "1.14.0", ""},
		{"UCX_MAX_RMA_RAILS", "1.21.0", ""},
		{"UCX_MAX_RMA_RAILS", "", ""},
		{"UCX_MAX_RMA_RAILS", "unknown", ""},
		{"UCX_CUDA_IPC_ENABLE_SAME_PROCESS", "1.21.0", "UCX 1.20 was the last"},
		{"UCX_CUDA_IPC_ENABLE_SAME_PROCESS", "1.19.1", "came with UCX 1.20"},
		{"UCX_CUDA_IPC_ENABLE_SAME_PROCESS", "1.20", ""},
	} {
		found := Lint([]string{c.env + "=1"}, Host{Version: c.version})
		if c.has == "" {
			if len(found) != 0 {
				t.Errorf("%s with %s: %v", c.env, c.version, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Level != Warn || !strings.Contains(found[0].Problem, c.has) {
			t.Errorf("%s with %s: %v, want %q", c.env, c.version, found, c.has)
		}
	}
}

// Every name that the two real libraries print is in the built-in list, and its
// range of versions includes theirs.
func TestKnownCoversRealLibraries(t *testing.T) {
	for file, version := range map[string]string{"config-1.13.1.txt": "1.13.1", "config-1.21.0.txt": "1.21.0"} {
		for _, o := range readConfig(t, file) {
			s, ok := known()[o.Name]
			v := parseVersion(version)
			if !ok || v.before(s.since) || s.until.before(v) && s.until.major != 0 {
				t.Errorf("%s of UCX %s: known %v, range %v", o.Name, version, ok, s)
			}
		}
	}
	if n := len(known()); n < 1400 {
		t.Errorf("only %d names", n)
	}
	for name := range known() {
		if !isName(name) || strings.Contains(name, "__") || strings.HasSuffix(name, "_") {
			t.Errorf("odd name %q", name)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"tls", "tls", 0}, {"tsl", "tls", 1}, {"tl", "tls", 1},
		{"tcpp", "tcp", 1}, {"ca", "abc", 3}, {"kitten", "sitting", 3}, {"abcd", "badc", 2},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"tcp", "self", "sm", "shm", "sysv", "posix", "posix2"}
	for _, c := range []struct{ in, want string }{
		{"tcpp", "tcp"}, {"posx", "posix"}, {"sem", "shm,sm"}, {"zzz", ""}, {"hsm", "shm,sm"}, {"", ""},
	} {
		if got := strings.Join(nearest(c.in, names), ","); got != c.want {
			t.Errorf("nearest(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}
