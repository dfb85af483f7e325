package nccl_test

import (
	"errors"
	"fmt"

	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// window makes a window of memory, works on it, and undoes it. Whether NCCL takes it depends on
// where the ranks are.
func (r *rig) window(b *mem.Buffer) error {
	lib, err := nccl.Library()
	if err != nil {
		return err
	}
	undo, ok, err := r.c.RegisterWindow(r.ctx, b)
	if lib.Version < 22700 {
		if err == nil {
			return fmt.Errorf("NCCL %v has windows", lib.Version)
		}
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("note: window", ok)
	w, err := r.c.AllReduce(r.ctx, r.s, b, b, nccl.Float32, nccl.Max)
	if err != nil {
		return err
	}
	return errors.Join(w.Wait(r.ctx), undo(r.ctx), undo(r.ctx))
}
