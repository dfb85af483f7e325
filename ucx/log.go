package ucx

import (
	"fmt"
	"log/slog"
)

// logf reports the few things that a program cannot learn from an error: an
// overridden variable, a leak, a dropped message. It goes to slog's default logger
// at level WARN, so that the program decides where it ends up.
func logf(format string, args ...any) {
	slog.Warn("ucx: " + fmt.Sprintf(format, args...))
}
