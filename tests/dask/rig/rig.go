package rig

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/secure"
)

// Rig starts the processes of one test.
type Rig struct {
	testing.TB
	Setting
	// Context ends with the test, or when Patience is over three times; over ucxx nine times.
	Context context.Context
	// Interpreter has the setting's release of Dask: what --python gets.
	Interpreter string
	// Env are further variables of all processes, as NAME=value.
	Env []string

	dir    string           // of the processes' files
	tls    *secure.Security // nil but for tls
	tlsDir string
	count  map[string]int // of processes, for their names
	wrong  *failures
}

// New makes a rig in the setting that the environment chooses.
func New(t testing.TB) *Rig {
	t.Helper()
	return With(t, Current())
}

// With makes a rig in a setting. One of ucxx must be the whole binary's.
func With(t testing.TB, s Setting) *Rig {
	t.Helper()
	python, err := s.Python()
	if err != nil {
		t.Fatal(err)
	}
	limit := 3 * Patience
	if s.Protocol == "ucxx" {
		limit *= 3 // Python's processes spin there, one core each
	}
	wrong := repeated(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	r := &Rig{TB: t, Setting: s, Context: ctx, Interpreter: python, dir: t.TempDir(), count: map[string]int{},
		wrong: wrong}
	switch s.Protocol {
	case "tcp":
	case "tls":
		ca, err := secure.NewCA(secure.CAConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r.tlsDir = t.TempDir()
		if r.tls, err = ca.WriteFiles(r.tlsDir); err != nil {
			t.Fatal(err)
		}
	case "ucxx":
		if os.Getenv(insideVariable) == "" {
			t.Fatalf("ucxx needs a network namespace of its own: set %s=ucxx for the whole binary", ProtocolVariable)
		}
	default:
		t.Fatalf("protocol %q: want tcp, tls or ucxx", s.Protocol)
	}
	return r
}

// Sub is the rig of a subtest: what it starts ends with the subtest.
func (r *Rig) Sub(t *testing.T) *Rig {
	sub := *r
	sub.TB, sub.wrong = t, repeated(t)
	return &sub
}

// env is the environment of all processes.
func (r *Rig) env() []string {
	var env []string
	for _, v := range os.Environ() {
		// The tests' own settings are not those of the processes.
		if !strings.HasPrefix(v, "DASK_") && !strings.HasPrefix(v, "PYTHON") {
			env = append(env, v)
		}
	}
	env = append(env, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "PYTHONPATH="+Root()+"/internal/dask/python:"+
		Root()+
		"/tests/dask/peers",
		"DASK_TEMPORARY_DIRECTORY="+r.temp(), "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=60s",
		"DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE=false",
		// Every two seconds Dask's client puts an identity without workers in the place of the one that scheduler_info
		// is about to return.
		"DASK_DISTRIBUTED__CLIENT__SCHEDULER_INFO_INTERVAL=1h")
	if r.Older("2025.7.0") {
		env = append(env, "DASK_DISTRIBUTED__WORKER__PRELOAD=pyarrow.fs") // Dask uses it there without importing it
	}
	if r.tls != nil {
		env = append(env, r.tls.Env()...)
	}
	if r.Protocol == "ucxx" {
		// A scheduler that is started again on its port finds connections of the last one there.
		env = append(env, "UCX_TLS="+ucxTransports, "UCX_TCP_CM_REUSEADDR=y")
	}
	return append(env, r.Env...)
}

// temp is the folder of the processes' files: Dask looks through what others have left in a shared one.
func (r *Rig) temp() string { return r.dir }

// Dial is how our own processes connect in a role.
func (r *Rig) Dial(role secure.Role) comm.DialConfig {
	r.Helper()
	if r.tls == nil {
		return comm.DialConfig{}
	}
	cfg, err := r.tls.Dial(role)
	if err != nil {
		r.Fatal(err)
	}
	return comm.DialConfig{TLS: cfg}
}

// Listen is how our own processes serve in a role.
func (r *Rig) Listen(role secure.Role) comm.ListenConfig {
	r.Helper()
	if r.tls == nil {
		return comm.ListenConfig{}
	}
	cfg, err := r.tls.Listen(role)
	if err != nil {
		r.Fatal(err)
	}
	return comm.ListenConfig{TLS: cfg}
}

// Anywhere is an address to listen on in the setting's protocol.
func (r *Rig) Anywhere() string { return r.Protocol + "://127.0.0.1:0" }
