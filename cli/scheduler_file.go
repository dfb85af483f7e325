package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.millstream.dev/wire/msgpack"
)

// writeSchedulerFile writes what a scheduler says of itself, as Dask does, for workers and
// clients that share a file system with it. The file appears whole or not at all.
func writeSchedulerFile(path string, identity msgpack.Map) error {
	text, err := json.MarshalIndent(plain(identity), "", "  ")
	if err != nil {
		return fmt.Errorf("--scheduler-file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("--scheduler-file: %w", err)
	}
	_, err = tmp.Write(append(text, '\n'))
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("--scheduler-file: %w", err)
	}
	return nil
}

// plain turns a tree of msgpack into one that encoding/json takes.
func plain(v any) any {
	switch v := v.(type) {
	case msgpack.Map:
		out := make(map[string]any, len(v))
		for _, p := range v {
			out[fmt.Sprint(plain(p.Key))] = plain(p.Value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case []byte:
		return string(v)
	}
	return v
}

// readSchedulerFile returns the address in a scheduler's file. It waits for the file, which
// may be about to be written, for as long as wait says (0: for ever).
func readSchedulerFile(ctx context.Context, path string, wait time.Duration) (string, error) {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		text, err := os.ReadFile(path)
		switch {
		case err == nil && json.Valid(text): // Dask writes it in place
			var file struct {
				Address string `json:"address"`
			}
			if err := json.Unmarshal(text, &file); err != nil || file.Address == "" {
				return "", fmt.Errorf("--scheduler-file %s: it has no address in it: was it written by `scheduler --scheduler-file`?", path)
			}
			return file.Address, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("--scheduler-file: %w", err)
		}
		select {
		case <-ctx.Done():
			if wait > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return "", fmt.Errorf("--scheduler-file %s: no scheduler has written it within --death-timeout %v", path, wait)
			}
			return "", context.Cause(ctx)
		case <-t.C:
		}
	}
}
