package pickle

import (
	"errors"
	"fmt"
	"math/big"
	"unicode/utf8"
)

func (l *loader) pushUint(size int) error {
	n, err := l.uint(size)
	if err != nil {
		return err
	}
	return l.push(int64(n))
}

// pushLong reads a two's complement, little-endian int after its count of bytes.
func (l *loader) pushLong(size int) error {
	n, err := l.uint(size)
	if err != nil {
		return err
	}
	if n > 1<<31-1 {
		return errors.New("negative byte count")
	}
	if n > uint64(l.lim.IntBytes) {
		return limitError("IntBytes", l.lim.IntBytes)
	}
	raw, err := l.take(int(n))
	if err != nil {
		return err
	}
	return l.push(longValue(raw))
}

func longValue(raw []byte) Value {
	negative := len(raw) > 0 && raw[len(raw)-1]&0x80 != 0
	if len(raw) <= 8 {
		var n uint64
		if negative {
			n = ^uint64(0)
		}
		for i := len(raw) - 1; i >= 0; i-- {
			n = n<<8 | uint64(raw[i])
		}
		return int64(n)
	}
	be := make([]byte, len(raw))
	for i, b := range raw {
		be[len(raw)-1-i] = b
	}
	x := new(big.Int).SetBytes(be)
	if negative {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return intValue(x)
}

// intValue returns the node of an int: int64 if it fits.
func intValue(x *big.Int) Value {
	if x.IsInt64() {
		return x.Int64()
	}
	return x
}

func (l *loader) pushString(size int) error {
	b, err := l.counted(size)
	if err != nil {
		return err
	}
	return l.pushText(b)
}

// pushText pushes a copy of b as a string.
func (l *loader) pushText(b []byte) error {
	if l.strBytes += len(b); l.strBytes > l.lim.StringBytes {
		return limitError("StringBytes", l.lim.StringBytes)
	}
	s := string(b)
	if !validString(s) {
		return fmt.Errorf("the str of %d bytes is not UTF-8", len(b))
	}
	return l.push(s)
}

// validString accepts UTF-8 and the three bytes of lone surrogates: Python's str may have them (file names do), and its
// pickles are written with "surrogatepass".
func validString(s string) bool {
	if utf8.ValidString(s) {
		return true
	}
	for len(s) > 0 {
		if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
			s = s[n:]
			continue
		}
		if len(s) < 3 || s[0] != 0xed || s[1]&0xe0 != 0xa0 || s[2]&0xc0 != 0x80 {
			return false
		}
		s = s[3:]
	}
	return true
}

func (l *loader) pushBytes(size int) error {
	b, err := l.counted(size)
	if err != nil {
		return err
	}
	return l.push(b)
}
