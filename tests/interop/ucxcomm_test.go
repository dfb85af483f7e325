package interop

import (
	"testing"

	"go.millstream.dev/tests/interop/pypeer"
)

// ucxMessages are the buffers of messages: none, small, empty ones among them, 10 MiB,
// many.
var ucxMessages = map[string][]int{
	"none":   {},
	"small":  {10},
	"mixed":  {0, 1, 0, 5000, 70_000, 0},
	"10 MiB": {10 << 20},
	"few":    frameSizes(40),
	"many":   frameSizes(300),
}

// Dask messages of all shapes go both ways, whoever dialled.
func TestUCXCommMessages(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		if m := l.c.Info(); m.Millstream != nil || len(m.Python) != 3 || m.PickleProtocol != 5 {
			l.Errorf("the handshake agreed on %+v", m)
		}
		if !l.their.Matched {
			l.Error("Python did not get the millstream key")
		}
		for name, sizes := range ucxMessages {
			// UCXX's receive of more than 100 multi-buffer frames crashes or hangs.
			if l.settings.MultiBuffer && len(sizes) > 49 {
				continue
			}
			read := l.post("read", l.command(nil))
			if err := l.c.Write(l.ctx, ucxDaskMessage(name, sizes)); err != nil {
				l.Fatalf("%s: %v", name, err)
			}
			a := l.wait(read)
			if a.Message != name {
				l.Errorf("the peer read %q instead of %q", a.Message, name)
			}
			if err := checkNoise(a.Frames, sizes); err != nil {
				l.Errorf("%s: %v", name, err)
			}
			write := l.post("write", l.command(pypeer.Command{"text": name, "frames": frameSpecs(sizes)}))
			m, err := l.c.Read(l.ctx)
			if err != nil {
				l.Fatalf("%s: %v", name, err)
			}
			if err := checkUCXMessage(m, name, sizes); err != nil {
				l.Errorf("%s: %v", name, err)
			}
			m.Release()
			l.wait(write)
		}
	})
}
