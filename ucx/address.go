package ucx

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"unsafe"

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

// NetAddress returns an address without shared memory: who connects with it uses the
// network even on this host.
func (w *Worker) NetAddress() (WorkerAddress, error) { return w.address(true) }

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
		return fmt.Errorf("ucx: empty worker address: %w", ErrInvalidAddr)
	}
	if len(a) > maxWorkerAddress {
		return fmt.Errorf("ucx: worker address of %d bytes exceeds %d: %w", len(a), maxWorkerAddress, ErrInvalidAddr)
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
