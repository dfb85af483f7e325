package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/wire/msgpack"
)

// maxPreload bounds the size of a preloaded file.
const maxPreload = 16 << 20

// Preload starts the helper if there are modules to preload, and returns the error of one that cannot be imported.
// Exceptions of dask_setup are logged only, as in Dask.
func (s *Hooks) Preload(ctx context.Context) error {
	if len(s.Preloads) == 0 {
		return nil
	}
	// It starts a helper, for which Restore is called.
	if _, err := s.Call(ctx, "plugin-events", []any{}, nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// restorePreload runs the preloads in a new helper.
func (s *Hooks) restorePreload(ctx context.Context, p *pyproc.Process) {
	if len(s.Preloads) == 0 {
		return
	}
	body, frames, err := s.preloads()
	if err == nil {
		_, err = p.Call(ctx, "preload", body, frames)
	}
	s.mu.Lock()
	s.failed = err
	s.mu.Unlock()
	s.loaded.Store(err == nil)
	if err != nil {
		s.Log.Error("preload failed", "modules", s.Preloads, "error", err)
	}
}

// preloads returns names and arguments, and the content of files: the helper cannot read all folders.
func (s *Hooks) preloads() (body msgpack.Map, frames [][]byte, err error) {
	names := make([]any, len(s.Preloads))
	for i, name := range s.Preloads {
		names[i] = []any{name, nil}
		if !strings.HasSuffix(name, ".py") || isURL(name) {
			continue
		}
		text, err := readFile(name)
		if err != nil {
			return nil, nil, err
		}
		names[i] = []any{filepath.Base(name), len(frames)}
		frames = append(frames, text)
	}
	return msgpack.MapOf("names", names, "argv", s.PreloadArgv), frames, nil
}

func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// readFile reads a file of at most maxPreload bytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPreload+1))
	if err == nil && len(b) > maxPreload {
		err = errors.New("too large")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s (at most %d bytes): %w", name, maxPreload, err)
	}
	return b, nil
}
