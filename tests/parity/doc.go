// Package parity keeps docs/parity.md true: each symbol and each test that it names exists.
package parity
