package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm/internal/ucxdoor"
	"go.millstream.dev/internal/comm/commaddr"
)

// FileScheme is the scheme of addresses that are files: ucx-file:///run/me/scheduler. Who listens leaves its UCX worker
// address in the file; who dials reads it there. No IP address and no socket is used, so they work where there is no
// network at all, and over fabrics that speak no IP where the file is on a shared file system.
//
// Who can read the file can connect: it is made for its user alone. Only Millstream programs meet so.
const FileScheme = "ucx-file"

// fileBackend serves [FileScheme].
type fileBackend struct {
	settings Settings
}

var _ comm.Backend = (*fileBackend)(nil)

// newFile makes a backend with settings of its own. Without a choice of UCX_TLS all transports but tcp are used.
func newFile(s Settings) *fileBackend {
	return &fileBackend{settings: s}
}

func (b *fileBackend) engine(ctx context.Context) (*engine, Settings, error) {
	s := b.settings
	s.byFile, s.PlainLanes = true, false
	e, err := openEngine(ctx, s)
	return e, s, err
}

// place is the file of an address. An absolute one: the processes of a cluster run in different folders.
func place(loc string) (string, error) {
	if !strings.HasPrefix(loc, "/") {
		return "", &comm.AddressError{Address: FileScheme + "://" + loc, Reason: "want the path of a file from the " +
			"root, such as " + FileScheme + ":///run/user/1000/scheduler"}
	}
	return filepath.Clean(loc), nil
}

// Dial connects once, without retry; comm.Dial is what retries.
func (b *fileBackend) Dial(ctx context.Context, loc string, cfg comm.DialConfig) (comm.Comm, error) {
	path, err := place(loc)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	card, err := ucxdoor.ReadCard(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			err = comm.Permanent(err)
		}
		return nil, fmt.Errorf("ucxcomm: address file: %w", err)
	}
	e, s, err := b.engine(ctx)
	if err != nil {
		if ctx.Err() == nil {
			err = comm.Permanent(err) // no UCX, or settings that it refuses
		}
		return nil, err
	}
	peer := commaddr.Unparse(FileScheme, path)
	local := commaddr.Unparse(FileScheme, fmt.Sprintf("%s/.%s", filepath.Dir(path), ucxdoor.NewName()))
	m, err := e.knock(ctx, card, peer, local)
	if err != nil {
		e.release()
		return nil, fmt.Errorf("ucxcomm: address file %s: %w", path, err)
	}
	c := newConn(e, s, m, local, peer, cfg.Limits, cfg.Device)
	if err := c.handshake(ctx, cfg.Compression, cfg.Invitation, nil, true); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

// knock meets the process that a card is of.
func (e *engine) knock(ctx context.Context, card ucxdoor.Card, peer, local string) (*meeting, error) {
	l, err := e.porch.door.Dial(ctx, card, local)
	if err != nil {
		return nil, err
	}
	return meetOver(ctx, e.meet, l, peer)
}

// Listen serves a file, which is made, or replaces one that was left behind. A path that ends with a slash is a folder,
// in which a file with a name of its own is made, and those of processes that were killed are removed. Close removes
// the file.
func (b *fileBackend) Listen(ctx context.Context, loc string, cfg comm.ListenConfig) (comm.Listener, error) {
	path, err := place(loc)
	if err != nil {
		return nil, err
	}
	if cfg.Interface != "" {
		return nil, &comm.AddressError{Address: FileScheme + "://" + loc,
			Reason: fmt.Sprintf("it has no interface (%s)", cfg.Interface)}
	}
	if strings.HasSuffix(loc, "/") {
		ucxdoor.Sweep(path)
		path = filepath.Join(path, ucxdoor.NewName())
	}
	if err := free(path); err != nil {
		return nil, fmt.Errorf("ucxcomm: listen on %s://%s: %w", FileScheme, path, err)
	}
	e, s, err := b.engine(ctx)
	if err != nil {
		return nil, err
	}
	l, err := newFileListener(e, s, path, cfg)
	if err != nil {
		e.release()
		return nil, fmt.Errorf("ucxcomm: listen on %s://%s: %w", FileScheme, path, err)
	}
	return l, nil
}

// free tells whether a file may be written: it is none, or the card of a process that has ended.
func free(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	card, err := ucxdoor.ReadCard(path)
	if err != nil {
		return fmt.Errorf("there is a file that is something else; name another one: %w", err)
	}
	if card.Listening() {
		return errors.New("another process serves it; name another file, or remove this one if that process is on a " +
			"machine that is off")
	}
	return nil
}

// Host is the machine on which the process is that left the file, this one where that is not known.
func (b *fileBackend) Host(loc string) (string, error) {
	path, err := place(loc)
	if err != nil {
		return "", err
	}
	if card, err := ucxdoor.ReadCard(path); err == nil && card.Host != "" {
		return card.Host, nil
	}
	return os.Hostname()
}

// Resolve changes nothing.
func (b *fileBackend) Resolve(_ context.Context, loc string) (string, error) { return place(loc) }

// LocalFor is the folder of the file.
func (b *fileBackend) LocalFor(_ context.Context, loc string) (string, error) {
	path, err := place(loc)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(filepath.Dir(path), "/") + "/", nil
}

// Encrypted is false: UCX has no encryption.
func (b *fileBackend) Encrypted() bool { return false }
