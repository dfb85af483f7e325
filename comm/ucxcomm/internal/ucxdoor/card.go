package ucxdoor

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

// cardVersion is the form of cards. Another one is refused.
const cardVersion = 1

// maxCard bounds what is read of a card: an address has some hundred bytes for each network device.
const maxCard = 256 << 10

// Card is what a process needs to know to knock at another one. Who has it can connect, so files with one are their
// user's alone.
type Card struct {
	// Version is the card's form.
	Version int `json:"millstream-ucx"`
	// Contact is where the worker is reached.
	Contact ucx.Contact `json:"contact"`
	// Secret admits to one listener, in hex; it is empty on the card of who knocks.
	Secret string `json:"secret,omitempty"`
	// Process is whose worker it is.
	Process Process `json:"process"`
	// Host is the name of its machine.
	Host string `json:"host,omitempty"`
	// Name is what who knocks is called.
	Name string `json:"name,omitempty"`
}

// newSecret is one that nobody guesses.
func newSecret() string {
	var b [secretSize]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const secretSize = 16

func (c *Card) secret() (s [secretSize]byte, err error) {
	if n, err := hex.Decode(s[:], []byte(c.Secret[:min(len(c.Secret), 2*secretSize)])); err != nil || n != secretSize ||
		len(c.Secret) != 2*secretSize {
		return s, errors.New("its secret is not 32 hexadecimal digits")
	}
	return s, nil
}

// ParseCard reads a card. Its bytes may come from anybody.
func ParseCard(text []byte) (Card, error) {
	var c Card
	if len(text) > maxCard {
		return c, fmt.Errorf("it is longer than %d bytes", maxCard)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return Card{}, fmt.Errorf("it is no card of a UCX worker: %w", err)
	}
	switch {
	case c.Version != cardVersion:
		return Card{}, fmt.Errorf("it is a card of version %d, this program reads version %d", c.Version, cardVersion)
	case len(c.Contact.Address) == 0:
		return Card{}, errors.New("it has no address")
	case len(c.Name) > maxName || len(c.Host) > maxName:
		return Card{}, errors.New("its names are too long")
	}
	return c, nil
}

const maxName = 1 << 10

// Write leaves the card in a file, which its user alone can read, whole or not at all.
func (c *Card) Write(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ucx-card-*")
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

// ReadCard reads the card in a file. Anything but a regular file is refused unread: the path may come from a peer.
func ReadCard(path string) (Card, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return Card{}, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return Card{}, fmt.Errorf("%s is no file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCard+1))
	if err != nil {
		return Card{}, err
	}
	c, err := ParseCard(text)
	if err != nil {
		return Card{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Listening tells whether the process that left the card may still be there.
func (c *Card) Listening() bool { return c.Process.alive() == nil }

// NewName is a name for a file with a card, or for who knocks, that nobody else has.
func NewName() string { return fmt.Sprintf("%s%d-%x", namePrefix, os.Getpid(), number()) }

const namePrefix = "ucx-"

// maxSweep bounds how many files are looked at.
const maxSweep = 4096

// Sweep removes the cards in a folder, of those with a name of [NewName], whose processes have ended without doing so.
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
		if c, err := ReadCard(path); err == nil && !c.Listening() {
			_ = os.Remove(path)
		}
	}
}
