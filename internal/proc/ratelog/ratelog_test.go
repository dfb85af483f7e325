package ratelog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var l Limiter
		for range 1000 {
			l.Warn(log, "peer refused")
		}
		if got := strings.Count(out.String(), "peer refused"); got != Burst {
			t.Errorf("%d messages at once, want %d", got, Burst)
		}
		out.Reset()
		time.Sleep(3 * Interval)
		for range 1000 {
			l.Warn(log, "peer refused")
		}
		if got := strings.Count(out.String(), "peer refused"); got != 3 {
			t.Errorf("%d messages after three intervals, want 3", got)
		}
		if !strings.Contains(out.String(), "suppressed=980") {
			t.Errorf("no count of suppressed messages in %q, want suppressed=980", out.String())
		}
	})
}
