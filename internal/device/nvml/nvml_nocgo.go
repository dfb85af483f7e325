//go:build !cgo

package nvml

import "fmt"

// Library is the open library.
type Library struct{}

// Device is a GPU of a Library.
type Device struct{}

// Open returns an error: a program without cgo cannot load the library.
func Open() (*Library, error) {
	return nil, fmt.Errorf("%w: program built without cgo; build it with CGO_ENABLED=1", ErrUnavailable)
}

// Close does nothing.
func (*Library) Close() error { return nil }

// ByIndex returns ErrUnavailable.
func (*Library) ByIndex(int) (Device, error) { return Device{}, ErrUnavailable }

// ByUUID returns ErrUnavailable.
func (*Library) ByUUID(string) (Device, error) { return Device{}, ErrUnavailable }

// UUID returns ErrUnavailable.
func (Device) UUID() (string, error) { return "", ErrUnavailable }

// Name returns ErrUnavailable.
func (Device) Name() (string, error) { return "", ErrUnavailable }

func (*Library) count() (int, error)                    { return 0, ErrUnavailable }
func (Device) address() (string, error)                 { return "", ErrUnavailable }
func (Device) memory() (used, total int64, err error)   { return 0, 0, ErrUnavailable }
func (Device) utilization() (int, error)                { return 0, ErrUnavailable }
func (Device) link(int) (bool, error)                   { return false, ErrUnavailable }
func (Device) migEnabled() bool                         { return false }
func (Device) instances() (int, error)                  { return 0, ErrUnavailable }
func (Device) instance(int) (Device, error)             { return Device{}, ErrUnavailable }
func (Device) instanceIDs() (gpu, compute int, e error) { return 0, 0, ErrUnavailable }
