package tracker

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// failure returns the error of a task in these tests.
type failure struct {
	key                  task.Key
	exception, traceback string
}

func (f *failure) Error() string { return f.exception }

// ours is the identity of a Millstream scheduler.
var ours = Identity{ID: "S", Epoch: 1}

// empty returns a client that is connected to a Millstream scheduler and has no keys.
func empty(t testing.TB) *Tracker {
	t.Helper()
	c := New(Config{ID: "C", Registry: func() string { return "r" }, Event: func(string, any) {},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Failure: func(key task.Key, exception, traceback any) error {
			if b, ok := exception.([]byte); ok {
				if e, err := pickle.LoadException(b, pickle.Limits{}); err == nil {
					exception = e
				}
			}
			return &failure{key, fmt.Sprint(exception), fmt.Sprint(traceback)}
		}})
	c.Connected(ours)
	return c
}

// offline returns a client that has not sent anything and holds keys a and b.
func offline(t testing.TB) *Tracker {
	t.Helper()
	c := empty(t)
	c.hold(task.NewKey("a"))
	c.hold(task.NewKey("b"))
	return c
}

func encoded(t testing.TB, v any) *wire.Message {
	t.Helper()
	m, err := wire.Encode(v, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
