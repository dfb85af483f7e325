package workers

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/peers"
)

// DeathOp is the request by which the nanny of a worker process reports how the process ended. Its arguments are token,
// a secret with which the process has registered, and cause.
const DeathOp = "millstream-worker-death"

// deathWait bounds how long a worker whose connection was lost is kept for the report of its nanny. A nanny reports
// within milliseconds, unless it ended together with its worker.
const deathWait = time.Second

// MaxCause bounds the cause of a death in bytes.
const MaxCause = 1 << 10

// ReportDeath records why the process of a worker ended, such as an exit code or a memory limit, for errors of tasks
// and the log. Nannies call it. It does not remove the worker, which happens when its connection is lost. token
// identifies the process (worker.Config.DeathToken); an unknown token is ignored.
func (s *Workers) ReportDeath(ctx context.Context, token, cause string) error {
	if cause = CleanCause(cause); cause == "" || token == "" {
		return nil
	}
	return s.Loop.Do(ctx, func() {
		for _, w := range s.ByAddress {
			if w.Token == token && w.Cause == "" {
				w.Cause = cause
				close(w.Caused)
				return
			}
		}
	})
}

type deathArgs struct {
	Token string `rpc:"token"`
	Cause string `rpc:"cause"`
}

func (s *Workers) deathRPC(ctx context.Context, _ *rpc.Request, in deathArgs) (string, error) {
	return "OK", s.ReportDeath(ctx, in.Token, in.Cause)
}

// awaitCause waits for the report of a nanny about a worker whose stream has ended.
func (s *Workers) awaitCause(st *peers.Stream) {
	var wait bool
	if err := s.Loop.Do(context.Background(), func() {
		wait = !st.Gone && !st.Leaving && !s.Ending() && st.Worker != nil && st.Worker.Token != "" &&
			st.Worker.Cause == ""
	}); err != nil || !wait {
		return
	}
	t := time.NewTimer(deathWait)
	defer t.Stop()
	select {
	case <-st.Worker.Caused:
	case <-t.C:
	case <-s.Context.Done():
	}
}

// CleanCause returns a text of a peer as one short line.
func CleanCause(text string) string {
	if len(text) > MaxCause {
		text = text[:MaxCause]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		text = text[:max(0, len(text)-1)] + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
}
