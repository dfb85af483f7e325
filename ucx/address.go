package ucx

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/ucx/internal/netif"
	"go.millstream.dev/ucx/internal/ucp"
)

// WorkerAddress is the address of a worker in UCX's own form: opaque bytes with which a peer connects without an IP
// address. It can be exchanged by file, message or DNS record; see MarshalText and MarshalBinary.
type WorkerAddress []byte

// maxWorkerAddress bounds addresses received from peers. Typical addresses have tens to a few hundred bytes; many rails
// make a few kilobytes.
const maxWorkerAddress = 64 << 10

// textPrefix marks the text form and its version.
const textPrefix = "ucx1:"

// Address returns the worker's address.
func (w *Worker) Address() (WorkerAddress, error) { return w.address(false) }

func (w *Worker) address(netOnly bool) (WorkerAddress, error) {
	size := 1024
	for {
		buf := ucp.Malloc(size)
		n := 0
		err := w.drv.call("worker address", ucp.CallWorkerAddress, func(s *ucp.Slot) {
			s.Hdr, s.HdrLen = uintptr(buf), uint64(size)
			if netOnly {
				s.Arg[0] = 1
			}
		}, func(s *ucp.Slot) { n = int(s.RLen) })
		if err != nil || n <= size {
			var a WorkerAddress
			if err == nil {
				a = append(a, unsafe.Slice((*byte)(buf), n)...)
			}
			ucp.FreeMemory(buf)
			return a, err
		}
		ucp.FreeMemory(buf)
		size = n
	}
}

// MarshalBinary returns the bytes with a checksum in front, so that a damaged address is rejected instead of being
// passed to UCX, which does not validate it.
func (a WorkerAddress) MarshalBinary() ([]byte, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	return append(checksum(a), a...), nil
}

// UnmarshalBinary reverses MarshalBinary.
func (a *WorkerAddress) UnmarshalBinary(b []byte) error {
	if len(b) < 8 {
		return fmt.Errorf("ucx: worker address of %d bytes is too short", len(b))
	}
	body := WorkerAddress(b[8:])
	if err := body.check(); err != nil {
		return err
	}
	if string(checksum(body)) != string(b[:8]) {
		return fmt.Errorf("ucx: worker address is damaged: checksum does not match its %d bytes", len(body))
	}
	*a = append(WorkerAddress(nil), body...)
	return nil
}

// MarshalText returns "ucx1:" followed by base64: one word, suitable for files, environment variables and DNS TXT
// records.
func (a WorkerAddress) MarshalText() ([]byte, error) {
	b, err := a.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.AppendEncode([]byte(textPrefix), b), nil
}

// UnmarshalText reverses MarshalText.
func (a *WorkerAddress) UnmarshalText(t []byte) error {
	if len(t) < len(textPrefix) || string(t[:len(textPrefix)]) != textPrefix {
		return fmt.Errorf("ucx: worker address text must start with %q", textPrefix)
	}
	if len(t) > 2*maxWorkerAddress {
		return fmt.Errorf("ucx: worker address text of %d bytes is too long", len(t))
	}
	b, err := base64.RawURLEncoding.AppendDecode(nil, t[len(textPrefix):])
	if err != nil {
		return fmt.Errorf("ucx: worker address text: %w", err)
	}
	return a.UnmarshalBinary(b)
}

func (a WorkerAddress) check() error {
	if len(a) == 0 {
		return fmt.Errorf("ucx: empty worker address: %w", errInvalidAddr)
	}
	if len(a) > maxWorkerAddress {
		return fmt.Errorf("ucx: worker address of %d bytes exceeds %d: %w", len(a), maxWorkerAddress, errInvalidAddr)
	}
	return nil
}

func checksum(b []byte) []byte {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum(nil)
}

// short returns a fingerprint for error messages.
func (a WorkerAddress) short() string { return fmt.Sprintf("%x", checksum(a)[:4]) }

// String returns the text form.
func (a WorkerAddress) String() string {
	t, err := a.MarshalText()
	if err != nil {
		return "invalid worker address"
	}
	return string(t)
}

// Address returns the IP address of a network interface, for a listener to bind to or to announce to a peer. It
// corresponds to get_address of UCX-Py and UCXX.
//
// An empty ifname means the environment variable MILLSTREAM_IFNAME, then UCXPY_IFNAME, and if both are empty the first
// interface that is up and has an address, in the order InfiniBand (ib*), Ethernet (eth*, en*), then all others by
// name, without those that only reach containers of this host (docker*, veth*, …). The loopback interface is the last
// resort. Both variables are read at each call.
//
// IPv4 addresses are preferred to IPv6, and global IPv6 addresses to link-local ones, which are returned with their
// zone. The error names the existing interfaces.
func Address(ifname string) (netip.Addr, error) { return netif.Address(ifname) }

// maxAddressFile bounds the bytes read from a file; addresses have a few hundred bytes for each network device.
const maxAddressFile = 1 << 20

// WriteFile writes the address, as text, to a file that [ReadAddressFile] of another process waits for. It connects
// processes over a shared directory, without IP addresses. The file is created atomically. Any process that can read it
// can send to the worker.
func (a WorkerAddress) WriteFile(path string) error {
	text, err := a.MarshalText()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ucx-address-*") // readable by its owner only
	if err != nil {
		return fmt.Errorf("ucx: address file: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("ucx: address file: %w", err)
	}
	return nil
}

// ReadAddressFile reads the address that a worker wrote with [WorkerAddress.WriteFile], and
// waits for the file until ctx ends.
func ReadAddressFile(ctx context.Context, path string) (WorkerAddress, error) {
	for {
		f, err := os.Open(path)
		if err == nil {
			defer f.Close()
			return parseAddressFile(path, f)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("ucx: address file: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ucx: address file %s: not written in time: %w", path, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func parseAddressFile(path string, r io.Reader) (WorkerAddress, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxAddressFile+1))
	if err != nil {
		return nil, fmt.Errorf("ucx: address file: %w", err)
	}
	if len(text) > maxAddressFile {
		return nil, fmt.Errorf("ucx: address file %s is longer than %d bytes: not a worker address", path,
			maxAddressFile)
	}
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	var a WorkerAddress
	if err := a.UnmarshalText(text); err != nil {
		return nil, fmt.Errorf("ucx: address file %s: %w", path, err)
	}
	return a, nil
}

// Contact has what another process needs to connect to a worker by address and to choose the address that works between
// the two. It is exchanged out of band, for example by [Worker.Dial] over the lifeline.
type Contact struct {
	// Address is the worker's full address.
	Address WorkerAddress `json:"address,omitempty"`
	// Net is the part of Address that uses the network, without shared memory; empty without a network.
	Net WorkerAddress `json:"net,omitempty"`
	// Major and Minor are the UCX release.
	Major uint16 `json:"major,omitempty"`
	Minor uint16 `json:"minor,omitempty"`
	// Home identifies the machine since its boot and the network namespace; 0 if unknown.
	Home uint64 `json:"home,omitempty"`
}

// Contact returns the contact of this worker.
func (w *Worker) Contact() (Contact, error) {
	address, err := w.Address()
	if err != nil {
		return Contact{}, err
	}
	net, err := w.address(true)
	if err != nil {
		net = nil // no network device: a namespace without interfaces
	}
	lib := w.ctx.lib
	return Contact{Address: address, Net: net, Major: uint16(lib.Major), Minor: uint16(lib.Minor), Home: home()}, nil
}

// Route returns the address to pass to [Worker.Connect]. It leaves out shared memory in two cases in which the
// processes would hang:
//
//   - UCX up to 1.15 and UCX from 1.16 on have incompatible shared-memory formats.
//   - A sleeping process is woken through an abstract Unix socket, which is not visible from another network
//     namespace, such as that of another container, even where the memory itself is shared.
func (w *Worker) Route(c Contact) WorkerAddress { return c.route(w.ctx.lib, home()) }

func (c Contact) route(mine *LibraryInfo, at uint64) WorkerAddress {
	theirsNew := c.Major > 1 || c.Major == 1 && c.Minor >= 16
	apart := c.Home != 0 && at != 0 && c.Home != at
	if (apart || theirsNew != mine.AtLeast(1, 16)) && len(c.Net) > 0 {
		return c.Net
	}
	return c.Address
}

// home identifies this machine since its boot and the network namespace of this process.
var home = sync.OnceValue(func() uint64 {
	id := hostid.In("net")
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
})
