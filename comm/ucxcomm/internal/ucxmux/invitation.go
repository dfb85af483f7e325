package ucxmux

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"go.millstream.dev/ucx"
)

// invitationVersion is the version of invitations. Others are rejected.
const invitationVersion = 1

// maxInvitation bounds the length of an invitation: an address has some hundred bytes for each network device.
const maxInvitation = 256 << 10

// Invitation is the information with which a process connects to another one. A process that has it can connect, so
// files with one are only readable by their owner.
type Invitation struct {
	// Version is the version of the format.
	Version int `json:"millstream-ucx"`
	// Contact is the address of the worker.
	Contact ucx.Contact `json:"contact"`
	// Secret admits to one listener, in hexadecimal; it is empty in the invitation of a dialer.
	Secret string `json:"secret,omitempty"`
	// Process is the process of the worker.
	Process Process `json:"process"`
	// Host is the name of its machine.
	Host string `json:"host,omitempty"`
	// Name is the name of a dialer.
	Name string `json:"name,omitempty"`
}

// newSecret returns a random secret.
func newSecret() string {
	var b [secretSize]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const secretSize = 16

func (c *Invitation) secret() (s [secretSize]byte, err error) {
	if n, err := hex.Decode(s[:], []byte(c.Secret[:min(len(c.Secret), 2*secretSize)])); err != nil || n != secretSize ||
		len(c.Secret) != 2*secretSize {
		return s, errors.New("secret is not 32 hexadecimal digits")
	}
	return s, nil
}

// ParseInvitation parses an invitation from an untrusted source.
func ParseInvitation(text []byte) (Invitation, error) {
	var c Invitation
	if len(text) > maxInvitation {
		return c, fmt.Errorf("longer than %d bytes", maxInvitation)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return Invitation{}, fmt.Errorf("not the address of a UCX worker: %w", err)
	}
	switch {
	case c.Version != invitationVersion:
		return Invitation{}, fmt.Errorf("version %d, want version %d", c.Version, invitationVersion)
	case len(c.Contact.Address) == 0:
		return Invitation{}, errors.New("no address")
	case len(c.Name) > maxName || len(c.Host) > maxName:
		return Invitation{}, errors.New("name too long")
	}
	return c, nil
}

const maxName = 1 << 10

// Write writes the invitation to a file atomically, readable by its owner only.
func (c *Invitation) Write(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ucx-invitation-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// ReadInvitation reads the invitation in a file. Only regular files are read: the path may have been sent by a peer.
func ReadInvitation(path string) (Invitation, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return Invitation{}, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return Invitation{}, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxInvitation+1))
	if err != nil {
		return Invitation{}, err
	}
	c, err := ParseInvitation(text)
	if err != nil {
		return Invitation{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Listening reports whether the process that wrote the invitation may still exist.
func (c *Invitation) Listening() bool { return c.Process.alive() == nil }

// NewName returns a unique name for a file with an invitation, or for a dialer.
func NewName() string { return fmt.Sprintf("%s%d-%x", namePrefix, os.Getpid(), number()) }

const namePrefix = "ucx-"

// maxSweep bounds the number of files that are checked.
const maxSweep = 4096

// Sweep removes the invitations in a directory, of those with a name of [NewName], whose processes have ended.
func Sweep(folder string) {
	f, err := os.Open(folder)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxSweep)
	for _, name := range names {
		path := filepath.Join(folder, name)
		if !strings.HasPrefix(name, namePrefix) {
			continue
		}
		if c, err := ReadInvitation(path); err == nil && !c.Listening() {
			_ = os.Remove(path)
		}
	}
}
