package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/wire/msgpack"
)

// writeSchedulerFile writes the identity of a scheduler, as Dask does, and the paths of its certificates, for workers
// and clients on the same file system. The file is replaced atomically.
func writeSchedulerFile(path string, identity msgpack.Map, tls *cluster.SchedulerFileTLS) error {
	tree, _ := plain(identity).(map[string]any)
	if tls != nil {
		tree["tls"] = tls
	}
	text, err := json.MarshalIndent(tree, "", "  ")
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

// plain converts a msgpack tree for encoding/json.
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

// readSchedulerFile reads a scheduler file. It waits for the file for up to wait (0: without a limit), because the
// scheduler may still be starting.
func readSchedulerFile(ctx context.Context, path string, wait time.Duration) (cluster.SchedulerFile, error) {
	limited := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	file, err := cluster.ReadSchedulerFile(limited, path)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return file, fmt.Errorf("--scheduler-file %s: file not written within --death-timeout %v", path,
			wait)
	}
	return file, err
}
