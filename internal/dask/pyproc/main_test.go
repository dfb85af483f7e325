package pyproc

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/testkit/peerpython"
)

func TestMain(m *testing.M) {
	// The folder of private folders is locked until the process ends.
	os.Exit(leak.Main(m, leak.IgnoreFD(filepath.Join(os.TempDir(), "millstream-helpers-"))))
}

// envTestPython is the interpreter of tests that run as an ordinary user, envTestPath the packages that it needs.
const (
	envTestPython = "MILLSTREAM_TEST_PYTHON"
	envTestPath   = "MILLSTREAM_TEST_PYTHONPATH"
)

// interpreter returns that of the peers of the interop tests, which has the packages that children import.
func interpreter(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(envTestPython); path != "" {
		return path
	}
	return peerpython.Path(t, "../../..")
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// echo starts the module of the tests.
func echo(t testing.TB, change func(*Config)) *Process {
	t.Helper()
	cfg := echoConfig(t)
	if change != nil {
		change(&cfg)
	}
	p, err := Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func echoConfig(t testing.TB) Config {
	cfg := Config{Python: interpreter(t), Module: "millstream._echo", Logger: slog.New(slog.DiscardHandler)}
	if path := os.Getenv(envTestPath); path != "" {
		cfg.Env = []string{"PYTHONPATH=" + path}
	}
	return cfg
}

// lines is a log that keeps its messages, and the output of Python processes without the message.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	text []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "line" {
			text = a.Value.String()
		}
		return true
	})
	l.text = append(l.text, text)
	return nil
}

func newLogger(l *lines) *slog.Logger { return slog.New(l) }

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.text...)
}
