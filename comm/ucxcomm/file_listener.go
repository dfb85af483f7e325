package ucxcomm

import (
	"context"
	"os"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm/internal/ucxmux"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
)

// fileListener accepts comms of processes that have read its file. It owns the file and a reference to the engine.
type fileListener struct {
	engine   *engine
	settings Settings
	path     string
	secret   string
	address  string
	cfg      comm.ListenConfig
	gate     *handshake.Gate
	stop     func()
	once     sync.Once
}

func newFileListener(e *engine, s Settings, path string, cfg comm.ListenConfig) (*fileListener, error) {
	l := &fileListener{engine: e, settings: s, path: path, address: commaddr.Unparse(FileScheme, path), cfg: cfg,
		gate: handshake.NewGate(cfg.Limits)}
	invitation, stop := e.mux.Listen(l.serve)
	l.secret, l.stop = invitation.Secret, stop
	if err := invitation.Write(path); err != nil {
		stop()
		l.gate.Close()
		return nil, err
	}
	return l, nil
}

// serve serves a control connection of a process that has read the file.
func (l *fileListener) serve(line *ucxmux.Conn) {
	l.gate.Admit(
		func(ctx context.Context) (comm.Comm, error) { return l.admit(ctx, line) },
		func() { _ = line.Close() },
	)
}

func (l *fileListener) admit(ctx context.Context, line *ucxmux.Conn) (comm.Comm, error) {
	m, err := attachTagged(ctx, l.engine.meet, line, line.Name())
	if err != nil {
		return nil, err
	}
	c := newConn(l.engine.retain(), l.settings, m, l.address, line.Name(), l.cfg.Limits, l.cfg.Device)
	if err := c.handshake(ctx, l.cfg.Compression, nil, l.cfg.Admit, false); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

func (l *fileListener) Accept(ctx context.Context) (comm.Comm, error) { return l.gate.Accept(ctx) }

func (l *fileListener) ListenAddr() string  { return l.address }
func (l *fileListener) ContactAddr() string { return l.address }

func (l *fileListener) Close() error {
	l.once.Do(func() {
		l.stop()
		// not a file that has replaced it
		if invitation, err := ucxmux.ReadInvitation(l.path); err == nil && invitation.Secret == l.secret {
			_ = os.Remove(l.path)
		}
		l.gate.Close()
		l.engine.release()
	})
	return nil
}
