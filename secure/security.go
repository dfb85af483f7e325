package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.millstream.dev/config"
)

// Security corresponds to Dask's class of the same name: the certificates and how they are used. Files are given by
// their paths; a text with a newline is the PEM itself.
type Security struct {
	// RequireEncryption rejects everything except tls:// (distributed.comm.require-encryption).
	RequireEncryption bool
	// CAFile is the CA's certificate (distributed.comm.tls.ca-file).
	CAFile string
	// Ciphers are OpenSSL's names of suites of TLS 1.2 (distributed.comm.tls.ciphers;
	// default: all safe ones).
	Ciphers string
	// MinVersion and MaxVersion are 1.2 or 1.3 (distributed.comm.tls.min-version, default 1.2, and max-version, default
	// the newest). Millstream peers require 1.3.
	MinVersion, MaxVersion string
	// Client, Scheduler and Worker are the files of each role
	// (distributed.comm.tls.client.cert and .key, and so on).
	Client, Scheduler, Worker KeyPair
}

// KeyPair is a certificate and its key, which may be in one file: Key is then empty.
type KeyPair struct {
	Cert, Key string
}

// FromConfig returns the Security of Dask's settings.
func FromConfig(c *config.Config) (Security, error) {
	var s Security
	var errs []error
	text := func(key string, to *string) {
		switch v := c.Get(key, nil).(type) {
		case nil:
		case string:
			*to = v
		default: // 1.2 is a number in YAML
			*to = fmt.Sprint(v)
		}
	}
	const base = "distributed.comm.tls."
	text(base+"ca-file", &s.CAFile)
	text(base+"ciphers", &s.Ciphers)
	text(base+"min-version", &s.MinVersion)
	text(base+"max-version", &s.MaxVersion)
	for _, r := range []Role{Client, Scheduler, Worker} {
		text(base+string(r)+".cert", &s.pair(r).Cert)
		text(base+string(r)+".key", &s.pair(r).Key)
	}
	if c.Get("distributed.comm.require-encryption", nil) != nil {
		var err error
		s.RequireEncryption, err = c.Bool("distributed.comm.require-encryption", false)
		errs = append(errs, err)
	}
	_, err := s.options(tlsOptions{})
	return s, errors.Join(append(errs, err)...)
}

// pair returns the files of a role; viewers connect like clients.
func (s *Security) pair(r Role) *KeyPair {
	switch r {
	case Scheduler:
		return &s.Scheduler
	case Worker:
		return &s.Worker
	}
	return &s.Client
}

// Available reports whether there are certificates for a role.
func (s *Security) Available(r Role) bool { return s.CAFile != "" && s.pair(r).Cert != "" }

// Dial returns the TLS configuration for connections of a role, for comm.DialConfig.
func (s *Security) Dial(r Role) (*tls.Config, error) {
	o, err := s.load(r)
	if err != nil {
		return nil, err
	}
	return o.dial()
}

// Listen returns the TLS configuration for listeners of a role, for comm.ListenConfig.
func (s *Security) Listen(r Role) (*tls.Config, error) {
	o, err := s.load(r)
	if err != nil {
		return nil, err
	}
	return o.listen()
}

func (s *Security) load(r Role) (o tlsOptions, err error) {
	if err := r.check(); err != nil {
		return o, err
	}
	p := s.pair(r)
	if s.CAFile == "" || p.Cert == "" {
		return o, fmt.Errorf("secure: TLS for a %s needs distributed.comm.tls.ca-file and distributed.comm.tls.%s.cert",
			r, r)
	}
	if o, err = s.options(o); err != nil {
		return o, err
	}
	for _, f := range []struct {
		to   *[]byte
		from string
	}{{&o.ca, s.CAFile}, {&o.cert, p.Cert}, {&o.key, p.Key}} {
		if strings.Contains(f.from, "\n") {
			*f.to = []byte(f.from)
		} else if f.from != "" {
			if *f.to, err = os.ReadFile(f.from); err != nil {
				return o, fmt.Errorf("secure: TLS files of a %s: %w", r, err)
			}
		}
	}
	return o, nil
}

func (s *Security) options(o tlsOptions) (tlsOptions, error) {
	var errs [3]error
	o.min, errs[0] = parseVersion("distributed.comm.tls.min-version", s.MinVersion, tls.VersionTLS12)
	o.max, errs[1] = parseVersion("distributed.comm.tls.max-version", s.MaxVersion, 0)
	o.ciphers, errs[2] = parseCiphers(s.Ciphers)
	return o, errors.Join(errs[:]...)
}
