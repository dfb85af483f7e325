package comm

import (
	"errors"
	"fmt"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/secure"
)

// FromConfig returns both configurations for a role from Dask's settings: distributed.comm.timeouts.connect and .tcp,
// distributed.comm.compression, distributed.comm.require-encryption and distributed.comm.tls.*. Without certificates
// for the role, TLS is nil. Of Millstream's own settings it reads millstream.comm.staged and .staged-stripes.
func FromConfig(c *config.Config, role secure.Role) (DialConfig, ListenConfig, error) {
	s, err := secure.FromConfig(c)
	if err != nil {
		return DialConfig{}, ListenConfig{}, err
	}
	return FromSecurity(c, s, role)
}

// FromSecurity is FromConfig with the certificates of s in place of those of the configuration.
func FromSecurity(c *config.Config, s secure.Security, role secure.Role) (DialConfig, ListenConfig, error) {
	var d DialConfig
	var errs [4]error
	d.Timeout, errs[0] = c.Duration("distributed.comm.timeouts.connect", DefaultConnectTimeout)
	d.TCPTimeout, errs[1] = c.Duration("distributed.comm.timeouts.tcp", 0)
	switch v := c.Get("distributed.comm.compression", nil).(type) {
	case nil:
	case bool:
		if v {
			errs[2] = errors.New("comm: distributed.comm.compression is true: use a name, such as lz4, or auto")
		}
	case string:
		d.Compression = v
		if _, err := compress.Parse(v); err != nil {
			errs[2] = fmt.Errorf("comm: %w", err)
		}
	default:
		errs[2] = fmt.Errorf("comm: distributed.comm.compression is %v: use a name, such as lz4, or auto", v)
	}
	d.Staged, errs[3] = stagedFromConfig(c)
	var err error
	if err := errors.Join(errs[:]...); err != nil {
		return DialConfig{}, ListenConfig{}, err
	}
	d.RequireEncryption = s.RequireEncryption
	l := ListenConfig{TCPTimeout: d.TCPTimeout, Compression: d.Compression, RequireEncryption: d.RequireEncryption,
		Staged: d.Staged}
	if s.Available(role) {
		if d.TLS, err = s.Dial(role); err != nil {
			return DialConfig{}, ListenConfig{}, err
		}
		if l.TLS, err = s.Listen(role); err != nil {
			return DialConfig{}, ListenConfig{}, err
		}
	} else if s.RequireEncryption {
		return DialConfig{}, ListenConfig{}, fmt.Errorf("comm: distributed.comm.require-encryption is set, but there "+
			"is no certificate for a %s (distributed.comm.tls.ca-file, distributed.comm.tls.%s.cert)", role, role)
	}
	return d, l, nil
}

func stagedFromConfig(c *config.Config) (s StagedConfig, err error) {
	const mode, stripes = "millstream.comm.staged", "millstream.comm.staged-stripes"
	switch v := c.Get(mode, nil).(type) {
	case nil:
	case bool: // on and off in YAML
		s.Mode = StagedOff
		if v {
			s.Mode = StagedOn
		}
	case string:
		s.Mode, err = parseStagedMode(v)
	default:
		err = fmt.Errorf("comm: %s is %v: use auto, on or off", mode, v)
	}
	if err != nil {
		return s, err
	}
	n, err := c.Int(stripes, 0)
	if err == nil && (n < 0 || n > MaxStripes) {
		err = fmt.Errorf("comm: %s is %d: use 1 to %d", stripes, n, MaxStripes)
	}
	s.Stripes = int(n)
	return s, err
}
