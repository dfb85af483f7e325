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

// WorkerAddress is the address of a worker as UCX makes it: opaque bytes that let a
// peer connect without any IP address. It travels by file, message, DNS record: see
// MarshalText and MarshalBinary.
type WorkerAddress []byte

// maxWorkerAddress bounds what is accepted from outside. Real ones have tens to a
// few hundred bytes; many rails make a few kilobytes.
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

// MarshalBinary returns the bytes with a checksum in front, so that a damaged
// address is refused instead of being handed to UCX, which trusts it.
func (a WorkerAddress) MarshalBinary() ([]byte, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	return append(checksum(a), a...), nil
}

// UnmarshalBinary is the reverse of MarshalBinary.
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

// MarshalText returns "ucx1:" and base64: one word, fit for files, environment
// variables and DNS TXT records.
func (a WorkerAddress) MarshalText() ([]byte, error) {
	b, err := a.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.AppendEncode([]byte(textPrefix), b), nil
}

// UnmarshalText is the reverse of MarshalText.
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

// short is a fingerprint for errors.
func (a WorkerAddress) short() string { return fmt.Sprintf("%x", checksum(a)[:4]) }

// String returns the text form.
func (a WorkerAddress) String() string {
	t, err := a.MarshalText()
	if err != nil {
		return "invalid worker address"
	}
	return string(t)
}

// Address returns the IP address of a network interface, for a listener to bind
// to or to tell to a peer. It is UCX-Py's and UCXX's get_address.
//
// An empty ifname means the environment variable MILLSTREAM_IFNAME, then
// UCXPY_IFNAME, and if both are empty the first interface that is up and has an
// address, in the order InfiniBand (ib*), Ethernet (eth*, en*), then all others
// by name, without those that only reach containers of this host (docker*, veth*,
// …). The loopback interface is the last resort. Both variables are read at each
// call.
//
// An IPv4 address is preferred to IPv6, and a global IPv6 address to a link-local
// one, which comes with its zone. The error names the interfaces that exist.
func Address(ifname string) (netip.Addr, error) { return netif.Address(ifname) }

// maxAddressFile bounds what is read of a file; addresses have a few hundred bytes for each
// network device.
const maxAddressFile = 1 << 20

// WriteFile writes the address, as text, to a file that [ReadAddressFile] of another process
// waits for: connections without any IP address, over a shared folder. The file appears whole
// or not at all. Whoever can read it can send to the worker.
func (a WorkerAddress) WriteFile(path string) error {
	text, err := a.MarshalText()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ucx-address-*") // readable by its user alone
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
		return nil, fmt.Errorf("ucx: address file %s is longer than %d bytes: it holds something else", path,
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

// Contact is what another process needs to reach a worker by address, and to choose the address that works between
// the two. It is exchanged out of band, by [Worker.Dial] over the lifeline, say.
type Contact struct {
	// Address is the worker's whole address.
	Address WorkerAddress `json:"address,omitempty"`
	// Net is the part of it that goes over the network, without shared memory; empty where there is no network.
	Net WorkerAddress `json:"net,omitempty"`
	// Major and Minor are the release of UCX.
	Major uint16 `json:"major,omitempty"`
	Minor uint16 `json:"minor,omitempty"`
	// Home identifies the machine since its start and the network namespace in it; 0 if that is not known.
	Home uint64 `json:"home,omitempty"`
}

// Contact describes this worker.
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

// Route picks the address to [Worker.Connect] with. Shared memory is left out of it in two cases, in which processes
// that meet over it hang:
//
//   - That of UCX up to 1.15 and that from 1.16 on do not understand each other.
//   - A process that sleeps is woken through a Unix socket without a file, and such a socket is not seen from another
//     network namespace, that of another container say, even where the memory itself is shared.
func (w *Worker) Route(c Contact) WorkerAddress { return c.route(w.ctx.lib, home()) }

func (c Contact) route(mine *LibraryInfo, at uint64) WorkerAddress {
	theirsNew := c.Major > 1 || c.Major == 1 && c.Minor >= 16
	apart := c.Home != 0 && at != 0 && c.Home != at
	if (apart || theirsNew != mine.AtLeast(1, 16)) && len(c.Net) > 0 {
		return c.Net
	}
	return c.Address
}

// home identifies this machine since its start and this process' network namespace.
var home = sync.OnceValue(func() uint64 {
	id := hostid.In("net")
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
})
