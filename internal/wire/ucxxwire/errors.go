package ucxxwire

import (
	"errors"
	"fmt"
)

// ErrChecksum is returned for a peer info with a wrong check value. It usually means that the peer is not UCXX, or that
// another message was read in place of the peer info.
var ErrChecksum = errors.New("checksum mismatch")

// ErrLimit is returned for a well-formed message beyond the limits of the receiver, so that the caller can name the
// option that raises them.
var ErrLimit = errors.New("over the receiver's limit")

// FieldError is returned for an invalid field of a wire format: the peer info, the active-message header and the
// multi-buffer header.
type FieldError struct {
	// Format is the wire format: "peer info", "UCX-Py peer info",
	// "AM header" or "multi-buffer header".
	Format string
	// Field is the field of the format, or "length" for the whole message.
	Field string
	// Detail describes what was found and what was expected.
	Detail string
	// Err is ErrChecksum, ErrLimit or nil.
	Err error
}

// Error returns the format, the field and the problem.
func (e *FieldError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("ucxx %s: field %s: %s: %v", e.Format, e.Field, e.Detail, e.Err)
	}
	return fmt.Sprintf("ucxx %s: field %s: %s", e.Format, e.Field, e.Detail)
}

// Unwrap returns the class of the error, for errors.Is.
func (e *FieldError) Unwrap() error { return e.Err }

func fieldErr(format, field, detail string, args ...any) error {
	return &FieldError{Format: format, Field: field, Detail: fmt.Sprintf(detail, args...)}
}

func limitErr(format, field, detail string, args ...any) error {
	return &FieldError{Format: format, Field: field, Detail: fmt.Sprintf(detail, args...), Err: ErrLimit}
}
