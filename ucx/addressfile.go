package ucx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

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
			return nil, fmt.Errorf("ucx: address file %s: nobody has written it: %w", path, context.Cause(ctx))
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
		return nil, fmt.Errorf("ucx: address file %s is longer than %d bytes: it holds something else", path, maxAddressFile)
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
