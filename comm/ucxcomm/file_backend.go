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
	"go.millstream.dev/comm/ucxcomm/internal/ucxmux"
	"go.millstream.dev/internal/comm/commaddr"
)

// FileScheme is the scheme of addresses that are files: ucx-file:///run/me/scheduler. A listener writes its UCX worker
// address to the file; a dialer reads it. No IP address and no socket is used, so it works without a network, and over
// fabrics without IP if the file is on a shared file system.
//
// Any process that can read the file can connect: it is only readable by its owner. Only Millstream programs support
// it.
const FileScheme = "ucx-file"

// fileBackend serves [FileScheme].
type fileBackend struct {
	settings Settings
}

var _ comm.Backend = (*fileBackend)(nil)

// newFile returns a backend with its own settings. If UCX_TLS is not set all transports except tcp are used.
func newFile(s Settings) *fileBackend {
	return &fileBackend{settings: s}
}

func (b *fileBackend) engine(ctx context.Context) (*engine, Settings, error) {
	s := b.settings
	s.byFile, s.PlainTransports = true, false
	e, err := openEngine(ctx, s)
	return e, s, err
}

// place returns the file of an address. It must be absolute: the processes of a cluster run in different directories.
func place(loc string) (string, error) {
	if !strings.HasPrefix(loc, "/") {
		return "", &comm.AddressError{Address: FileScheme + "://" + loc, Reason: "want an absolute path " +
			"of a file, such as " + FileScheme + ":///run/user/1000/scheduler"}
	}
	return filepath.Clean(loc), nil
}

// Dial connects once, without retry; comm.Dial retries.
func (b *fileBackend) Dial(ctx context.Context, loc string, cfg comm.DialConfig) (comm.Comm, error) {
	path, err := place(loc)
	if err != nil {
		return nil, comm.Permanent(err)
	}
	invitation, err := ucxmux.ReadInvitation(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			err = comm.Permanent(err)
		}
		return nil, fmt.Errorf("ucxcomm: address file: %w", err)
	}
	e, s, err := b.engine(ctx)
	if err != nil {
		if ctx.Err() == nil {
			err = comm.Permanent(err) // no UCX, or invalid settings
		}
		return nil, err
	}
	peer := commaddr.Unparse(FileScheme, path)
	local := commaddr.Unparse(FileScheme, fmt.Sprintf("%s/.%s", filepath.Dir(path), ucxmux.NewName()))
	m, err := e.connectTo(ctx, invitation, peer, local)
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

// connectTo connects to the process of an invitation.
func (e *engine) connectTo(ctx context.Context, invitation ucxmux.Invitation, peer, local string) (
	*taggedEndpoint, error,
) {
	l, err := e.mux.Dial(ctx, invitation, local)
	if err != nil {
		return nil, err
	}
	return attachTagged(ctx, e.meet, l, peer)
}

// Listen serves a file, which is created, or replaces one that was left behind. A path that ends with a slash is a
// directory, in which a file with a unique name is created, and files of killed processes are removed. Close removes
// the file.
func (b *fileBackend) Listen(ctx context.Context, loc string, cfg comm.ListenConfig) (comm.Listener, error) {
	path, err := place(loc)
	if err != nil {
		return nil, err
	}
	if cfg.Interface != "" {
		return nil, &comm.AddressError{Address: FileScheme + "://" + loc,
			Reason: fmt.Sprintf("files have no interface (%s)", cfg.Interface)}
	}
	if strings.HasSuffix(loc, "/") {
		ucxmux.Sweep(path)
		path = filepath.Join(path, ucxmux.NewName())
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

// free returns nil if a file may be written: it does not exist, or is the invitation of a process that has ended.
func free(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	invitation, err := ucxmux.ReadInvitation(path)
	if err != nil {
		return fmt.Errorf("the file exists and is not an address file; use another name: %w", err)
	}
	if invitation.Listening() {
		return errors.New("another process serves the file; use another name, or remove the file if that process is " +
			"on a machine that is off")
	}
	return nil
}

// Host returns the machine of the process that wrote the file, or this machine if that is unknown.
func (b *fileBackend) Host(loc string) (string, error) {
	path, err := place(loc)
	if err != nil {
		return "", err
	}
	if invitation, err := ucxmux.ReadInvitation(path); err == nil && invitation.Host != "" {
		return invitation.Host, nil
	}
	return os.Hostname()
}

// Resolve returns loc unchanged.
func (b *fileBackend) Resolve(_ context.Context, loc string) (string, error) { return place(loc) }

// LocalFor returns the directory of the file.
func (b *fileBackend) LocalFor(_ context.Context, loc string) (string, error) {
	path, err := place(loc)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(filepath.Dir(path), "/") + "/", nil
}

// Encrypted returns false: UCX has no encryption.
func (b *fileBackend) Encrypted() bool { return false }
