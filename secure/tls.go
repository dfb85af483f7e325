package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// tlsOptions are the options of both sides of TLS.
type tlsOptions struct {
	ca, cert, key []byte // PEM; key may be part of cert
	min, max      uint16
	ciphers       []uint16
}

func (o tlsOptions) base() (*tls.Config, *x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(o.ca) {
		return nil, nil, errors.New("secure: no certificate in the CA file (distributed.comm.tls.ca-file)")
	}
	key := o.key
	if len(key) == 0 {
		key = o.cert // Dask allows the key after the certificate
	}
	pair, err := tls.X509KeyPair(o.cert, key)
	if err != nil {
		return nil, nil, fmt.Errorf("secure: certificate and key: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   o.min, MaxVersion: o.max, CipherSuites: o.ciphers,
	}, roots, nil
}

// dial checks the listener's chain and not its name: the machines of a cluster change, and the CA only issues
// certificates to the cluster.
func (o tlsOptions) dial() (*tls.Config, error) {
	cfg, roots, err := o.base()
	if err != nil {
		return nil, err
	}
	cfg.InsecureSkipVerify = true // VerifyConnection checks the chain, and always runs
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		return verify(s, roots, x509.ExtKeyUsageServerAuth)
	}
	return cfg, nil
}

func (o tlsOptions) listen() (*tls.Config, error) {
	cfg, roots, err := o.base()
	if err != nil {
		return nil, err
	}
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, roots
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		// Again, since crypto/tls does not verify a resumed session.
		return verify(s, roots, x509.ExtKeyUsageClientAuth)
	}
	return cfg, nil
}

// verify checks the peer's chain up to the roots. A certificate without usages is valid for all, as with OpenSSL.
func verify(s tls.ConnectionState, roots *x509.CertPool, usage x509.ExtKeyUsage) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("secure: no certificate from the peer")
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// parseVersion parses distributed.comm.tls.min-version and max-version: 1.2 or 1.3.
func parseVersion(key, text string, otherwise uint16) (uint16, error) {
	switch text {
	case "":
		return otherwise, nil
	case "1.2":
		return tls.VersionTLS12, nil
	case "1.3":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("secure: %s is %q: want 1.2, 1.3 or empty", key, text)
}

// parseCiphers parses a list of cipher suites of TLS 1.2 in OpenSSL's spelling, separated by : or ,. Those of TLS 1.3
// are all secure and cannot be selected.
func parseCiphers(text string) ([]uint16, error) {
	var ids []uint16
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' || r == ' ' }) {
		if strings.HasPrefix(name, "TLS_AES_") || strings.HasPrefix(name, "TLS_CHACHA20_") {
			continue
		}
		at := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool {
			return name == c.Name || name == opensslName(c.Name)
		})
		if at < 0 {
			var known []string
			for _, c := range tls.CipherSuites() {
				if !strings.HasPrefix(c.Name, "TLS_AES_") && !strings.HasPrefix(c.Name, "TLS_CHACHA20_") {
					known = append(known, opensslName(c.Name))
				}
			}
			return nil, fmt.Errorf("secure: distributed.comm.tls.ciphers: %q is not one of the secure suites: %s", name,
				strings.Join(known, ":"))
		}
		ids = append(ids, tls.CipherSuites()[at].ID)
	}
	return ids, nil
}

// opensslName converts TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 to ECDHE-RSA-AES128-GCM-SHA256.
func opensslName(name string) string {
	name = strings.TrimPrefix(name, "TLS_")
	name = strings.Replace(name, "_WITH_", "_", 1)
	name = strings.NewReplacer("AES_128", "AES128", "AES_256", "AES256", "CHACHA20_POLY1305_SHA256",
		"CHACHA20_POLY1305").Replace(name)
	name = strings.ReplaceAll(name, "_", "-")
	return strings.ReplaceAll(name, "-CBC-", "-")
}
