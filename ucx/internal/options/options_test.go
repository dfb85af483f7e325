package options

import (
	"os"
	"slices"
	"testing"
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

func TestApplyDefaults(t *testing.T) {
	unset(t, "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING", "UCX_MM_ERROR_HANDLING",
		"UCX_CMA_MEMORY_INVALIDATE")
	for _, tc := range []struct {
		tls   string
		is117 bool
		set   string
		want  []string
	}{
		{"all", true, "", []string{"POSIX_ERROR_HANDLING=y", "SYSV_ERROR_HANDLING=y", "CMA_MEMORY_INVALIDATE=y"}},
		{"all", false, "", []string{"MEMORY_INVALIDATE=y", "MM_ERROR_HANDLING=y"}},
		{"tcp,posix", true, "", []string{"POSIX_ERROR_HANDLING=y"}},
		{"^posix", true, "", []string{"SYSV_ERROR_HANDLING=y", "CMA_MEMORY_INVALIDATE=y"}},
		{"tcp", true, "", nil},
		{"all", true, "UCX_MM_ERROR_HANDLING", []string{"CMA_MEMORY_INVALIDATE=y"}},
	} {
		t.Run(tc.tls+tc.set, func(t *testing.T) {
			if tc.set != "" {
				t.Setenv(tc.set, "n")
			}
			var got modified
			ApplyDefaults(&got, tc.is117, tc.tls)
			if !slices.Equal(got, tc.want) {
				t.Errorf("UCX_TLS=%s, 1.17 %t: got %q, want %q", tc.tls, tc.is117, got, tc.want)
			}
		})
	}
}

func TestEffectiveTLS(t *testing.T) {
	unset(t, "UCX_TLS")
	for want, set := range map[string]map[string]string{"all": nil, "a": {"TLS": "a", "UCX_TLS": "b"},
		"b": {"UCX_TLS": "b"}} {
		if got := EffectiveTLS(set); got != want {
			t.Errorf("EffectiveTLS(%v) = %q, want %q", set, got, want)
		}
	}
	t.Setenv("UCX_TLS", "tcp")
	if got := EffectiveTLS(map[string]string{"TLS": "a"}); got != "tcp" {
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
