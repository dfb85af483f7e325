package options

import (
	"os"
	"slices"
	"testing"

	"go.millstream.dev/internal/comm/ucxenv"
)

// modified records what was set.
type modified []string

func (m *modified) Modify(name, value string) int {
	*m = append(*m, name+"="+value)
	return 0
}

// unset removes variables for the time of a test.
func unset(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		t.Setenv(name, "") // puts it back at the end
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

// unsetAll removes the variables that ApplyDefaults reads.
func unsetAll(t *testing.T) {
	t.Helper()
	unset(t, "UCX_TLS", "UCX_NET_DEVICES", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING",
		"UCX_MM_ERROR_HANDLING", "UCX_CMA_MEMORY_INVALIDATE", "UCX_TCP_TX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE")
}

func TestApplyDefaults(t *testing.T) {
	unsetAll(t)
	shared := []string{"POSIX_ERROR_HANDLING=y", "SYSV_ERROR_HANDLING=y", "CMA_MEMORY_INVALIDATE=y"}
	segments := "TCP_TX_SEG_SIZE=64k"
	for _, tc := range []struct {
		tls   string
		is117 bool
		env   string
		want  []string
	}{
		{"all", true, "", append(slices.Clone(shared), segments)},
		{"all", false, "", []string{"MEMORY_INVALIDATE=y", "MM_ERROR_HANDLING=y", "TX_SEG_SIZE=64k"}},
		{"tcp,posix", true, "", []string{"POSIX_ERROR_HANDLING=y", segments}},
		{"^posix", true, "", []string{"SYSV_ERROR_HANDLING=y", "CMA_MEMORY_INVALIDATE=y", segments}},
		{"^tcp", true, "", shared},
		{"self,shm", true, "", shared},
		{"self,sm", false, "", []string{"MEMORY_INVALIDATE=y", "MM_ERROR_HANDLING=y"}},
		{"tcp", true, "", []string{segments}},
		{"tcp", false, "", []string{"TX_SEG_SIZE=64k"}},
		{"all", true, "UCX_MM_ERROR_HANDLING", []string{"CMA_MEMORY_INVALIDATE=y", segments}},
		{"tcp", true, "UCX_TCP_TX_SEG_SIZE", nil},
		{"tcp", true, "UCX_TCP_RX_SEG_SIZE", nil},
		{"tcp", false, "UCX_TCP_TX_SEG_SIZE", nil},
	} {
		t.Run(tc.tls+tc.env, func(t *testing.T) {
			if tc.env != "" {
				t.Setenv(tc.env, "n")
			}
			var got modified
			ApplyDefaults(&got, tc.is117, map[string]string{"TLS": tc.tls})
			if !slices.Equal(got, tc.want) {
				t.Errorf("UCX_TLS=%s, 1.17 %t: got %q, want %q", tc.tls, tc.is117, got, tc.want)
			}
		})
	}
}

// Options of the context take precedence over the defaults, with and without the prefix UCX_.
func TestApplyDefaultsOptions(t *testing.T) {
	unsetAll(t)
	for _, tc := range []struct {
		name, value string
		want        modified
	}{
		{"TCP_TX_SEG_SIZE", "16k", nil},
		{"UCX_TCP_TX_SEG_SIZE", "16k", nil},
		{"TCP_RX_SEG_SIZE", "32k", nil}, // smaller than the default of the other: UCX would reject the pair
		{"UCX_TCP_RX_SEG_SIZE", "1m", nil},
		{"TCP_SNDBUF", "1m", modified{"TCP_TX_SEG_SIZE=64k"}},
		{"NET_DEVICES", "all", modified{"TCP_TX_SEG_SIZE=64k"}},
		{"NET_DEVICES", "^mlx5_0:1", modified{"TCP_TX_SEG_SIZE=64k"}},
		{"NET_DEVICES", "mlx5_0:1, mlx5_1:1", nil}, // no interface for tcp: UCX 1.13 would warn
		{"UCX_NET_DEVICES", "mlx5_0:1," + loopback(t), modified{"TCP_TX_SEG_SIZE=64k"}},
	} {
		var got modified
		ApplyDefaults(&got, true, map[string]string{"TLS": "self,tcp", tc.name: tc.value})
		if !slices.Equal(got, tc.want) {
			t.Errorf("option %s=%s: got %q, want %q", tc.name, tc.value, got, tc.want)
		}
	}
}

func loopback(t *testing.T) string {
	t.Helper()
	name := ucxenv.LoopbackDevice()
	if name == "" {
		t.Fatal("got no loopback interface, want one")
	}
	return name
}

func TestEffective(t *testing.T) {
	unset(t, "UCX_TLS")
	for want, set := range map[string]map[string]string{"all": nil, "a": {"TLS": "a", "UCX_TLS": "b"},
		"b": {"UCX_TLS": "b"}} {
		if got := effective(set, "UCX_TLS"); got != want {
			t.Errorf("effective(%v) = %q, want %q", set, got, want)
		}
	}
	t.Setenv("UCX_TLS", "tcp")
	if got := effective(map[string]string{"TLS": "a"}, "UCX_TLS"); got != "tcp" {
		t.Errorf("with the variable: got %q, want tcp", got)
	}
}

func TestParse(t *testing.T) {
	got := Parse("#\n# UCX\nUCX_TLS=all\n  UCX_A=b=c\nOTHER=1\n")
	if want := []Option{{"UCX_A", "b=c"}, {"UCX_TLS", "all"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTransports(t *testing.T) {
	got := Transports("# UCP context\n#      resource 0  :  md 0  dev 0  flags -- self/memory\n" +
		"#  resource 1 : md 1 dev 2 flags -s tcp/eth0\n# memory: 1\n")
	if want := []string{"self/memory", "tcp/eth0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPinSafe(t *testing.T) {
	for _, tc := range []struct {
		transports []string
		want       bool
	}{
		{nil, false},
		{[]string{"self/memory", "tcp/eth0", "cuda_ipc/cuda"}, true},
		{[]string{"tcp/lo", "rc_mlx5/mlx5_0:1"}, false},
	} {
		if got := PinSafe(tc.transports); got != tc.want {
			t.Errorf("PinSafe(%q) = %t, want %t", tc.transports, got, tc.want)
		}
	}
}
