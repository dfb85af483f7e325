package ucxcomm

import (
	"context"
	"os"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm/internal/ucxdoor"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
)

// fileListener accepts comms of those who have read its file. It owns the file and a reference to the engine.
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
	card, stop := e.porch.door.Listen(l.serve)
	l.secret, l.stop = card.Secret, stop
	if err := card.Write(path); err != nil {
		stop()
		l.gate.Close()
		return nil, err
	}
	return l, nil
}

// serve takes a line of somebody who has the file.
func (l *fileListener) serve(line *ucxdoor.Line) {
	l.gate.Admit(
		func(ctx context.Context) (comm.Comm, error) { return l.admit(ctx, line) },
		func() { _ = line.Close() },
	)
}

func (l *fileListener) admit(ctx context.Context, line *ucxdoor.Line) (comm.Comm, error) {
	m, err := meetOver(ctx, l.engine.meet, line, line.Name())
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
		// not one that has replaced it
		if card, err := ucxdoor.ReadCard(l.path); err == nil && card.Secret == l.secret {
			_ = os.Remove(l.path)
		}
		l.gate.Close()
		l.engine.release()
	})
	return nil
}
