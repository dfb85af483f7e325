package ucx

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

func init() { roles["signals"] = recoverFromNil }

// recoverFromNil uses UCX, then dereferences nil pointers, on threads that UCX has been
// called on and others. It says what was logged and how often it recovered.
func recoverFromNil(c *control) error {
	var logged bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	w, done, err := roleWorker(Config{})
	if err != nil {
		return err
	}
	defer done()
	if _, err := w.Address(); err != nil {
		return err
	}
	recovered := 0
	for range 3 {
		ended := make(chan error)
		go func() {
			runtime.LockOSThread()
			ended <- dereference(nil)
		}()
		for _, err := range []error{<-ended, dereference(nil)} {
			re, ok := err.(runtime.Error)
			if !ok || !strings.Contains(re.Error(), "nil pointer") {
				return fmt.Errorf("a nil dereference gave %v", err)
			}
			recovered++
		}
	}
	c.say("recovered %d %s", recovered, strings.ReplaceAll(logged.String(), "\n", " "))
	c.next()
	return nil
}

// dereference writes through p; the panic of a nil pointer is its error.
//
//go:noinline
func dereference(p *int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	*p = 1
	return nil
}

// Go turns SIGSEGV into a panic. UCX's handlers, which it installs when it is loaded
// unless told otherwise, print a C backtrace and end the process.
func TestNilDereferenceStillPanics(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		says []string // in the log; nothing: silence
	}{
		{name: "default"},
		{name: "empty", env: []string{"UCX_ERROR_SIGNALS="}},
		{
			name: "set by the user", env: []string{"UCX_ERROR_SIGNALS=SIGSEGV,SIGBUS,SIGFPE"},
			says: []string{"UCX_ERROR_SIGNALS", "SIGSEGV,SIGBUS,SIGFPE", "overriding", "nil dereference"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := startHelper(t, "signals", c.env...)
			words := h.hear("recovered")
			if words[0] != "6" {
				t.Errorf("recovered %s times, not 6", words[0])
			}
			log := strings.Join(words[1:], " ")
			if len(c.says) == 0 && strings.Contains(log, "UCX_ERROR_SIGNALS") {
				t.Errorf("a warning about what nobody set: %s", log)
			}
			for _, s := range c.says {
				if !strings.Contains(log, s) {
					t.Errorf("the log does not say %q: %s", s, log)
				}
			}
			h.quit()
		})
	}
}
