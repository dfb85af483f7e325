package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/internal/task"
)

// warmUp calls registered functions, one after the other. A panic in one is an error.
func warmUp(ctx context.Context, names []string, log *slog.Logger) error {
	if err := checkWarmUp(names); err != nil {
		return err
	}
	for _, name := range names {
		start := time.Now()
		f, _ := task.Lookup(name)
		if _, err := f.Invoke(ctx, nil); err != nil {
			return fmt.Errorf("cluster: warm-up %q: %w", name, err)
		}
		log.Info("warmed up", "function", name, "took", time.Since(start))
	}
	return nil
}
