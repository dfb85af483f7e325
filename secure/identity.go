package secure

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Identity is a certificate with its key and the CA that issued it, all in PEM form.
type Identity struct {
	Cert, Key, CA []byte
}

// Dial returns the TLS configuration for connections of this identity, for comm.DialConfig.
func (id *Identity) Dial() (*tls.Config, error) { return id.options().dial() }

// Listen returns the TLS configuration for listeners of this identity, for comm.ListenConfig.
func (id *Identity) Listen() (*tls.Config, error) { return id.options().listen() }

func (id *Identity) options() tlsOptions {
	return tlsOptions{ca: id.CA, cert: id.Cert, key: id.Key, min: tls.VersionTLS12}
}

// NewRequest returns a new key, in PEM form, and a certificate request for it, in DER form, for a process that joins a
// cluster with a token.
func NewRequest(name string) (csr, keyPEM []byte, err error) {
	key, err := newKey(false)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.CertificateRequest{}
	template.Subject.CommonName = name
	if csr, err = x509.CreateCertificateRequest(rand.Reader, template, key); err != nil {
		return nil, nil, fmt.Errorf("secure: certificate request: %w", err)
	}
	keyPEM, err = marshalKey(key)
	return csr, keyPEM, err
}

func marshalKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parseKey returns the first private key in a text, which may have certificates before it.
func parseKey(text []byte) (crypto.Signer, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("no private key found")
		}
		text = rest
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
		return nil, fmt.Errorf("key of type %T cannot sign", key)
	}
}
